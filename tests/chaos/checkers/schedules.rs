//! Tests of the schedule and the store.

use std::time::Duration;

use tempfile::tempdir;

use crate::fault_kind::FaultKind;
use crate::schedule::{Plan, Step, plans, steps};
use crate::store::{Content, Response, Store};

fn first_plans(seed: u64, action: &str, slot: usize) -> Vec<Plan> {
    plans(seed, action, slot).take(50).collect()
}

fn first_steps(seed: u64, name: &str) -> Vec<Step> {
    steps(seed, name, &FaultKind::ALL).take(100).collect()
}

#[test]
fn equal_seeds_give_equal_schedules() {
    assert_eq!(
        first_plans(7, "processes-1", 2),
        first_plans(7, "processes-1", 2)
    );
    assert_eq!(first_steps(7, "processes-1"), first_steps(7, "processes-1"));
}

#[test]
fn schedule_depends_on_seed_action_and_slot() {
    let plans = first_plans(7, "processes-1", 2);
    assert_ne!(plans, first_plans(8, "processes-1", 2));
    assert_ne!(plans, first_plans(7, "calm-2", 2));
    assert_ne!(plans, first_plans(7, "processes-1", 3));
    assert_ne!(first_steps(7, "processes-1"), first_steps(8, "processes-1"));
}

#[test]
fn each_round_has_every_fault_once() {
    let count = FaultKind::ALL.len();
    let steps: Vec<Step> = steps(7, "processes-1", &FaultKind::ALL)
        .take(3 * count)
        .collect();
    for round in steps.chunks(count) {
        let mut kinds: Vec<FaultKind> = round.iter().map(|step| step.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds.len(), count);
    }
    assert_eq!(crate::schedule::steps(7, "processes-1", &[]).count(), 0);
}

/// If a lasting fault had a length of zero, the report would count the fault although it has no effect.
#[test]
fn lasting_faults_have_a_length() {
    let ttl = Duration::from_secs(2);
    let without_length = [
        FaultKind::KillParent,
        FaultKind::TermParent,
        FaultKind::KillMonitor,
        FaultKind::KillCommand,
        FaultKind::KillWaiter,
        FaultKind::TermWaiter,
        FaultKind::KillSession,
        FaultKind::KillWaitingSession,
        FaultKind::LoseReply,
        FaultKind::ErrorReply,
        FaultKind::Release,
        FaultKind::ResetConnections,
        FaultKind::KillServer,
        FaultKind::RestartServer,
        FaultKind::KillNode,
        FaultKind::RestartNode,
        FaultKind::SwitchPrimary,
    ];
    for kind in FaultKind::ALL {
        let (minimum, maximum) = (kind.length(ttl, 0.0), kind.length(ttl, 1.0));
        match without_length.contains(&kind) {
            true => assert_eq!(maximum, Duration::ZERO, "{kind}"),
            false => assert!(
                ttl / 20 <= minimum && ttl / 4 < maximum,
                "{kind}: {minimum:?} to {maximum:?}"
            ),
        }
    }
}

#[test]
fn fault_names_round_trip() {
    for kind in FaultKind::ALL {
        assert_eq!(FaultKind::named(&kind.to_string()), Some(kind));
    }
    assert_eq!(FaultKind::named("no-such-fault"), None);
}

#[test]
fn store_refuses_tokens_below_the_highest() {
    let folder = tempdir().expect("a temporary folder");
    let path = folder.path().join("store");
    let open = || Store::open(&path).expect("the store can be opened");
    let (mut old, mut new) = (open(), open());
    assert_eq!(old.read(5).expect("the store responds"), Response::Count(0));
    assert_eq!(
        old.write(5, 1).expect("the store responds"),
        Response::Count(1)
    );
    assert_eq!(new.read(6).expect("the store responds"), Response::Count(1));
    assert_eq!(
        old.write(5, 2).expect("the store responds"),
        Response::Refused(6)
    );
    assert_eq!(
        old.read(5).expect("the store responds"),
        Response::Refused(6)
    );
    assert_eq!(
        new.write(6, 2).expect("the store responds"),
        Response::Count(2)
    );
    let content = open().content().expect("the store can be read");
    assert_eq!(
        content,
        Content {
            count: 2,
            highest: 6
        }
    );
}
