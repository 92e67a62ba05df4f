//! Snapshots of the documents of the page, and of the metrics.

use std::io;
use std::time::Duration;

use insta::assert_snapshot;
use openmetrics_parser::prometheus::parse_prometheus;

use super::action_document::{self, Runs};
use super::metrics;
use super::overview::Overview;
use crate::lease::instant::BootInstant;
use crate::locks::snapshot::TimedSnapshot;
use crate::report::tests::records::{
    HOSTILE, HOSTILE_NAME, slots_and_readers, snapshot, states, texts, waiters,
};
use crate::store::{LockRecord, Waiter};

const INTERVAL: Duration = Duration::from_secs(2);

pub(super) fn latest(locks: &[LockRecord], waiters: &[Waiter]) -> TimedSnapshot {
    let at = BootInstant::new(Duration::ZERO);
    TimedSnapshot::new(
        snapshot(locks, waiters),
        at,
        at,
        Duration::from_secs(1_795_166_999),
    )
}

/// Returns what `write` writes.
fn written(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
    let mut bytes = Vec::new();
    write(&mut bytes).expect("memory can be written");
    String::from_utf8(bytes).expect("the event is text")
}

/// Returns JSON with a newline between every two members.
fn by_member(json: &str) -> String {
    json.replace(",\"", ",\n\"").replace("},{", "},\n{")
}

#[test]
fn event_with_all_lines() {
    let latest = latest(&states(), &waiters());
    let event = written(|out| Overview::new(&latest, INTERVAL).write_all(out));
    assert!(event.ends_with("\n\n"), "{event}");
    assert_eq!(event.trim_end().lines().count(), 2, "{event}");
    assert_snapshot!(by_member(event.trim_end()));
}

#[test]
fn event_contains_only_the_lines_that_have_changed() {
    let before = states();
    let mut after = before.clone();
    let removed = after.remove(0);
    after[0].lease.holder.label = "web-9".to_owned();
    let overview = |locks: &[LockRecord]| Overview::new(&latest(locks, &[]), INTERVAL);
    let event = written(|out| overview(&after).write_changes(&overview(&before), out));
    let data: serde_json::Value = event
        .strip_prefix("event: changes\ndata: ")
        .and_then(|data| serde_json::from_str(data).ok())
        .expect("the event has one line of JSON");
    assert_eq!(
        data["removed"],
        serde_json::json!([removed.action.as_str()])
    );
    let actions = data["actions"].as_array().expect("a list");
    let names: Vec<_> = actions.iter().map(|line| &line["action"]).collect();
    assert_eq!(names, [after[0].action.as_str()]);
    assert_eq!(data["added"], serde_json::json!([]));
    let event = written(|out| overview(&before).write_changes(&overview(&after), out));
    let (second, first) = (after[0].action.as_str(), removed.action.as_str());
    assert!(
        event.contains(&format!("\"added\":[[\"{first}\",null]]")),
        "{event}"
    );
    let event = written(|out| {
        overview(&before).write_changes(&overview(std::slice::from_ref(&removed)), out)
    });
    assert!(
        event.contains(&format!("\"added\":[[\"{second}\",\"{first}\"],")),
        "{event}"
    );
}

/// One statement reads the server's time, and a later one reads the waiting times.
#[test]
fn line_does_not_change_with_the_delay_between_two_statements() {
    let overview = |delay: u64| {
        let mut waiters = waiters();
        for waiter in &mut waiters {
            waiter.waiting_for += Duration::from_millis(300 + delay);
        }
        Overview::new(&latest(&states(), &waiters), INTERVAL)
    };
    let event = written(|out| overview(2).write_changes(&overview(0), out));
    assert!(event.ends_with("\"actions\":[]}\n\n"), "{event}");
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
    let event = written(|out| Overview::new(&latest, INTERVAL).write_all(out));
    let text = metrics::text(&latest);
    let about_slots = |line: &&str| line.contains("_holders") || line.contains("_slots");
    let metrics: Vec<&str> = text.lines().filter(about_slots).collect();
    assert_snapshot!(format!(
        "{}\n{}",
        event.replace('{', "\n{"),
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
    let event = written(|out| Overview::new(&latest, INTERVAL).write_all(out));
    assert_eq!(event.trim_end().lines().count(), 2, "{event}");
}
