//! Histories in which a waiter waits too long, or a run is killed without cause or ends with a wrong status.

use super::history_builder::{HistoryBuilder, plan};
use crate::check::{excused, latencies, takeovers};
use crate::fault_kind::FaultKind;
use crate::history::Event;
use crate::schedule::Plan;

const TAKEOVER: &str = "a lease is taken over in time";
const CAUSE: &str = "no run of dlock ends without cause";
const SERVED: &str = "every contender is served after the faults";

/// A holder with a fault at 10 s, and a waiter whose command starts at `next`.
fn taken_over(kind: FaultKind, until: u64, next: u64) -> HistoryBuilder {
    let builder = HistoryBuilder::default()
        .asked(8_000, 1)
        .started(8_100, 1, 10)
        .fault(10_000, until, kind, Some(1))
        .asked(8_500, 2)
        .started(next, 2, 11)
        .finished(next + 50, 2)
        .dead(next + 60, 2)
        .ended(next + 70, 2, 0)
        .quiet(30_000)
        .overdue(31_000);
    match kind {
        FaultKind::KillParent => builder.dead(10_010, 1).killed(10_010, 1),
        _ => builder.dead(11_800, 1).ended(until + 10, 1, 76),
    }
}

#[test]
fn late_takeover_is_reported() {
    // The ttl of 2 s, the promised 1 s and the tolerance.
    assert_eq!(
        taken_over(FaultKind::KillParent, 10_001, 14_600).breaks(),
        [TAKEOVER]
    );
    assert!(
        taken_over(FaultKind::KillParent, 10_001, 14_400)
            .breaks()
            .is_empty()
    );
    // The ttl of 2 s, the promised 2 s and the tolerance.
    let frozen = |next| taken_over(FaultKind::FreezeParentLong, 20_000, next).breaks();
    assert_eq!(frozen(15_600), [TAKEOVER]);
    assert!(frozen(15_400).is_empty());
    // Resumed after half a second, when it could still renew.
    let thawed = taken_over(FaultKind::FreezeParentLong, 10_500, 15_600).breaks();
    assert!(!thawed.contains(&TAKEOVER), "{thawed:?}");
}

#[test]
fn takeovers_are_counted_and_timed() {
    let timeline = taken_over(FaultKind::KillParent, 10_001, 12_800).timeline();
    assert_eq!(takeovers(&timeline), 1);
    assert_eq!(latencies(&timeline, FaultKind::KillParent), [800_000]);
    let handed_over = HistoryBuilder::default().lived(1_000, 2_000, 1, 1);
    let timeline = handed_over.lived(1_500, 3_000, 2, 2).timeline();
    assert_eq!(takeovers(&timeline), 0);
}

#[test]
fn takeover_during_or_after_a_server_outage_is_not_judged() {
    let frozen = |from| {
        let builder = taken_over(FaultKind::KillParent, 10_001, 14_600);
        builder.fault(from, from + 200, FaultKind::FreezeServer, None)
    };
    assert!(frozen(9_000).breaks().is_empty());
    assert!(frozen(11_000).breaks().is_empty());
    assert_eq!(frozen(15_000).breaks(), [TAKEOVER], "too late to matter");
}

/// A run that exits with `status` before its command has finished.
fn stopped(status: i32) -> HistoryBuilder {
    HistoryBuilder::default()
        .asked(1_000, 1)
        .started(1_100, 1, 10)
        .dead(3_000, 1)
        .ended(3_010, 1, status)
        .quiet(30_000)
        .overdue(31_000)
}

#[test]
fn lease_lost_without_cause_is_reported() {
    assert_eq!(stopped(76).breaks(), [CAUSE]);
    let outage =
        |length: u64| stopped(76).fault(1_200, 1_200 + length, FaultKind::FreezeServer, None);
    assert_eq!(outage(300).breaks(), [CAUSE], "every lease tolerates that");
    assert!(outage(1_500).breaks().is_empty());
}

