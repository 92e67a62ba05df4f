//! Tests with histories that contain overlapping commands, invalid tokens, incorrect counters, or processes that die
//! too late.

use super::history_builder::{HistoryBuilder, hold_plan, plan};
use crate::fault_kind::FaultKind;
use crate::history::Event;
use crate::schedule::{Plan, Shape};

const OVERLAP: &str = "no two process trees of an action run at the same time";
const TOKENS: &str = "tokens increase in the order of the starts";
const COUNTER: &str = "a store that checks tokens loses no increment";
const CAUSE: &str = "no run of dlock ends without a documented cause";
const DEATHS: &str = "a process tree dies with its dlock";

/// Returns a history of two successive runs without a violation.
fn good() -> HistoryBuilder {
    HistoryBuilder::default()
        .complete_run(1_000, 2_000, 1, 10)
        .complete_run(2_100, 3_000, 2, 11)
        .quiet(25_000)
        .overdue(30_000)
}

#[test]
fn good_history_has_no_violations() {
    assert_eq!(good().violations(), Vec::<&str>::new());
}

#[test]
fn failed_witness_lock_is_an_overlap() {
    let builder = good().launched(3_100, 3).started_alone(3_200, 3, 12, false);
    let builder = builder.dead(3_300, 3).ended(3_400, 3, 99);
    assert_eq!(builder.violations(), [OVERLAP]);
}

#[test]
fn event_after_a_later_start_is_an_overlap() {
    let builder = HistoryBuilder::default()
        .launched(1_000, 1)
        .started(1_100, 1, 10)
        .complete_run(1_200, 2_000, 2, 11)
        .counted(1_300, 1, 1)
        .counter(7_000, 1)
        .finished(1_400, 1)
        .dead(1_500, 1)
        .ended(1_600, 1, 0)
        .quiet(5_000);
    // Besides, run 1 reports a success although its lease was lost.
    assert_eq!(builder.violations(), [OVERLAP, CAUSE]);
}

/// Returns a history in which run 1, with the limit `limits[0]`, is alive after the start of run 2, with the limit
/// `limits[1]` and a lower token.
fn two_at_once(limits: [u32; 2]) -> HistoryBuilder {
    let with = |limit| Plan { limit, ..plan() };
    HistoryBuilder::default()
        .launched_with(1_000, 1, with(limits[0]))
        .launched_with(1_000, 2, with(limits[1]))
        .started(1_100, 1, 11)
        .started(1_200, 2, 10)
        .finished(1_300, 1)
        .dead(1_310, 1)
        .ended(1_320, 1, 0)
        .finished(1_400, 2)
        .dead(1_410, 2)
        .ended(1_420, 2, 0)
        .quiet(25_000)
        .overdue(30_000)
}

#[test]
fn commands_that_accept_others_may_run_at_once_and_start_in_any_order() {
    assert_eq!(two_at_once([0, 2]).violations(), Vec::<&str>::new());
    for limits in [[1, 0], [2, 1]] {
        assert_eq!(two_at_once(limits).violations(), [OVERLAP, TOKENS, CAUSE]);
    }
}

#[test]
fn refused_token_is_an_overlap() {
    let refused = Event::Refused {
        run: 2,
        action: "processes-1".to_owned(),
        token: 11,
        highest: 12,
    };
    assert_eq!(good().event(2_500, refused).violations(), [OVERLAP]);
}

#[test]
fn token_that_does_not_increase_is_reported() {
    for token in [11, 10, 0] {
        let builder = good().complete_run(3_100, 4_000, 3, token);
        assert_eq!(builder.violations(), [TOKENS], "{token}");
    }
}

/// Returns a history in which the database has a fault of `kind` from 3.2 s to 4 s, after the grant of token 11.
fn failed_over(kind: FaultKind) -> HistoryBuilder {
    good().fault(3_200, 4_000, kind, None)
}

#[test]
fn lower_token_is_accepted_only_after_a_lost_grant() {
    let next = |kind, token| failed_over(kind).complete_run(4_100, 4_500, 3, token);
    assert!(next(FaultKind::LosePrimary, 10).violations().is_empty());
    assert_eq!(next(FaultKind::SwitchPrimary, 10).violations(), [TOKENS]);
    let later = next(FaultKind::LosePrimary, 10).complete_run(4_600, 5_000, 4, 10);
    assert_eq!(
        later.violations(),
        [TOKENS],
        "the new database has granted it"
    );
    let before =
        good()
            .complete_run(3_100, 3_900, 3, 10)
            .fault(4_000, 5_000, FaultKind::LosePrimary, None);
    assert_eq!(before.violations(), [TOKENS]);
}

#[test]
fn refused_token_is_accepted_only_after_a_lost_grant() {
    let refused = |kind| {
        let refused = Event::Refused {
            run: 3,
            action: "processes-1".to_owned(),
            token: 10,
            highest: 11,
        };
        let builder = failed_over(kind).launched(4_100, 3).started(4_200, 3, 10);
        let builder = builder.event(4_300, refused).dead(4_310, 3);
        builder.ended(4_320, 3, 98).violations()
    };
    assert!(refused(FaultKind::LosePrimary).is_empty());
    assert_eq!(refused(FaultKind::SwitchPrimary), [OVERLAP, TOKENS]);
}

#[test]
fn overlap_after_a_lost_grant_is_reported() {
    let builder = failed_over(FaultKind::LosePrimary).launched(4_100, 3);
    let builder = builder.started_alone(4_200, 3, 12, false);
    let builder = builder.dead(4_300, 3).ended(4_400, 3, 99);
    assert_eq!(builder.violations(), [OVERLAP]);
}

