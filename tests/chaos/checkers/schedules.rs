//! What is decided beforehand, and the store.

use std::time::Duration;

use tempfile::tempdir;

use crate::kind::Kind;
use crate::schedule::{Plan, Step, plans, steps};
use crate::store::{Content, Reply, Store};

fn first_plans(seed: u64, action: &str, slot: usize) -> Vec<Plan> {
    plans(seed, action, slot).take(50).collect()
}

fn first_steps(seed: u64, whom: &str) -> Vec<Step> {
    steps(seed, whom, &Kind::ALL).take(100).collect()
}

#[test]
fn a_seed_gives_the_same_schedule_again() {
    assert_eq!(
        first_plans(7, "processes-1", 2),
        first_plans(7, "processes-1", 2)
    );
    assert_eq!(first_steps(7, "processes-1"), first_steps(7, "processes-1"));
}

#[test]
fn another_seed_another_action_and_another_slot_give_another_schedule() {
    let plans = first_plans(7, "processes-1", 2);
    assert_ne!(plans, first_plans(8, "processes-1", 2));
    assert_ne!(plans, first_plans(7, "calm-2", 2));
    assert_ne!(plans, first_plans(7, "processes-1", 3));
    assert_ne!(first_steps(7, "processes-1"), first_steps(8, "processes-1"));
}

#[test]
fn every_fault_comes_once_a_round() {
    let count = Kind::ALL.len();
    let steps: Vec<Step> = steps(7, "processes-1", &Kind::ALL)
        .take(3 * count)
        .collect();
    for round in steps.chunks(count) {
        let mut kinds: Vec<Kind> = round.iter().map(|step| step.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds.len(), count);
    }
    assert_eq!(crate::schedule::steps(7, "processes-1", &[]).count(), 0);
}

/// A fault that is over as soon as it begins is none, however often it is counted.
#[test]
fn every_fault_that_lasts_lasts() {
    let ttl = Duration::from_secs(2);
    let at_once = [
        Kind::KillFront,
        Kind::TermFront,
        Kind::KillMonitor,
        Kind::KillCommand,
        Kind::KillWaiter,
        Kind::TermWaiter,
        Kind::KillSession,
        Kind::KillWaitingSession,
        Kind::LoseReply,
        Kind::ErrorReply,
        Kind::Release,
        Kind::ResetConnections,
        Kind::KillServer,
        Kind::RestartServer,
    ];
    for kind in Kind::ALL {
        let (least, most) = (kind.length(ttl, 0.0), kind.length(ttl, 1.0));
        match at_once.contains(&kind) {
            true => assert_eq!(most, Duration::ZERO, "{kind}"),
            false => assert!(
                ttl / 20 <= least && ttl / 4 < most,
                "{kind}: {least:?} to {most:?}"
            ),
        }
    }
}

#[test]
fn every_fault_has_a_name_by_which_it_can_be_asked_for() {
    for kind in Kind::ALL {
        assert_eq!(Kind::named(&kind.to_string()), Some(kind));
    }
    assert_eq!(Kind::named("no-such-fault"), None);
}

#[test]
fn the_store_takes_nothing_from_a_token_below_the_highest() {
    let folder = tempdir().expect("a temporary folder");
    let path = folder.path().join("store");
    let open = || Store::open(&path).expect("it can be opened");
    let (mut old, mut new) = (open(), open());
    assert_eq!(old.look(5).expect("answers"), Reply::Count(0));
    assert_eq!(old.put(5, 1).expect("answers"), Reply::Count(1));
    assert_eq!(new.look(6).expect("answers"), Reply::Count(1));
    assert_eq!(old.put(5, 2).expect("answers"), Reply::Refused(6));
    assert_eq!(old.look(5).expect("answers"), Reply::Refused(6));
    assert_eq!(new.put(6, 2).expect("answers"), Reply::Count(2));
    let content = open().content().expect("it can be read");
    assert_eq!(
        content,
        Content {
            count: 2,
            highest: 6
        }
    );
}