#[test]
fn tolerated_faults_are_no_cause() {
    for kind in [
        FaultKind::HourForward,
        FaultKind::HourBack,
        FaultKind::DoubleSpeed,
        FaultKind::KillSession,
        FaultKind::LoseReply,
        FaultKind::ErrorReply,
        FaultKind::StopReader,
        FaultKind::ResetConnections,
    ] {
        let builder = stopped(76).fault(1_200, 2_900, kind, None);
        assert_eq!(builder.breaks(), [CAUSE], "{kind}");
    }
}

#[test]
fn operator_release_explains_only_the_loss_of_the_current_lease() {
    let released = |status, at| stopped(status).fault(at, at + 50, FaultKind::Release, Some(1));
    assert!(released(76, 2_900).breaks().is_empty());
    assert_eq!(
        released(137, 2_900).breaks(),
        [CAUSE],
        "it kills no command"
    );
    assert_eq!(
        released(76, 3_500).breaks(),
        [CAUSE],
        "the release came later"
    );
    let elsewhere = stopped(76).fault_at("processes", 2_900, 2_950, FaultKind::Release);
    assert_eq!(
        elsewhere.breaks(),
        [CAUSE],
        "the release was for another action"
    );
    let before = HistoryBuilder::default()
        .fault(1_000, 1_050, FaultKind::Release, Some(7))
        .asked(1_000, 1)
        .started(2_500, 1, 10)
        .dead(3_000, 1)
        .ended(3_010, 1, 76)
        .quiet(30_000)
        .overdue(31_000);
    assert_eq!(
        before.breaks(),
        [CAUSE],
        "the release was for an earlier run"
    );
}

#[test]
fn exit_after_a_signal_needs_a_matching_fault() {
    for (status, kind) in [
        (137, FaultKind::KillCommand),
        (143, FaultKind::TermParent),
        (76, FaultKind::KillMonitor),
        (76, FaultKind::FreezeParentNear),
    ] {
        assert_eq!(stopped(status).breaks(), [CAUSE], "{status}");
        let builder = stopped(status).fault(2_500, 2_600, kind, Some(1));
        assert!(builder.breaks().is_empty(), "{status} after {kind}");
        let builder = stopped(status).fault(2_500, 2_600, kind, Some(7));
        assert_eq!(
            builder.breaks(),
            [CAUSE],
            "{status} after {kind} of another run"
        );
    }
    let builder = HistoryBuilder::default().asked(1_000, 1).killed(2_000, 1);
    let builder = builder.lived(3_000, 3_500, 2, 1).quiet(9_000);
    assert_eq!(builder.breaks(), [CAUSE]);
}

#[test]
fn only_a_second_stop_request_explains_a_killed_command() {
    let once = |at, kind, run| stopped(137).fault(at, at + 10, kind, Some(run));
    assert_eq!(once(1_050, FaultKind::TermWaiter, 1).breaks(), [CAUSE]);
    let twice = |run| {
        once(1_050, FaultKind::TermWaiter, 1).fault(2_900, 2_910, FaultKind::TermParent, Some(run))
    };
    assert!(twice(1).breaks().is_empty());
    assert_eq!(
        twice(7).breaks(),
        [CAUSE],
        "the second request was for another run"
    );
}

#[test]
fn dlock_dies_of_sigterm_only_before_its_first_output() {
    let waiter = |kind, run| {
        let builder = HistoryBuilder::default()
            .lived(1_000, 5_000, 1, 10)
            .quiet(9_000);
        let builder = builder.asked(2_000, 2).killed_by(2_300, 2, 15);
        builder.fault(2_200, 2_201, kind, Some(run)).breaks()
    };
    assert!(waiter(FaultKind::TermWaiter, 2).is_empty());
    assert_eq!(waiter(FaultKind::TermWaiter, 1), [CAUSE]);
    assert_eq!(waiter(FaultKind::KillSession, 2), [CAUSE]);
    let holder = HistoryBuilder::default()
        .asked(1_000, 1)
        .started(1_100, 1, 10);
    let holder = holder.fault(2_000, 2_001, FaultKind::TermParent, Some(1));
    let holder = holder.dead(2_100, 1).killed_by(2_200, 1, 15).quiet(9_000);
    assert_eq!(holder.breaks(), [CAUSE]);
}

