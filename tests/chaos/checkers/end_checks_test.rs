//! Tests with histories in which a waiter waits too long, or a run is killed without a cause or exits with an incorrect
//! status.

use super::history_builder::{ACTION, HistoryBuilder, hold_plan, plan};
use crate::check::{
    bystanders, cause, excused, latencies, min_hold, once, once_runs, session_checks, takeovers,
};
use crate::fault_kind::FaultKind;
use crate::history::Event;
use crate::schedule::{ExecOption, Plan, Shape};

const TAKEOVER: &str = "a lease is taken over in time";
const CAUSE: &str = "no run of dlock ends without a documented cause";
const SERVED: &str = "every contender is served after the faults";

/// Faults of a server and of the nodes of a cluster.
const OUTAGES: [FaultKind; 7] = [
    FaultKind::FreezeServer,
    FaultKind::KillNode,
    FaultKind::RestartNode,
    FaultKind::FreezeNode,
    FaultKind::IsolateNode,
    FaultKind::SwitchPrimary,
    FaultKind::LosePrimary,
];

/// Returns a history of a holder with a fault at 10 s, and a waiter whose command starts at `next` milliseconds.
fn taken_over(kind: FaultKind, until: u64, next: u64) -> HistoryBuilder {
    taken_over_at("processes", kind, until, next)
}

fn taken_over_at(site: &'static str, kind: FaultKind, until: u64, next: u64) -> HistoryBuilder {
    let builder = HistoryBuilder::at(site)
        .launched(8_000, 1)
        .started(8_100, 1, 10)
        .fault(10_000, until, kind, Some(1))
        .launched(8_500, 2)
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
    // The limit is the sum of the ttl (2 s), the promised 1 s and the tolerance (1.5 s).
    assert_eq!(
        taken_over(FaultKind::KillParent, 10_001, 14_600).violations(),
        [TAKEOVER]
    );
    assert!(
        taken_over(FaultKind::KillParent, 10_001, 14_400)
            .violations()
            .is_empty()
    );
    // The limit is the sum of the ttl (2 s), the promised 2 s and the tolerance (1.5 s).
    let frozen = |next| taken_over(FaultKind::FreezeParentLong, 20_000, next).violations();
    assert_eq!(frozen(15_600), [TAKEOVER]);
    assert!(frozen(15_400).is_empty());
    // The holder resumes after half a second and can still renew its lease.
    let resumed = taken_over(FaultKind::FreezeParentLong, 10_500, 15_600).violations();
    assert!(!resumed.contains(&TAKEOVER), "{resumed:?}");
}

#[test]
fn takeovers_are_counted_and_timed() {
    let timeline = taken_over(FaultKind::KillParent, 10_001, 12_800).timeline();
    assert_eq!(takeovers(&timeline), 1);
    assert_eq!(latencies(&timeline, FaultKind::KillParent), [800_000]);
    let handed_over = HistoryBuilder::default().complete_run(1_000, 2_000, 1, 1);
    let timeline = handed_over.complete_run(1_500, 3_000, 2, 2).timeline();
    assert_eq!(takeovers(&timeline), 0);
}

#[test]
fn takeover_during_or_after_a_server_outage_is_not_reported() {
    for kind in OUTAGES {
        let frozen = |from| {
            let builder = taken_over(FaultKind::KillParent, 10_001, 14_600);
            builder.fault(from, from + 200, kind, None)
        };
        assert!(frozen(9_000).violations().is_empty(), "{kind}");
        assert!(frozen(11_000).violations().is_empty(), "{kind}");
        assert_eq!(
            frozen(15_000).violations(),
            [TAKEOVER],
            "{kind}: the outage began after the take-over was due"
        );
    }
}

