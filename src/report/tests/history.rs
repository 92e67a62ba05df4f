//! The output of `dlock history`: the table and the JSON.

use insta::assert_snapshot;

use super::records::*;
use super::{at_each_width, by_field, whole_lines};
use crate::lease::Token;
use crate::report::history::{Following, json, no_runs, table};
use crate::report::layout::Layout;
use crate::store::{HistoryEntry, HistoryOutcome, LockRecord};

fn entry(outcome: HistoryOutcome) -> HistoryEntry {
    HistoryEntry {
        action: action("init"),
        key: None,
        token: TOKEN,
        slot: None,
        holder: holder("web-1/4711", "release 42"),
        started_at: "2026-11-20T08:30:00.000000Z".to_owned(),
        ended_at: "2026-11-20T08:31:05.250000Z".to_owned(),
        waited: Some(seconds(3)),
        duration: seconds(65),
        ago: seconds(3_600),
        outcome,
        sessions_ended: 0,
        processes_killed: 0,
        dlock_status: None,
        revoked_by: None,
    }
}

/// Returns the outcome that follows `outcome`. None after the last outcome. The match ensures that each outcome has an
/// entry.
fn next(outcome: HistoryOutcome) -> Option<HistoryOutcome> {
    Some(match outcome {
        HistoryOutcome::Exited(0) => HistoryOutcome::Exited(3),
        HistoryOutcome::Exited(_) => HistoryOutcome::Killed(9),
        HistoryOutcome::Killed(_) => HistoryOutcome::Lost,
        HistoryOutcome::Lost => HistoryOutcome::Revoked,
        HistoryOutcome::Revoked => HistoryOutcome::Forgotten,
        HistoryOutcome::Forgotten => HistoryOutcome::Released,
        HistoryOutcome::Released => HistoryOutcome::Paused,
        HistoryOutcome::Paused => HistoryOutcome::Resumed,
        HistoryOutcome::Resumed => return None,
    })
}

/// Returns one entry for each outcome, entries of `--once` with and without a key, and entries whose exit status dlock
/// or the command chose.
fn outcomes() -> Vec<HistoryEntry> {
    let outcomes = std::iter::successors(Some(HistoryOutcome::Exited(0)), |one| next(*one));
    let keyed = |key: &str| HistoryEntry {
        key: Some(key.to_owned()),
        holder: holder("web-2/12", ""),
        token: Token(17),
        waited: None,
        duration: seconds(0),
        ago: seconds(200_000),
        ..entry(HistoryOutcome::Exited(0))
    };
    let entries = outcomes.map(entry);
    let chosen = [
        (HistoryOutcome::Exited(124), 124),
        (HistoryOutcome::Exited(127), 127),
        (HistoryOutcome::Lost, 76),
        (HistoryOutcome::Killed(9), 137),
        // The lease of another name was lost.
        (HistoryOutcome::Exited(143), 76),
        (HistoryOutcome::Killed(15), 76),
    ];
    let chosen = chosen.map(|(outcome, status)| HistoryEntry {
        dlock_status: Some(status),
        ..entry(outcome)
    });
    let revoked = HistoryEntry {
        revoked_by: Some("ops".to_owned()),
        ..entry(HistoryOutcome::Revoked)
    };
    let own = [
        entry(HistoryOutcome::Exited(124)),
        entry(HistoryOutcome::Killed(40)),
        revoked,
    ];
    let killed = |sessions_ended| HistoryEntry {
        sessions_ended,
        ..entry(HistoryOutcome::Killed(9))
    };
    let left = |processes_killed| HistoryEntry {
        processes_killed,
        ..entry(HistoryOutcome::Exited(0))
    };
    (entries.chain([keyed("v1.42"), keyed("")]))
        .chain([killed(1), killed(2), left(1), left(2)])
        .chain(chosen)
        .chain(own)
        .collect()
}

/// Returns entries with long text and with text that is hostile to a terminal.
fn texts() -> [HistoryEntry; 2] {
    [(LONG, LONG), (HOSTILE_NAME, HOSTILE)].map(|(name, text)| HistoryEntry {
        action: action(name),
        key: Some(text.to_owned()),
        holder: holder_of(text),
        ..entry(HistoryOutcome::Lost)
    })
}

fn tables(entries: &[HistoryEntry]) -> String {
    at_each_width(|layout| table(entries, layout))
}

fn document(entries: &[HistoryEntry]) -> String {
    by_field(&json(entries, false).expect("the document serializes"))
}

#[test]
fn table_without_runs_is_a_heading() {
    assert_snapshot!(tables(&[]));
}

#[test]
fn texts_without_runs() {
    let named = [
        LockRecord::unknown(action("inti")),
        LockRecord::never_held(action("paused early")),
        LockRecord {
            last: None,
            ..free("init")
        },
        LockRecord::unknown(action(HOSTILE_NAME)),
    ];
    assert_snapshot!(whole_lines(
        [false, true]
            .map(|is_filtered| no_runs(&[], is_filtered) + &no_runs(&named, is_filtered))
            .concat()
    ));
}

#[test]
fn table_of_every_outcome() {
    assert_snapshot!(tables(&outcomes()));
}

#[test]
fn table_with_runs_in_slots() {
    let in_slot = HistoryEntry {
        slot: Some(2),
        ..entry(HistoryOutcome::Exited(0))
    };
    assert_snapshot!(tables(&[in_slot, entry(HistoryOutcome::Lost)]));
}

#[test]
fn table_with_long_and_hostile_text() {
    assert_snapshot!(tables(&texts()));
}

#[test]
fn followed_table_repeats_the_heading_only_when_widths_change() {
    let layout = Layout {
        width: Some(80),
        ..Layout::FULL
    };
    let mut following = Following::new(layout);
    let [first, second, third] = ["init", "x", "a longer name"].map(|name| HistoryEntry {
        action: action(name),
        ..entry(HistoryOutcome::Exited(0))
    });
    let batches = [
        vec![first],
        vec![second.clone()],
        vec![],
        vec![third],
        vec![second],
    ];
    let batches = batches.map(|entries| following.batch(&entries));
    assert_snapshot!(batches.join("--\n"));
}

#[test]
fn json_without_runs() {
    assert_snapshot!(document(&[]));
}

#[test]
fn json_of_every_outcome() {
    assert_snapshot!(document(&outcomes()));
}

#[test]
fn json_with_long_and_hostile_text() {
    assert_snapshot!(document(&texts()));
}
