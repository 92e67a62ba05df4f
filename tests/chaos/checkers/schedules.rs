//! Tests of the schedule and the store.

use std::collections::BTreeSet;
use std::time::Duration;

use tempfile::tempdir;

use crate::fault_kind::FaultKind;
use crate::schedule::{Plan, Step, plans, steps};
use crate::store::Store;

#[test]
fn schedule_depends_on_seed_action_and_slot() {
    let plans = |seed, action, slot| -> Vec<Plan> { plans(seed, action, slot).take(50).collect() };
    let steps = |seed| -> Vec<Step> {
        let steps = steps(seed, "processes-1", FaultKind::ALL);
        steps.take(100).collect()
    };
    let same = plans(7, "processes-1", 2);
    assert_eq!(same, plans(7, "processes-1", 2));
    assert_ne!(same, plans(8, "processes-1", 2));
    assert_ne!(same, plans(7, "calm-2", 2));
    assert_ne!(same, plans(7, "processes-1", 3));
    assert_eq!(steps(7), steps(7));
    assert_ne!(steps(7), steps(8));
}

#[test]
fn each_round_has_every_fault_once() {
    let count = FaultKind::ALL.len();
    let all = steps(7, "processes-1", FaultKind::ALL).take(3 * count);
    let names: Vec<String> = all.map(|step| step.kind.to_string()).collect();
    for round in names.chunks(count) {
        assert_eq!(round.iter().collect::<BTreeSet<_>>().len(), count);
    }
    assert_eq!(steps(7, "processes-1", &[]).count(), 0);
}

/// If a lasting fault had a length of almost zero, the report would count the fault although it has no effect.
#[test]
fn lasting_faults_have_a_length() {
    let ttl = Duration::from_secs(2);
    for kind in FaultKind::ALL {
        let (minimum, maximum) = (kind.length(ttl, 0.0), kind.length(ttl, 1.0));
        let is_long = ttl / 20 <= minimum && ttl / 4 < maximum;
        let lasts = ["freeze-", "cut-", "hour-"].map(|start| kind.to_string().starts_with(start));
        let may_be_zero = maximum.is_zero() && !lasts.contains(&true);
        assert!(is_long || may_be_zero, "{kind}: {minimum:?} to {maximum:?}");
    }
}

#[test]
fn store_refuses_tokens_below_the_highest() {
    let folder = tempdir().expect("a temporary folder");
    let open = || Store::open(&folder.path().join("store"));
    let stores = [open(), open()];
    let (old, new) = (0, 1);
    for (store, token, count, expected) in [
        (old, 5, None, Ok(0)),
        (old, 5, Some(1), Ok(1)),
        (new, 6, None, Ok(1)),
        (old, 5, Some(2), Err(6)),
        (old, 5, None, Err(6)),
        (new, 6, Some(2), Ok(2)),
    ] {
        let response = stores[store].exchange(token, count);
        assert_eq!(response, expected, "token {token}, count {count:?}");
    }
    assert_eq!(open().content(), [2, 6]);
}
