//! The rounds' judge is judged here, in a target of its own because the rounds are a program: it must complain of each
//! thing that may go wrong, and of nothing else.

#![allow(dead_code, reason = "the rounds use what the tests do not")]

mod judge;

use std::time::Duration;

use judge::{End, Fate, Host, Replica, Round, Tick};

/// A round in which all is as it should be: the first is killed, the second stopped, the third succeeds.
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

/// Asserts that the judge of a round with `change` has one complaint, which holds `complaint`.
#[track_caller]
fn misses(change: impl FnOnce(&mut Round), complaint: &str) {
    let mut round = good_round();
    change(&mut round);
    expect(&round.misses(), complaint);
}

#[track_caller]
fn expect(misses: &[String], complaint: &str) {
    let [miss] = misses else {
        panic!("not one complaint: {misses:?}");
    };
    assert!(miss.contains(complaint), "{miss}");
}

fn ends_with(replica: &mut Replica, status: Option<i32>) {
    replica.end.as_mut().expect("it ended").status = status;
}

#[test]
fn nothing_is_wrong_with_a_good_round_and_a_good_tick() {
    assert!(good_round().misses().is_empty() && !good_round().is_late());
    assert!(good_tick().misses().is_empty());
    // A stop may come before dlock listens.
    let mut round = good_round();
    ends_with(&mut round.replicas[1], None);
    assert!(round.misses().is_empty());
}

#[test]
fn one_success_is_neither_none_nor_two() {
    misses(|round| drop(round.written.pop()), "0 successes");
    misses(|round| round.written.push("done 4".into()), "2 successes");
}

#[test]
fn a_command_that_was_not_alone_is_a_miss() {
    misses(
        |round| round.written.push("not-alone 4".into()),
        "1 not alone",
    );
}

#[test]
fn whoever_is_let_alone_ends_with_0() {
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
fn whoever_is_stopped_says_so_and_whoever_is_killed_has_no_status() {
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
fn a_round_in_which_fewer_were_stopped_is_not_the_one_that_was_asked_for() {
    misses(|round| round.stops = 2, "1 were stopped, not 2");
}

#[test]
fn late_is_whoever_of_the_survivors_ends_after_the_time_that_is_promised() {
    let mut round = good_round();
    round.allowed -= Duration::from_millis(1);
    assert!(round.is_late() && round.misses().is_empty());
    let mut round = good_round();
    round.replicas[3].end = None;
    assert!(round.is_late());
    // That of one that was stopped is its own.
    let mut round = good_round();
    round.replicas[3].fate = Fate::Stopped;
    round.allowed = Duration::from_secs(7);
    assert!(!round.is_late());
}

#[test]
fn a_tick_is_one_run_and_hosts_that_end_with_0_without_a_word() {
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
