//! Tests of the checks of rounds and ticks. The checks must report every possible failure, and nothing else.
//!
//! These tests are a separate target because the stress test is a program without a test harness.

#![allow(dead_code, reason = "the stress test uses the other items")]

mod checks;

use std::time::Duration;

use checks::{End, Host, Replica, Round, SignalSent, Tick};

/// Returns a round without a failure. The first replica is killed, the second is stopped, and the third succeeds.
fn good_round() -> Round {
    let replica = |fate, status, seconds| Replica {
        fate,
        end: Some(End {
            status,
            after: Duration::from_secs(seconds),
        }),
        stderr: String::new(),
    };
    Round {
        written: ["began 1", "began 3", "done 3"].map(str::to_owned).into(),
        replicas: vec![
            replica(SignalSent::Killed, None, 0),
            replica(SignalSent::Stopped, Some(143), 1),
            replica(SignalSent::NoSignal, Some(0), 7),
            replica(SignalSent::NoSignal, Some(0), 8),
        ],
        stops: 1,
        allowed: Duration::from_secs(8),
    }
}

fn good_tick() -> Tick {
    let host = Host {
        started: Duration::ZERO,
        status: Some(0),
        mail: String::new(),
    };
    Tick {
        written: vec!["done 1 2".to_owned()],
        hosts: vec![host.clone(), host],
    }
}

/// Asserts that a good round with `change` has exactly one failure, and that the failure contains `text`.
#[track_caller]
fn assert_failure(change: impl FnOnce(&mut Round), text: &str) {
    let mut round = good_round();
    change(&mut round);
    assert_only(&round.failures(), text);
}

#[track_caller]
fn assert_only(failures: &[String], text: &str) {
    let [failure] = failures else {
        panic!("expected exactly one failure: {failures:?}");
    };
    assert!(failure.contains(text), "{failure}");
}

fn ends_with(replica: &mut Replica, status: Option<i32>) {
    replica.end.as_mut().expect("the replica ended").status = status;
}

#[test]
fn good_round_and_good_tick_have_no_failures() {
    assert!(good_round().failures().is_empty() && !good_round().is_late());
    assert!(good_tick().failures().is_empty());
    // A SIGTERM may arrive before dlock handles signals.
    let mut round = good_round();
    ends_with(&mut round.replicas[1], None);
    assert!(round.failures().is_empty());
}

#[test]
fn no_success_or_two_successes_are_reported() {
    assert_failure(|round| drop(round.written.pop()), "0 successes");
    assert_failure(|round| round.written.push("done 4".into()), "2 successes");
}

#[test]
fn command_that_was_not_alone_is_reported() {
    assert_failure(
        |round| round.written.push("not-alone 4".into()),
        "1 not alone",
    );
}

#[test]
fn replica_without_a_signal_must_exit_with_0() {
    for status in [Some(76), Some(143), None] {
        assert_failure(
            |round| ends_with(&mut round.replicas[3], status),
            "replica 4 (NoSignal)",
        );
    }
    assert_failure(
        |round| round.replicas[3].end = None,
        "replica 4 did not end",
    );
}

#[test]
fn stopped_replica_has_143_and_killed_replica_has_no_status() {
    assert_failure(
        |round| ends_with(&mut round.replicas[1], Some(0)),
        "replica 2 (Stopped) exited with 0",
    );
    assert_failure(
        |round| ends_with(&mut round.replicas[0], Some(0)),
        "replica 1 (Killed) exited with 0",
    );
}

#[test]
fn too_few_stopped_replicas_are_reported() {
    assert_failure(|round| round.stops = 2, "1 replicas were stopped, not 2");
}

#[test]
fn round_is_late_if_a_survivor_ends_after_the_promised_time() {
    let mut round = good_round();
    round.allowed -= Duration::from_millis(1);
    assert!(round.is_late() && round.failures().is_empty());
    let mut round = good_round();
    round.replicas[3].end = None;
    assert!(round.is_late());
    // The end of a stopped replica does not make a round late.
    let mut round = good_round();
    round.replicas[3].fate = SignalSent::Stopped;
    round.allowed = Duration::from_secs(7);
    assert!(!round.is_late());
}

#[test]
fn tick_needs_one_run_and_silent_hosts_that_exit_with_0() {
    let mut tick = good_tick();
    tick.written.push("done 1 1".into());
    assert_only(&tick.failures(), "2 successes");
    let mut tick = good_tick();
    tick.written.clear();
    assert_only(&tick.failures(), "0 successes");
    let mut tick = good_tick();
    tick.hosts[1].status = Some(75);
    assert_only(&tick.failures(), "host 2 exited with Some(75)");
    let mut tick = good_tick();
    tick.hosts[0].mail = "dlock: lost".into();
    assert_only(
        &tick.failures(),
        "host 1 exited with Some(0) and mails \"dlock: lost\"",
    );
}