#[test]
fn takeover_after_the_priority_of_a_stale_queue_entry_is_not_reported() {
    // The limit is the sum of the ttl (2 s), the promised 1 s, the priority of a queue entry (3 s) and the tolerance
    // (1.5 s).
    let (in_time, late) = (17_400, 17_600);
    let after = |site, kind, until, next| {
        let builder = taken_over_at(site, FaultKind::KillParent, 10_001, next);
        let waiter = (kind == FaultKind::KillWaiter).then_some(3);
        let builder = builder.launched(until - 2_000, 3).killed(until, 3);
        let violations = builder.fault(until - 10, until, kind, waiter).violations();
        violations.contains(&TAKEOVER)
    };
    for (site, kind) in [
        ("nodes", FaultKind::KillWaiter),
        ("nodes", FaultKind::KillNode),
        ("members", FaultKind::SwitchPrimary),
        ("fail-over", FaultKind::LosePrimary),
    ] {
        assert!(!after(site, kind, 3_000, in_time), "{site}, {kind}");
        assert!(after(site, kind, 3_000, late), "{site}, {kind}");
    }
    assert!(
        after("processes", FaultKind::KillWaiter, 3_000, 14_600),
        "a single server knows that the session of a killed waiter has ended"
    );
    assert!(
        after("fail-over", FaultKind::KillWaiter, 3_000, 14_600),
        "the primary knows that the session of a killed waiter has ended"
    );
}

/// Returns a history of a run that exits with `status` before its command has finished.
fn stopped(status: i32) -> HistoryBuilder {
    HistoryBuilder::default()
        .launched(1_000, 1)
        .started(1_100, 1, 10)
        .dead(3_000, 1)
        .ended(3_010, 1, status)
        .quiet(30_000)
        .overdue(31_000)
}

#[test]
fn lease_lost_without_a_cause_is_reported() {
    assert_eq!(stopped(76).violations(), [CAUSE]);
    for kind in OUTAGES {
        let outage = |length: u64| stopped(76).fault(1_200, 1_200 + length, kind, None);
        assert_eq!(
            outage(300).violations(),
            [CAUSE],
            "{kind}: every lease tolerates an outage of 0.3 s"
        );
        assert!(outage(1_500).violations().is_empty(), "{kind}");
    }
}

#[test]
fn tolerated_faults_do_not_explain_a_lost_lease() {
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
        assert_eq!(builder.violations(), [CAUSE], "{kind}");
    }
}

#[test]
fn operator_release_explains_only_the_loss_of_the_current_lease() {
    let released = |status, at| stopped(status).fault(at, at + 50, FaultKind::Release, Some(1));
    assert!(released(76, 2_900).violations().is_empty());
    assert_eq!(
        released(137, 2_900).violations(),
        [CAUSE],
        "a release does not kill a command with SIGKILL"
    );
    assert_eq!(
        released(76, 3_500).violations(),
        [CAUSE],
        "the release was later than the end of the run"
    );
    let other_action = stopped(76).fault_at("processes", 2_900, 2_950, FaultKind::Release);
    assert_eq!(
        other_action.violations(),
        [CAUSE],
        "the release was for another action"
    );
    let before = HistoryBuilder::default()
        .fault(1_000, 1_050, FaultKind::Release, Some(7))
        .launched(1_000, 1)
        .started(2_500, 1, 10)
        .dead(3_000, 1)
        .ended(3_010, 1, 76)
        .quiet(30_000)
        .overdue(31_000);
    assert_eq!(
        before.violations(),
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
        assert_eq!(stopped(status).violations(), [CAUSE], "{status}");
        let builder = stopped(status).fault(2_500, 2_600, kind, Some(1));
        assert!(builder.violations().is_empty(), "{status} after {kind}");
        let builder = stopped(status).fault(2_500, 2_600, kind, Some(7));
        assert_eq!(
            builder.violations(),
            [CAUSE],
            "{status} after {kind} of another run"
        );
    }
    let builder = HistoryBuilder::default()
        .launched(1_000, 1)
        .killed(2_000, 1);
    let builder = builder.complete_run(3_000, 3_500, 2, 1).quiet(9_000);
    assert_eq!(builder.violations(), [CAUSE]);
}

#[test]
fn only_a_second_stop_request_explains_a_killed_command() {
    let once = |at, kind, run| stopped(137).fault(at, at + 10, kind, Some(run));
    assert_eq!(once(1_050, FaultKind::TermWaiter, 1).violations(), [CAUSE]);
    let twice = |run| {
        once(1_050, FaultKind::TermWaiter, 1).fault(2_900, 2_910, FaultKind::TermParent, Some(run))
    };
    assert!(twice(1).violations().is_empty());
    assert_eq!(
        twice(7).violations(),
        [CAUSE],
        "the second request was for another run"
    );
}

