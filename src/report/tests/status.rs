//! The output of `dlock status`: the table, the facts of one action, and the JSON.

use insta::assert_snapshot;
use proptest::prelude::*;

use super::records::*;
use super::{at_each_width, by_field, whole_lines};
use crate::report::escape::is_harmful;
use crate::report::escape::tests::hostile;
use crate::report::layout::Layout;
use crate::report::messages::skipped_hosts;
use crate::report::status::{Connections, details, json, next, table};
use crate::report::style::Colors;
use crate::store::connected::SkippedHost;
use crate::store::session::ServerInstance;
use crate::store::session_states::{SessionStates, VisibleSessions};
use crate::store::target::Address;
use crate::store::{Failure, FailureKind, LockRecord, Snapshot, Waiter};

/// Returns the facts of each action at each width, separated by empty lines.
fn all_details(records: &[LockRecord], waiters: &[Waiter]) -> String {
    let snapshot = snapshot(records, waiters);
    at_each_width(|layout| {
        let texts: Vec<String> = records
            .iter()
            .map(|record| details(record, &snapshot, layout))
            .collect();
        texts.join("\n")
    })
}

/// Returns the tables at each width.
fn tables(records: &[LockRecord], waiters: &[Waiter]) -> String {
    at_each_width(|layout| table(&snapshot(records, waiters), layout))
}

fn document(records: &[LockRecord], waiters: &[Waiter]) -> String {
    let text = json(
        &snapshot(records, waiters),
        seconds(1_795_166_999),
        Connections::Shown,
    )
    .expect("the document serializes");
    by_field(&text)
}

#[test]
fn table_without_actions_is_a_sentence() {
    assert_snapshot!(tables(&[], &[]));
}

#[test]
fn table_of_one_held_action() {
    assert_snapshot!(tables(&[held("init")], &[]));
}

#[test]
fn table_of_actions_with_several_holders() {
    assert_snapshot!(tables(&slots_and_readers(), &[]));
}

#[test]
fn facts_of_actions_with_several_holders() {
    assert_snapshot!(all_details(&slots_and_readers(), &[]));
}

#[test]
fn json_of_an_action_with_two_holders() {
    let [gpu, ..] = slots_and_readers();
    assert_snapshot!(document(&[gpu], &[]));
}

#[test]
fn json_of_a_read_only_server() {
    let snapshot = Snapshot {
        is_read_only: true,
        ..snapshot(&[], &[])
    };
    let text = json(&snapshot, seconds(1_795_166_999), Connections::Shown)
        .expect("the document serializes");
    assert_snapshot!(by_field(&text));
}

#[test]
fn hosts_that_were_not_used() {
    let address = |host: &str| Address::Tcp {
        host: host.to_owned(),
        port: 3306,
    };
    let snapshot = Snapshot {
        server: "c:3306".to_owned(),
        skipped: vec![
            SkippedHost::new(
                address("a"),
                "cannot reach a:3306: Connection refused (os error 111)",
            ),
            SkippedHost::new(address("b"), "b:3306 is read-only, probably a replica"),
        ],
        ..snapshot(&[], &[])
    };
    let text = json(&snapshot, seconds(1_795_166_999), Connections::Shown)
        .expect("the document serializes");
    let lines = skipped_hosts(&snapshot).join("\n");
    assert_snapshot!(format!("{}\n{lines}", by_field(&text)));
}

#[test]
fn table_of_actions_in_every_state_with_waiters() {
    assert_snapshot!(tables(&states(), &waiters()));
}

#[test]
fn colours_of_actions_in_every_state() {
    let layout = Layout {
        width: Some(80),
        colors: Colors::Shown,
    };
    let snapshot = snapshot(&states(), &waiters());
    let table = whole_lines(table(&snapshot, layout));
    let details = whole_lines(details(&held("init"), &snapshot, layout));
    assert_snapshot!((table + "\n" + &details).replace('\u{1b}', "ESC"));
}

#[test]
fn table_aligns_long_and_wide_text() {
    let (long, long_waiter) = texts(LONG, LONG);
    assert_snapshot!(tables(
        &[held("init"), long],
        &[waiter("init", "web-2/12", Some(true)), long_waiter]
    ));
}

#[test]
fn table_escapes_hostile_text() {
    let (record, waiter) = texts(HOSTILE_NAME, HOSTILE);
    assert_snapshot!(tables(&[record], &[waiter]));
}

#[test]
fn facts_of_actions_in_every_state_with_waiters() {
    assert_snapshot!(all_details(&states(), &waiters()));
}

#[test]
fn next_step_in_every_state() {
    let (states, waiters) = (states(), waiters());
    let snapshot = snapshot(&states, &waiters);
    assert_snapshot!(at_each_width(|layout| {
        let texts = states.iter().map(|record| {
            let next = next(record, &snapshot, layout);
            format!("{}:\n{next}", record.action)
        });
        texts.collect::<Vec<_>>().join("\n")
    }));
}

#[test]
fn facts_with_long_and_hostile_text() {
    let (long, long_waiter) = texts(LONG, LONG);
    let (hostile, hostile_waiter) = texts(HOSTILE_NAME, HOSTILE);
    let (records, waiters) = ([long, hostile], [long_waiter, hostile_waiter]);
    assert_snapshot!(all_details(&records, &waiters));
}

#[test]
fn json_without_actions() {
    assert_snapshot!(document(&[], &[]));
}