#[test]
fn status_without_a_matching_fault_is_reported() {
    for status in [64, 69, 70, 75, 77, 78, 101, 126, 127, 134] {
        assert_eq!(stopped(status).breaks(), [CAUSE], "{status}");
    }
}

#[test]
fn success_without_a_finished_command_is_reported() {
    assert_eq!(stopped(0).breaks(), [CAUSE]);
}

#[test]
fn wait_timeout_is_right_only_with_a_wait_limit() {
    let gave_up = |wait| {
        let plan = Plan { wait, ..plan() };
        let builder = HistoryBuilder::default().lived(1_000, 5_000, 1, 10);
        let builder = builder.asked_for(1_500, 2, plan).ended(2_500, 2, 75);
        builder.quiet(9_000).breaks()
    };
    assert!(gave_up(Some(1_000)).is_empty());
    assert_eq!(gave_up(None), [CAUSE]);
}

#[test]
fn unreachable_is_right_only_with_a_wait_limit_and_an_outage() {
    let gave_up = |wait, outage: u64| {
        let plan = Plan { wait, ..plan() };
        let builder = HistoryBuilder::default().lived(1_000, 1_400, 1, 10);
        let builder = builder.fault(1_600, 1_600 + outage, FaultKind::FreezeServer, None);
        let builder = builder.asked_for(1_500, 2, plan).ended(2_500, 2, 69);
        builder.quiet(9_000).breaks()
    };
    assert!(gave_up(Some(500), 800).is_empty());
    assert_eq!(gave_up(None, 800), [CAUSE]);
    assert_eq!(gave_up(Some(500), 100), [CAUSE]);
}

#[test]
fn stalled_machine_is_a_cause() {
    let stalled = |site: Option<&str>, micros| {
        let site = site.map(str::to_owned);
        stopped(76).event(2_500, Event::Stalled { site, micros })
    };
    assert!(stalled(None, 900_000).breaks().is_empty());
    assert_eq!(
        excused(&stalled(None, 900_000).timeline()).len(),
        1,
        "and is counted as excused"
    );
    assert!(stalled(Some("processes"), 900_000).breaks().is_empty());
    assert!(stalled(Some("clocks"), 900_000).breaks().is_empty());
    assert_eq!(stalled(None, 210_000).breaks(), [CAUSE]);
    let twice = stalled(None, 210_000).event(
        2_510,
        Event::Stalled {
            site: None,
            micros: 210_000,
        },
    );
    assert_eq!(twice.breaks(), [CAUSE], "the same time counts once");
    let elsewhere = stalled(Some("restarts"), 900_000);
    let elsewhere = elsewhere.fault_at("restarts", 1_500, 2_400, FaultKind::FreezeServer);
    assert_eq!(
        elsewhere.breaks(),
        [CAUSE],
        "a frozen server is no evidence for other sites"
    );
}

#[test]
fn contender_that_is_not_served_is_reported() {
    let good = || {
        HistoryBuilder::default()
            .lived(1_000, 2_000, 1, 10)
            .quiet(3_000)
    };
    assert_eq!(good().asked(2_000, 2).overdue(9_000).breaks(), [SERVED]);
    let builder = good().asked(2_000, 2).overdue(9_000).killed(9_100, 2);
    assert_eq!(builder.breaks(), [SERVED], "killed by the runner");
    let builder = good().asked(4_000, 2).ended(4_100, 2, 76);
    assert!(
        builder.breaks().contains(&SERVED),
        "stopped after the faults"
    );
}

#[test]
fn run_without_grants_is_a_violation() {
    assert_eq!(HistoryBuilder::default().breaks(), [SERVED]);
    assert_eq!(HistoryBuilder::default().quiet(1_000).breaks(), [SERVED]);
}