#[test]
fn dlock_dies_of_sigterm_only_before_its_first_output() {
    let waiter = |kind, run| {
        let builder = HistoryBuilder::default()
            .complete_run(1_000, 5_000, 1, 10)
            .quiet(9_000);
        let builder = builder.launched(2_000, 2).killed_by(2_300, 2, 15);
        builder.fault(2_200, 2_201, kind, Some(run)).violations()
    };
    assert!(waiter(FaultKind::TermWaiter, 2).is_empty());
    assert_eq!(waiter(FaultKind::TermWaiter, 1), [CAUSE]);
    assert_eq!(waiter(FaultKind::KillSession, 2), [CAUSE]);
    let holder = HistoryBuilder::default()
        .launched(1_000, 1)
        .started(1_100, 1, 10);
    let holder = holder.fault(2_000, 2_001, FaultKind::TermParent, Some(1));
    let holder = holder.dead(2_100, 1).killed_by(2_200, 1, 15).quiet(9_000);
    assert_eq!(holder.violations(), [CAUSE]);
}

#[test]
fn status_without_a_matching_fault_is_reported() {
    for status in [64, 69, 70, 75, 77, 78, 101, 126, 127, 134] {
        assert_eq!(stopped(status).violations(), [CAUSE], "{status}");
    }
}

#[test]
fn success_without_a_finished_command_is_reported() {
    assert_eq!(stopped(0).violations(), [CAUSE]);
}

#[test]
fn success_after_a_lost_lease_is_reported() {
    let revoked = |at| {
        let action = "processes-1".to_owned();
        let builder = HistoryBuilder::default().complete_run(1_000, 2_000, 1, 10);
        let builder = builder.event(at, Event::Revoked { run: 1, action });
        builder.quiet(9_000).violations()
    };
    assert_eq!(revoked(1_500), [CAUSE], "revoked while the command ran");
    assert!(
        revoked(1_999).is_empty(),
        "revoked when the command had finished"
    );

    // The database has lost the grant of run 1, so that run 2 may start beside it. The status must say so.
    let beside = |status| {
        let builder = HistoryBuilder::default()
            .launched(1_000, 1)
            .started(1_100, 1, 10)
            .started(1_500, 2, 11)
            .finished(2_000, 1)
            .ended(2_010, 1, status);
        let violations = cause(&builder.launched(1_400, 2).quiet(9_000).timeline());
        violations
            .iter()
            .map(|violation| violation.what.clone())
            .collect::<Vec<_>>()
    };
    let found = beside(0);
    assert!(
        found.len() == 1 && found[0].contains("run 2 had started"),
        "{found:?}"
    );
}

#[test]
fn skipped_run_needs_a_success_just_before() {
    let skipped = |option, exit| {
        let plan = Plan { option, ..plan() };
        let other = Plan {
            exit,
            ..self::plan()
        };
        let builder = HistoryBuilder::default()
            .launched_with(1_000, 1, other)
            .started(1_100, 1, 10)
            .finished(1_900, 1)
            .dead(1_910, 1)
            .ended(1_920, 1, exit);
        let builder = builder.launched_with(1_500, 2, plan).ended(1_930, 2, 0);
        builder.quiet(9_000).violations()
    };
    assert!(skipped(Some(ExecOption::OncePer), 0).is_empty());
    assert_eq!(skipped(None, 0), [CAUSE]);
    assert_eq!(skipped(Some(ExecOption::OncePer), 3), [CAUSE]);
}

#[test]
fn start_after_a_success_with_the_same_key_is_reported() {
    let found = |numbers: [u64; 2], statuses: [i32; 2], starts: bool| {
        let option = Some(ExecOption::Once);
        let [first, second] = numbers;
        let builder = HistoryBuilder::default()
            .launched_with(1_000, first, Plan { option, ..plan() })
            .started(1_100, first, 10)
            .finished(1_200, first)
            .dead(1_210, first)
            .ended(1_220, first, statuses[0])
            .launched_with(1_300, second, Plan { option, ..plan() });
        let builder = match starts {
            true => builder.started(1_400, second, 11).finished(1_500, second),
            false => builder,
        };
        let timeline = builder.ended(1_600, second, statuses[1]).timeline();
        (
            once(&timeline).len(),
            cause(&timeline).len(),
            once_runs(&timeline),
        )
    };
    assert_eq!(found([1, 2], [0, 0], true).0, 1);
    assert_eq!(found([1, 2], [3, 0], true).0, 0, "the first run failed");
    assert_eq!(found([1, 1_002], [0, 0], true).0, 0, "another key");
    assert_eq!(found([1, 2], [0, 0], false), (0, 0, (1, 1)));
    assert_eq!(
        found([1, 1_002], [0, 0], false).1,
        1,
        "a skip without a success"
    );
}

