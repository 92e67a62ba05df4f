//! Tests of the checks of a round. The checks must report every possible failure, and nothing else.
//!
//! These tests are a separate target because the migration test is a program without a test harness.

#![allow(dead_code, reason = "the migration test uses the other items")]

mod checks;

use std::time::Duration;

use checks::{Fate, KillKind, NextStart, Replica, Round, WINDOW};

/// Returns a round without a failure. The first replica is killed and restarts, and the second starts the next command.
fn good_round() -> Round {
    let replica = |fate, status| Replica {
        fate,
        status,
        has_ended: true,
        stderr: String::new(),
    };
    Round {
        kind: KillKind::All,
        moment: String::new(),
        next: Some(NextStart {
            replica: 1,
            after: Duration::from_secs(4),
            active: Vec::new(),
            last_active: Some(Duration::from_secs(4)),
            stop: Some(Duration::from_millis(500)),
            half_done: None,
        }),
        replicas: vec![
            replica(Fate::Killed, None),
            replica(Fate::Survivor, Some(0)),
            replica(Fate::Restarted, Some(0)),
        ],
        schema: Vec::new(),
        allowed: Duration::from_secs(4),
    }
}

fn next(round: &mut Round) -> &mut NextStart {
    round
        .next
        .as_mut()
        .expect("the good round has a next start")
}

/// Changes the round: the killed command has committed an effect without its record, so the next commands fail. The
/// last statement was observed this long after the kill.
fn leave_half_done(round: &mut Round, last_active: Option<Duration>) {
    next(round).half_done = Some("no record".to_owned());
    next(round).last_active = last_active;
    round.schema.push("not at its head".to_owned());
    round.replicas[1].status = Some(1);
}

#[track_caller]
fn assert_failures(change: impl FnOnce(&mut Round), expected: &[&str]) -> Round {
    let mut round = good_round();
    change(&mut round);
    let failures = round.failures();
    assert_eq!(failures.len(), expected.len(), "{failures:?}");
    for (failure, text) in failures.iter().zip(expected) {
        assert!(failure.contains(text), "{failures:?}");
    }
    round
}

#[test]
fn good_round_has_no_failure() {
    let round = assert_failures(|_| {}, &[]);
    assert!(!round.is_violated() && !round.is_late() && round.window().is_none());
}

#[test]
fn statement_alive_at_the_next_start_and_a_missing_next_start_are_failures() {
    let is_alive = |round: &mut Round| next(round).active.push("session 7".to_owned());
    let round = assert_failures(is_alive, &["session 7"]);
    assert!(round.is_violated());
    let round = assert_failures(|round| round.next = None, &["no command started"]);
    assert!(round.is_late());
}

#[test]
fn wrong_schema_and_every_wrong_end_of_a_replica_are_failures() {
    let head = "not at its head";
    assert_failures(|round| round.schema.push(head.to_owned()), &[head]);
    for (replica, status, name) in [
        (0, Some(0), "Killed"),
        (1, Some(1), "Survivor"),
        (1, None, "Survivor"),
        (2, Some(76), "Restarted"),
    ] {
        assert_failures(|round| round.replicas[replica].status = status, &[name]);
        let hang = |round: &mut Round| round.replicas[replica].has_ended = false;
        assert_failures(hang, &["did not end"]);
    }
}

#[test]
fn kill_between_a_commit_and_its_record_is_not_checked() {
    for last_active in [None, Some(WINDOW)] {
        assert_failures(|round| leave_half_done(round, last_active), &[]);
    }
    // A statement that commits later after the kill, or is alive at the next start, has no such excuse.
    let late = Some(WINDOW + Duration::from_millis(1));
    let expected = ["not at its head", "Survivor"];
    assert_failures(|round| leave_half_done(round, late), &expected);
    let is_alive = |round: &mut Round| {
        leave_half_done(round, None);
        next(round).active.push("session 7".to_owned());
    };
    assert_failures(is_alive, &["session 7", "not at its head", "Survivor"]);
}

#[test]
fn time_to_stop_the_statement_is_allowed() {
    let is_late = |after, stop| {
        let mut round = good_round();
        next(&mut round).after = Duration::from_millis(after);
        next(&mut round).stop = stop;
        round.is_late()
    };
    let stop = Some(Duration::from_millis(500));
    assert!(!is_late(4_500, stop));
    assert!(is_late(4_501, stop));
    assert!(!is_late(4_000, None));
}