#[test]
fn lost_increment_is_reported_and_unknown_one_may_count() {
    let counts = |builder: HistoryBuilder, count| builder.counter(7_000, count).violations();
    let two = || good().counted(1_500, 1, 1).counted(2_500, 2, 2);
    assert_eq!(counts(two(), 1), [COUNTER]);
    assert_eq!(counts(two(), 3), [COUNTER]);
    assert!(counts(two(), 2).is_empty());
    let unknown = || two().counting(2_600, 2, 3);
    assert!(counts(unknown(), 2).is_empty());
    assert!(counts(unknown(), 3).is_empty());
    assert_eq!(counts(unknown(), 4), [COUNTER]);
}

/// Returns a history of a holder whose parent has a fault, and whose process tree dies at `dead`. If `dead` is None,
/// the tree never dies.
fn with_fault(kind: FaultKind, until: u64, dead: Option<u64>) -> HistoryBuilder {
    let builder =
        good()
            .launched(10_000, 3)
            .started(10_100, 3, 12)
            .fault(10_500, until, kind, Some(3));
    match dead {
        Some(dead) => builder.dead(dead, 3),
        None => builder,
    }
}

#[test]
fn tree_that_outlives_its_killed_parent_is_reported() {
    let kill = |dead| with_fault(FaultKind::KillParent, 10_500, dead).killed(10_501, 3);
    assert_eq!(kill(Some(13_000)).violations(), [DEATHS]);
    assert_eq!(kill(None).violations(), [DEATHS]);
    assert!(kill(Some(10_550)).violations().is_empty());
}

#[test]
fn tree_that_outlives_the_lease_of_a_frozen_parent_is_reported() {
    let frozen = |dead| {
        let builder = with_fault(FaultKind::FreezeParentLong, 15_500, Some(dead));
        builder.ended(15_600, 3, 76)
    };
    assert_eq!(frozen(14_600).violations(), [DEATHS]);
    assert!(frozen(12_200).violations().is_empty());
}

#[test]
fn descendant_that_outlives_dlock_is_reported() {
    let builder = |dead| {
        let builder = good().launched(3_100, 3).started(3_200, 3, 12);
        builder.finished(3_300, 3).ended(3_400, 3, 0).dead(dead, 3)
    };
    assert_eq!(builder(5_500).violations(), [DEATHS]);
    assert!(builder(3_390).violations().is_empty());
}

#[test]
fn orphan_is_reported() {
    let (pid, words) = (4_711, "sleep 20".to_owned());
    let builder = good().event(9_000, Event::Orphan { pid, words });
    assert_eq!(builder.violations(), [DEATHS]);
}

/// Returns a history in which the dlock of a program is frozen at 1.5 s and the next command starts at 4 s. The program
/// writes at `written`, and is frozen from `frozen` to 6 s.
fn write_after_a_check(checked: u64, frozen: Option<u64>, written: Event) -> HistoryBuilder {
    let counting = Event::Counting {
        run: 1,
        action: "processes-1".to_owned(),
        count: 1,
    };
    let builder = HistoryBuilder::default()
        .launched_with(1_000, 1, hold_plan(Shape::Plain))
        .started(1_100, 1, 10)
        .fault(1_500, 6_000, FaultKind::FreezeParentLong, Some(1))
        .event(checked, counting)
        .launched(1_200, 2)
        .started(4_000, 2, 11)
        .event(6_010, written)
        .dead(6_020, 1)
        .ended(6_030, 1, 76)
        .finished(6_100, 2)
        .dead(6_110, 2)
        .ended(6_120, 2, 0)
        .quiet(25_000)
        .overdue(30_000);
    match frozen {
        Some(frozen) => builder.fault(frozen, 6_000, FaultKind::FreezeCommand, Some(1)),
        None => builder,
    }
}

/// The store must refuse such a write. A check of the clock cannot prevent it.
#[test]
fn write_of_a_program_is_accepted_only_if_it_was_frozen_after_its_check() {
    let counted = || Event::Counted {
        run: 1,
        action: "processes-1".to_owned(),
        count: 1,
    };
    let refused = || Event::Refused {
        run: 1,
        action: "processes-1".to_owned(),
        token: 10,
        highest: 11,
    };
    for written in [counted, refused] {
        let violations = |checked, frozen| {
            let builder = write_after_a_check(checked, frozen, written());
            builder.violations().contains(&OVERLAP)
        };
        assert!(!violations(2_000, Some(2_001)));
        assert!(violations(2_000, None), "the program was not frozen");
        assert!(violations(6_005, Some(2_001)), "frozen before the check");
    }
}

#[test]
fn program_that_works_after_its_deadline_is_reported() {
    let killed = |shape, dead| {
        good()
            .launched_with(10_000, 3, hold_plan(shape))
            .started(10_100, 3, 12)
            .fault(10_500, 10_500, FaultKind::KillParent, Some(3))
            .killed(10_501, 3)
            .dead(dead, 3)
            .violations()
    };
    assert!(killed(Shape::Plain, 10_550).is_empty());
    assert_eq!(killed(Shape::Plain, 12_400), [DEATHS]);
    assert!(killed(Shape::Stubborn, 12_400).is_empty());
    assert_eq!(killed(Shape::Stubborn, 14_100), [DEATHS]);
    let frozen = |until| {
        good()
            .launched_with(10_000, 3, hold_plan(Shape::Plain))
            .started(10_100, 3, 12)
            .fault(10_500, 14_000, FaultKind::FreezeServer, None)
            .fault(10_500, until, FaultKind::FreezeCommand, Some(3))
            .ended(12_400, 3, 76)
            .dead(14_050, 3)
            .violations()
    };
    assert!(frozen(14_000).is_empty(), "a frozen program does not work");
    assert_eq!(frozen(12_300), [DEATHS]);
}