#[test]
fn start_within_the_minimum_time_of_a_lock_is_reported() {
    let next = |at: u64, status| {
        let option = Some(ExecOption::MinHold(4_000));
        let builder = HistoryBuilder::default()
            .launched_with(1_000, 1, Plan { option, ..plan() })
            .started(1_100, 1, 10)
            .finished(1_200, 1)
            .dead(1_210, 1)
            .ended(1_220, 1, status);
        let builder = builder.launched(1_300, 2).started(at, 2, 11);
        min_hold(&builder.timeline()).len()
    };
    assert_eq!(next(3_900, 0), 1);
    assert_eq!(
        next(4_200, 0),
        0,
        "the grant may be a second before the start"
    );
    assert_eq!(next(3_900, 76), 0, "the lease was lost");
}

#[test]
fn ended_session_of_another_program_is_reported() {
    let checked = |is_alive| {
        let session = |run| Event::Session {
            action: "processes-1".to_owned(),
            run,
            is_alive,
        };
        let builder = HistoryBuilder::default().event(1_000, session(None));
        let timeline = builder.event(1_100, session(Some(3))).timeline();
        assert_eq!(session_checks(&timeline), 2);
        bystanders(&timeline).len()
    };
    assert_eq!(checked(true), 0);
    assert_eq!(checked(false), 2);
}

#[test]
fn wait_timeout_is_explained_only_with_a_wait_limit() {
    let timed_out = |wait| {
        let plan = Plan { wait, ..plan() };
        let builder = HistoryBuilder::default().complete_run(1_000, 5_000, 1, 10);
        let builder = builder.launched_with(1_500, 2, plan).ended(2_500, 2, 75);
        builder.quiet(9_000).violations()
    };
    assert!(timed_out(Some(1_000)).is_empty());
    assert_eq!(timed_out(None), [CAUSE]);
}

#[test]
fn unreachable_is_explained_only_with_a_wait_limit_and_an_outage() {
    let timed_out = |wait, outage: u64| {
        let plan = Plan { wait, ..plan() };
        let builder = HistoryBuilder::default().complete_run(1_000, 1_400, 1, 10);
        let builder = builder.fault(1_600, 1_600 + outage, FaultKind::FreezeServer, None);
        let builder = builder.launched_with(1_500, 2, plan).ended(2_500, 2, 69);
        builder.quiet(9_000).violations()
    };
    assert!(timed_out(Some(500), 800).is_empty());
    assert_eq!(timed_out(None, 800), [CAUSE]);
    assert_eq!(timed_out(Some(500), 100), [CAUSE]);
}

#[test]
fn unreachable_before_the_command_needs_earlier_sessions_and_an_outage() {
    let ended = |stderr, outage: u64| {
        let builder = HistoryBuilder::default().complete_run(1_000, 1_400, 1, 10);
        let builder = builder.fault(1_600, 1_600 + outage, FaultKind::FreezeServer, None);
        let builder = builder
            .launched(1_500, 2)
            .ended_and_said(3_500, 2, 69, stderr);
        builder.quiet(9_000).violations()
    };
    let left = "dlock: a session, which an earlier run of a left on the server, has not ended, and the lease of a cannot be \
                renewed";
    assert!(ended(left, 800).is_empty());
    assert_eq!(ended(left, 100), [CAUSE]);
    assert_eq!(ended("", 800), [CAUSE]);
}