#[test]
fn json_of_actions_in_every_state_with_waiters() {
    assert_snapshot!(document(&states(), &waiters()));
}

#[test]
fn json_with_long_and_hostile_text() {
    let (long, long_waiter) = texts(LONG, LONG);
    let (hostile, hostile_waiter) = texts(HOSTILE_NAME, HOSTILE);
    let (records, waiters) = ([long, hostile], [long_waiter, hostile_waiter]);
    assert_snapshot!(document(&records, &waiters));
}

/// Returns snapshots of records whose sessions are in each state. All texts contain `text`.
fn snapshots_with_sessions(text: &str) -> Vec<(&'static str, Snapshot)> {
    let note = note(text, 3);
    let with = |record: LockRecord| LockRecord {
        sessions: Some(note.clone().into()),
        ..record
    };
    let visible = || visible(&note, text);
    let unlisted = |sees_all| VisibleSessions {
        sees_all,
        own_account: Some("monitor".to_owned()),
        sessions: Vec::new(),
        ..visible()
    };
    let server = |server: &str, started| ServerInstance {
        server: server.to_owned(),
        started,
    };
    let failure = Failure::new(FailureKind::Denied, format!("no access{text}"));
    let states = [
        ("visible", SessionStates::Known(visible())),
        ("all gone", SessionStates::Known(unlisted(true))),
        ("hidden", SessionStates::Known(unlisted(false))),
        (
            "restarted",
            SessionStates::Known(VisibleSessions {
                instance: server(&note.instance.server, 1_795_000_001),
                ..visible()
            }),
        ),
        (
            "another server",
            SessionStates::Known(VisibleSessions {
                instance: server("db-2:3306/2", note.instance.started),
                ..visible()
            }),
        ),
        (
            "no list",
            SessionStates::Known(VisibleSessions {
                own_account: None,
                ..unlisted(false)
            }),
        ),
        ("failed", SessionStates::Failed(failure)),
        ("not queried", SessionStates::NotQueried),
    ];
    let snapshot = |(name, sessions)| {
        let snapshot = Snapshot {
            sessions,
            ..snapshot(&[with(held("init"))], &[])
        };
        (name, snapshot)
    };
    states.map(snapshot).into()
}

/// Returns the facts about the sessions in each state.
fn session_facts(text: &str) -> String {
    let facts = |(name, snapshot): (&str, Snapshot)| {
        let text = whole_lines(details(&snapshot.locks[0], &snapshot, Layout::FULL));
        let lines = text.lines().filter(|line| line.starts_with("  s"));
        let lines = lines.filter(|line| !line.starts_with("  since"));
        let lines: Vec<&str> = lines.collect();
        format!("{name}:\n{}\n", lines.join("\n"))
    };
    let snapshots = snapshots_with_sessions(text).into_iter();
    snapshots.map(facts).collect()
}

/// Returns the JSON of the sessions in each state.
fn session_json(text: &str) -> String {
    let fields = |(name, snapshot): (&str, Snapshot)| {
        let text =
            json(&snapshot, seconds(0), Connections::Shown).expect("the document serializes");
        let text = by_field(&text);
        let (before, sessions) = text.split_once("\"sessions\":").expect("the field exists");
        let error = before
            .lines()
            .find(|line| line.starts_with("\"sessions_error"));
        format!(
            "{name}:\n{}\n{sessions}\n",
            error.expect("the field exists")
        )
    };
    let snapshots = snapshots_with_sessions(text).into_iter();
    snapshots.map(fields).collect()
}

#[test]
fn facts_of_sessions_in_every_state() {
    assert_snapshot!(session_facts(""));
}

#[test]
fn facts_of_sessions_with_hostile_text() {
    assert_snapshot!(session_facts(HOSTILE));
}

#[test]
fn json_of_sessions_in_every_state() {
    assert_snapshot!(session_json(""));
}

#[test]
fn json_of_sessions_with_hostile_text() {
    assert_snapshot!(session_json(HOSTILE));
}

proptest! {
    #[test]
    fn labels_and_notes_cannot_forge_lines_or_break_the_json(label in hostile(), note in hostile()) {
        let records = [held("init").with_lease(|lease| lease.holder = holder(&label, &note))];
        let waiters = [Waiter { holder: holder(&label, &note), ..waiter("init", "", Some(true)) }];
        let text = table(&snapshot(&records, &waiters), Layout::FULL);
        prop_assert_eq!(text.lines().count(), 5);
        prop_assert!(!text.replace('\n', "").contains(is_harmful));
        let text = details(&records[0], &snapshot(&records, &waiters), Layout::FULL);
        prop_assert!(!text.replace('\n', "").contains(is_harmful));
        for (_, snapshot) in snapshots_with_sessions(&label) {
            let text = details(&snapshot.locks[0], &snapshot, Layout::FULL);
            prop_assert!(!text.replace('\n', "").contains(is_harmful));
        }
        let text = json(&snapshot(&records, &waiters), seconds(0), Connections::Shown).expect("the document serializes");
        prop_assert!(!text.trim_end().contains(is_harmful));
        let value: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
        let lock = &value["locks"][0];
        prop_assert_eq!(lock["holder"].as_str(), Some(label.as_str()));
        prop_assert_eq!(lock["note"].as_str(), Some(note.as_str()));
        prop_assert_eq!(lock["waiters"][0]["holder"].as_str(), Some(label.as_str()));
    }
}
