//! Tests of the rounds' judge: it must report each possible failure, and nothing else.
//!
//! They are a target of their own because the rounds are a program.

#![allow(dead_code, reason = "the rounds use what the tests do not")]

mod checks;

use std::time::Duration;

use checks::{End, Fate, Host, Replica, Round, Tick};

/// A round without a miss: the first replica is killed, the second is stopped, the third succeeds.
fn good_round() -> Round {
    let replica = |fate, status, seconds| Replica {
        fate,
        end: Some(End {
            status,
            after: Duration::from_secs(seconds),
        }),
        said: String::new(),
    };
    Round {
        written: ["began 1", "began 3", "done 3"].map(str::to_owned).into(),
        replicas: vec![
            replica(Fate::Killed, None, 0),
            replica(Fate::Stopped, Some(143), 1),
            replica(Fate::LetAlone, Some(0), 7),
            replica(Fate::LetAlone, Some(0), 8),
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

/// Asserts that a good round with `change` has exactly one miss, which contains `complaint`.
#[track_caller]
fn misses(change: impl FnOnce(&mut Round), complaint: &str) {
    let mut round = good_round();
    change(&mut round);
    expect(&round.misses(), complaint);
}

#[track_caller]
fn expect(misses: &[String], complaint: &str) {
    let [miss] = misses else {
        panic!("expected exactly one miss: {misses:?}");
    };
    assert!(miss.contains(complaint), "{miss}");
}

fn ends_with(replica: &mut Replica, status: Option<i32>) {
    replica.end.as_mut().expect("the replica ended").status = status;
}

#[test]
fn good_round_and_good_tick_have_no_misses() {
    assert!(good_round().misses().is_empty() && !good_round().is_late());
    assert!(good_tick().misses().is_empty());
    // A SIGTERM may come before dlock handles signals.
    let mut round = good_round();
    ends_with(&mut round.replicas[1], None);
    assert!(round.misses().is_empty());
}

#[test]
fn no_success_or_two_successes_are_a_miss() {
    misses(|round| drop(round.written.pop()), "0 successes");
    misses(|round| round.written.push("done 4".into()), "2 successes");
}

#[test]
fn command_that_was_not_alone_is_a_miss() {
    misses(
        |round| round.written.push("not-alone 4".into()),
        "1 not alone",
    );
}

#[test]
fn replica_without_a_signal_must_exit_with_0() {
    for status in [Some(76), Some(143), None] {
        misses(
            |round| ends_with(&mut round.replicas[3], status),
            "replica 4 (LetAlone)",
        );
    }
    misses(
        |round| round.replicas[3].end = None,
        "replica 4 never ended",
    );
}

#[test]
fn stopped_replica_has_143_and_killed_replica_has_no_status() {
    misses(
        |round| ends_with(&mut round.replicas[1], Some(0)),
        "replica 2 (Stopped) ended with 0",
    );
    misses(
        |round| ends_with(&mut round.replicas[0], Some(0)),
        "replica 1 (Killed) ended with 0",
    );
}

#[test]
fn too_few_stopped_replicas_are_a_miss() {
    misses(|round| round.stops = 2, "1 were stopped, not 2");
}

#[test]
fn round_is_late_if_a_survivor_ends_after_the_promised_time() {
    let mut round = good_round();
    round.allowed -= Duration::from_millis(1);
    assert!(round.is_late() && round.misses().is_empty());
    let mut round = good_round();
    round.replicas[3].end = None;
    assert!(round.is_late());
    // The end of a stopped replica does not count.
    let mut round = good_round();
    round.replicas[3].fate = Fate::Stopped;
    round.allowed = Duration::from_secs(7);
    assert!(!round.is_late());
}

#[test]
fn tick_needs_one_run_and_silent_hosts_that_exit_with_0() {
    let mut tick = good_tick();
    tick.written.push("done 1 1".into());
    expect(&tick.misses(), "2 successes");
    let mut tick = good_tick();
    tick.written.clear();
    expect(&tick.misses(), "0 successes");
    let mut tick = good_tick();
    tick.hosts[1].status = Some(75);
    expect(&tick.misses(), "host 2 ended with Some(75)");
    let mut tick = good_tick();
    tick.hosts[0].mail = "dlock: lost".into();
    expect(
        &tick.misses(),
        "host 1 ended with Some(0) and mails \"dlock: lost\"",
    );
}
