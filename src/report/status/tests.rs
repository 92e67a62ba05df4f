//! Tests of the output formats of `dlock status`.

use std::time::Duration;

use proptest::prelude::*;

use super::{details, json, table};
use crate::lease::{OwnerId, Token};
use crate::report::escape::is_harmful;
use crate::report::escape::tests::hostile;
use crate::store::{Expiry, Holder, LockRecord, ServerTime, Snapshot, Version, Waiter};

fn holder(label: &str, note: &str) -> Holder {
    Holder {
        label: label.to_owned(),
        host: "web-1".to_owned(),
        pid: 4711,
        user: "deploy".to_owned(),
        note: note.to_owned(),
        command: "migrate.sh".to_owned(),
        ..Holder::default()
    }
}

fn snapshot(locks: &[LockRecord], waiters: &[Waiter]) -> Snapshot {
    Snapshot {
        server_time: ServerTime(1_795_167_000_000_000),
        locks: locks.to_vec(),
        waiters: waiters.to_vec(),
    }
}

fn record(label: &str, note: &str) -> LockRecord {
    LockRecord {
        owner_id: Some(OwnerId::new([1; 16])),
        version: Version {
            token: Token(17),
            renewals: 3,
        },
        holder: holder(label, note),
        ttl: Duration::from_secs(30),
        acquired_at: Some("2026-11-20T09:30:00.000000Z".to_owned()),
        held_for: Duration::from_secs(123),
        renewed_ago: Duration::from_secs(4),
        expiry: Expiry::In(Duration::from_secs(12)),
        ..LockRecord::never_held("init".parse().expect("a valid action name"))
    }
}

fn waiter(label: &str, note: &str) -> Waiter {
    Waiter {
        action: "init".parse().expect("a valid action name"),
        holder: holder(label, note),
        waiting_for: Duration::from_secs(70),
        alive: Some(true),
    }
}

fn cells(text: &str) -> Vec<Vec<&str>> {
    text.lines()
        .map(|line| line.split_whitespace().collect())
        .collect()
}

#[test]
fn the_table_has_a_heading_and_one_line_per_action() {
    let text = table(&[record("web-1/4711", "v42")], &[]);
    let lines = cells(&text);
    assert_eq!(lines.len(), 2, "{text}");
    assert_eq!(lines[0][..2], ["ACTION", "STATE"]);
    assert_eq!(
        lines[1],
        [
            "init",
            "held",
            "web-1/4711",
            "web-1",
            "4711",
            "deploy",
            "17",
            "2m",
            "3s",
            "12s",
            "0",
            "-",
            "v42",
            "held",
            "and",
            "renewing"
        ]
    );
}

#[test]
fn waiters_are_listed_below_the_actions_in_order() {
    let waiters = [waiter("web-2/1", ""), waiter("web-3/1", "")];
    let text = table(&[record("web-1/4711", "")], &waiters);
    let lines = cells(&text);
    assert_eq!(lines.len(), 6, "{text}");
    assert_eq!(lines[3][..3], ["ACTION", "POSITION", "WAITER"]);
    assert_eq!(lines[4][..3], ["init", "1", "web-2/1"]);
    assert_eq!(
        lines[5],
        [
            "init", "2", "web-3/1", "web-1", "4711", "deploy", "1m", "10s", "alive"
        ]
    );
}

proptest! {
    #[test]
    fn labels_and_notes_cannot_forge_lines_or_break_the_json(label in hostile(), note in hostile()) {
        let records = [record(&label, &note)];
        let waiters = [waiter(&label, &note)];
        let text = table(&records, &waiters);
        prop_assert_eq!(text.lines().count(), 5);
        prop_assert!(!text.replace('\n', "").contains(is_harmful));
        let text = details(&records[0], &waiters);
        prop_assert!(!text.replace('\n', "").contains(is_harmful));
        let text = json(&snapshot(&records, &waiters), Duration::ZERO).expect("the records serialize");
        prop_assert!(!text.trim_end().contains(is_harmful));
        let value: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
        let lock = &value["locks"][0];
        prop_assert_eq!(lock["holder"].as_str(), Some(label.as_str()));
        prop_assert_eq!(lock["note"].as_str(), Some(note.as_str()));
        prop_assert_eq!(lock["waiters"][0]["holder"].as_str(), Some(label.as_str()));
    }
}