#[test]
fn stalled_machine_explains_a_lost_lease() {
    let stalled = |site: Option<&str>, micros| {
        let site = site.map(str::to_owned);
        stopped(76).event(2_500, Event::Stalled { site, micros })
    };
    assert!(stalled(None, 900_000).violations().is_empty());
    assert_eq!(
        excused(&stalled(None, 900_000).timeline()).len(),
        1,
        "the run counts as excused"
    );
    assert!(stalled(Some("processes"), 900_000).violations().is_empty());
    assert!(stalled(Some("clocks"), 900_000).violations().is_empty());
    assert_eq!(stalled(None, 210_000).violations(), [CAUSE]);
    let twice = stalled(None, 210_000).event(
        2_510,
        Event::Stalled {
            site: None,
            micros: 210_000,
        },
    );
    assert_eq!(
        twice.violations(),
        [CAUSE],
        "the overlapping time of two stalls counts once"
    );
    let other_action = stalled(Some("restarts"), 900_000);
    let other_action = other_action.fault_at("restarts", 1_500, 2_400, FaultKind::FreezeServer);
    assert_eq!(
        other_action.violations(),
        [CAUSE],
        "a frozen server does not explain a lost lease on another site"
    );
}

#[test]
fn contender_that_is_not_served_is_reported() {
    let good = || {
        HistoryBuilder::default()
            .complete_run(1_000, 2_000, 1, 10)
            .quiet(3_000)
    };
    assert_eq!(
        good().launched(2_000, 2).overdue(9_000).violations(),
        [SERVED]
    );
    let builder = good().launched(2_000, 2).overdue(9_000).killed(9_100, 2);
    assert_eq!(builder.violations(), [SERVED], "killed by the runner");
    let builder = good().launched(4_000, 2).ended(4_100, 2, 76);
    assert!(
        builder.violations().contains(&SERVED),
        "stopped after the faults"
    );
    let hold = || good().launched_with(4_000, 2, hold_plan(Shape::Plain));
    let builder = hold().started(4_050, 2, 11).ended(5_100, 2, 69);
    assert!(builder.violations().contains(&SERVED), "not finished");
    let finished = hold().started(4_050, 2, 11).finished(4_060, 2);
    let finished = finished.dead(4_070, 2).ended(5_100, 2, 69);
    assert_eq!(finished.violations(), [CAUSE]);
}

#[test]
fn run_without_grants_is_a_violation() {
    assert_eq!(HistoryBuilder::default().violations(), [SERVED]);
    assert_eq!(
        HistoryBuilder::default().quiet(1_000).violations(),
        [SERVED]
    );
}

/// A revoked lease whose command fails before its dlock notices the revocation, because the server does not respond.
#[test]
fn failure_of_a_command_is_passed_on_if_the_release_is_not_confirmed() {
    let ended = |status: i32, stderr: &str| {
        let action = ACTION.to_owned();
        let plan = Plan {
            exit: status,
            ..plan()
        };
        HistoryBuilder::default()
            .launched_with(1_000, 1, plan)
            .started(1_100, 1, 10)
            .event(1_200, Event::Revoked { run: 1, action })
            .finished(1_300, 1)
            .dead(1_310, 1)
            .ended_and_said(2_300, 1, status, stderr)
            .quiet(9_000)
            .violations()
    };
    let unreleased = "dlock: cannot release a: no response in time; it expires within 3s\n";
    assert!(ended(42, unreleased).is_empty());
    assert_eq!(ended(42, ""), [CAUSE]);
    assert_eq!(ended(0, unreleased), [CAUSE]);
}

#[test]
fn program_of_a_hold_that_stops_without_a_cause_is_reported() {
    let stopped = |status| {
        HistoryBuilder::default()
            .launched_with(1_000, 1, hold_plan(Shape::Plain))
            .started(1_100, 1, 10)
            .dead(3_000, 1)
            .ended(3_010, 1, status)
            .quiet(30_000)
            .overdue(31_000)
    };
    for (status, kinds) in [
        (0, &[FaultKind::KillCommand, FaultKind::TermParent][..]),
        (0, &[FaultKind::StopReader, FaultKind::FreezeParentNear]),
        (69, &[]),
        (76, &[FaultKind::FreezeParentLong]),
    ] {
        assert_eq!(stopped(status).violations(), [CAUSE], "{status}");
        let outage = stopped(status).fault(1_200, 2_700, FaultKind::FreezeServer, None);
        assert!(outage.violations().is_empty(), "{status}");
        for kind in kinds {
            let builder = stopped(status).fault(2_500, 2_600, *kind, Some(1));
            assert!(builder.violations().is_empty(), "{status} after {kind}");
        }
    }
    let killed = stopped(76).fault(2_500, 2_600, FaultKind::KillCommand, Some(1));
    assert_eq!(killed.violations(), [CAUSE]);
}
