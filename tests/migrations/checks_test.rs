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
            idle: 0,
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

/// Returns the first start after the kill.
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

/// Asserts that a good round with `change` has exactly these failures.
#[track_caller]
fn assert_failures(change: impl FnOnce(&mut Round), expected: &[&str]) {
    let mut round = good_round();
    change(&mut round);
    let failures = round.failures();
    assert_eq!(failures.len(), expected.len(), "{failures:?}");
    for (failure, text) in failures.iter().zip(expected) {
        assert!(failure.contains(text), "{failures:?}");
    }
}

#[test]
fn good_round_has_no_failure() {
    assert_failures(|_| {}, &[]);
    assert!(!good_round().is_violated());
    assert!(!good_round().is_late());
    assert!(good_round().window().is_none());
}

#[test]
fn statement_alive_at_the_next_start_is_a_failure() {
    let mut round = good_round();
    next(&mut round).active.push("session 7".to_owned());
    assert!(round.is_violated());
    assert_failures(|it| *it = round, &["session 7"]);
}

#[test]
fn idle_session_at_the_next_start_is_no_failure() {
    assert_failures(|round| next(round).idle = 1, &[]);
}

#[test]
fn round_without_a_next_start_is_a_failure() {
    let mut round = good_round();
    round.next = None;
    assert!(round.is_late());
    assert_failures(|it| *it = round, &["no command started"]);
}

#[test]
fn every_wrong_end_of_a_replica_is_a_failure() {
    for (replica, status, name) in [
        (0, Some(0), "Killed"),
        (1, Some(1), "Survivor"),
        (1, None, "Survivor"),
        (2, Some(76), "Restarted"),
    ] {
        assert_failures(|round| round.replicas[replica].status = status, &[name]);
    }
    for replica in 0..3 {
        assert_failures(
            |round| round.replicas[replica].has_ended = false,
            &["did not end"],
        );
    }
}

#[test]
fn wrong_schema_is_a_failure() {
    assert_failures(
        |round| round.schema.push("not at its head".to_owned()),
        &["not at its head"],
    );
}

#[test]
fn kill_between_a_commit_and_its_record_is_not_checked() {
    for last_active in [None, Some(WINDOW)] {
        assert_failures(|round| leave_half_done(round, last_active), &[]);
    }
}

#[test]
fn statement_that_commits_later_after_the_kill_is_a_failure() {
    let late = Some(WINDOW + Duration::from_millis(1));
    assert_failures(
        |round| leave_half_done(round, late),
        &["not at its head", "Survivor"],
    );
}

#[test]
fn half_done_migration_excuses_no_statement() {
    let change = |round: &mut Round| {
        leave_half_done(round, None);
        next(round).active.push("session 7".to_owned());
    };
    assert_failures(change, &["session 7", "not at its head", "Survivor"]);
}

#[test]
fn time_to_stop_the_statement_is_allowed() {
    let mut round = good_round();
    next(&mut round).after = Duration::from_millis(4_500);
    assert!(!round.is_late());
    next(&mut round).after = Duration::from_millis(4_501);
    assert!(round.is_late());
    next(&mut round).stop = None;
    next(&mut round).after = Duration::from_secs(4);
    assert!(!round.is_late());
}
