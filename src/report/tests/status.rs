//! The output of `dlock status`: the table, the facts of one action, and the JSON.

use insta::assert_snapshot;
use proptest::prelude::*;

use super::records::*;
use super::{by_field, whole_lines};
use crate::report::escape::is_harmful;
use crate::report::escape::tests::hostile;
use crate::report::status::{details, json, table};
use crate::store::{LockRecord, Waiter};

/// Returns the facts of each action, separated by empty lines.
fn all_details(records: &[LockRecord], waiters: &[Waiter]) -> String {
    let texts: Vec<String> = records
        .iter()
        .map(|record| whole_lines(details(record, waiters)))
        .collect();
    texts.join("\n")
}

fn document(records: &[LockRecord], waiters: &[Waiter]) -> String {
    let text =
        json(&snapshot(records, waiters), seconds(1_795_166_999)).expect("the document serializes");
    by_field(&text)
}

#[test]
fn table_without_actions_is_a_heading() {
    assert_snapshot!(whole_lines(table(&[], &[])));
}

#[test]
fn table_of_one_held_action() {
    assert_snapshot!(whole_lines(table(&[held("init")], &[])));
}

#[test]
fn table_of_actions_in_every_state_with_waiters() {
    assert_snapshot!(whole_lines(table(&states(), &waiters())));
}

#[test]
fn table_aligns_long_and_wide_text() {
    let (long, long_waiter) = texts(LONG, LONG);
    assert_snapshot!(whole_lines(table(
        &[held("init"), long],
        &[waiter("init", "web-2/12", Some(true)), long_waiter]
    )));
}

#[test]
fn table_escapes_hostile_text() {
    let (record, waiter) = texts(HOSTILE_NAME, HOSTILE);
    assert_snapshot!(whole_lines(table(&[record], &[waiter])));
}

#[test]
fn facts_of_actions_in_every_state_with_waiters() {
    assert_snapshot!(all_details(&states(), &waiters()));
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

proptest! {
    #[test]
    fn labels_and_notes_cannot_forge_lines_or_break_the_json(label in hostile(), note in hostile()) {
        let records = [LockRecord { holder: holder(&label, &note), ..held("init") }];
        let waiters = [Waiter { holder: holder(&label, &note), ..waiter("init", "", Some(true)) }];
        let text = table(&records, &waiters);
        prop_assert_eq!(text.lines().count(), 5);
        prop_assert!(!text.replace('\n', "").contains(is_harmful));
        let text = details(&records[0], &waiters);
        prop_assert!(!text.replace('\n', "").contains(is_harmful));
        let text = json(&snapshot(&records, &waiters), seconds(0)).expect("the document serializes");
        prop_assert!(!text.trim_end().contains(is_harmful));
        let value: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
        let lock = &value["locks"][0];
        prop_assert_eq!(lock["holder"].as_str(), Some(label.as_str()));
        prop_assert_eq!(lock["note"].as_str(), Some(note.as_str()));
        prop_assert_eq!(lock["waiters"][0]["holder"].as_str(), Some(label.as_str()));
    }
}
