//! Snapshots of the documents of the page, and of the metrics.

use std::time::Duration;

use insta::assert_snapshot;
use openmetrics_parser::prometheus::parse_prometheus;

use super::action_document::{self, Runs};
use super::{metrics, overview};
use crate::lease::instant::BootInstant;
use crate::locks::snapshot::TimedSnapshot;
use crate::report::tests::records::{
    HOSTILE, HOSTILE_NAME, slots_and_readers, snapshot, states, texts, waiters,
};
use crate::store::{LockRecord, Waiter};

const INTERVAL: Duration = Duration::from_secs(2);

fn latest(locks: &[LockRecord], waiters: &[Waiter]) -> TimedSnapshot {
    let at = BootInstant::new(Duration::ZERO);
    TimedSnapshot::new(
        snapshot(locks, waiters),
        at,
        at,
        Duration::from_secs(1_795_166_999),
    )
}

/// Returns the document `/overview.json`.
fn overview(latest: &TimedSnapshot) -> String {
    let mut bytes = Vec::new();
    overview::write(latest, INTERVAL, &mut bytes).expect("memory can be written");
    String::from_utf8(bytes).expect("the document is text")
}

/// Returns JSON with a newline between every two members.
fn by_member(json: &str) -> String {
    json.replace(",\"", ",\n\"").replace("},{", "},\n{")
}

#[test]
fn overview_of_every_state() {
    assert_snapshot!(by_member(&overview(&latest(&states(), &waiters()))));
}

/// One statement reads the server's time, and a later one reads the waiting times.
#[test]
fn overview_does_not_change_with_the_delay_between_two_statements() {
    let overview = |delay: u64| {
        let mut waiters = waiters();
        for waiter in &mut waiters {
            waiter.waiting_for += Duration::from_millis(300 + delay);
        }
        overview(&latest(&states(), &waiters))
    };
    assert_eq!(overview(2), overview(0));
}

#[test]
fn document_of_every_state_has_advice_and_commands() {
    let latest = latest(&states(), &waiters());
    let runs = Runs {
        read: latest.received,
        entries: Vec::new(),
    };
    let advice = |record: &LockRecord| {
        let text = action_document::document(record, &latest, &runs, latest.received)
            .expect("the document serializes");
        let value: serde_json::Value = serde_json::from_str(&text).expect("the document is JSON");
        let commands = value["commands"].as_array().expect("a list").iter();
        let lines: Vec<_> = commands
            .map(|command| format!("  {} # {}\n", command["line"], command["purpose"]))
            .collect();
        format!(
            "{}: {}\n  {}\n{}",
            record.action,
            value["lock"]["diagnosis_text"],
            value["advice"],
            lines.concat()
        )
    };
    let texts: Vec<_> = latest.snapshot.locks.iter().map(advice).collect();
    assert_snapshot!(texts.join("\n"));
}

#[test]
fn lines_and_metrics_of_actions_with_several_holders() {
    let latest = latest(&slots_and_readers(), &[]);
    let text = metrics::text(&latest);
    let about_slots = |line: &&str| line.contains("_holders") || line.contains("_slots");
    let metrics: Vec<&str> = text.lines().filter(about_slots).collect();
    assert_snapshot!(format!(
        "{}\n{}",
        overview(&latest).replace('{', "\n{"),
        metrics.join("\n")
    ));
}

#[test]
fn metrics_of_every_state() {
    let text = metrics::text(&latest(&states(), &waiters()));
    parse_prometheus(&text).expect("the metrics are valid");
    assert_snapshot!(text);
}

#[test]
fn hostile_names_stay_in_their_labels() {
    let (record, waiter) = texts(HOSTILE_NAME, HOSTILE);
    let latest = latest(&[record], &[waiter]);
    let text = metrics::text(&latest);
    let metrics = parse_prometheus(&text).expect("the metrics are valid");
    let family = &metrics.families["dlock_action_held"];
    let sample = family.iter_samples().next().expect("a sample");
    let labels = sample.get_labelset().expect("the sample has labels");
    assert_eq!(labels.get_label_value("action"), Some(HOSTILE_NAME));
}
