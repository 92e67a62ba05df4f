//! Histories in which somebody waits too long, is killed for nothing or ends in a wrong way.

use super::plot::{Plot, plan};
use crate::check::{excused, latencies, takeovers};
use crate::history::Event;
use crate::kind::Kind;
use crate::schedule::Plan;

const TAKEOVER: &str = "a lease is taken over in time";
const CAUSE: &str = "nobody is killed without cause";
const SERVED: &str = "everybody is served when the faults are over";

/// A holder that is struck at 10 s, a waiter, and the waiter's start.
fn taken_over(kind: Kind, until: u64, next: u64) -> Plot {
    let plot = Plot::default()
        .asked(8_000, 1)
        .started(8_100, 1, 10)
        .fault(10_000, until, kind, Some(1))
        .asked(8_500, 2)
        .started(next, 2, 11)
        .finished(next + 50, 2)
        .dead(next + 60, 2)
        .ended(next + 70, 2, 0)
        .calm(30_000)
        .overdue(31_000);
    match kind {
        Kind::KillFront => plot.dead(10_010, 1).killed(10_010, 1),
        _ => plot.dead(11_800, 1).ended(until + 10, 1, 76),
    }
}

#[test]
fn a_late_take_over_is_seen() {
    // 2 s and 1 s and the allowance.
    assert_eq!(
        taken_over(Kind::KillFront, 10_001, 14_600).breaks(),
        [TAKEOVER]
    );
    assert!(
        taken_over(Kind::KillFront, 10_001, 14_400)
            .breaks()
            .is_empty()
    );
    // 2 s and 2 s and the allowance.
    let frozen = |next| taken_over(Kind::FreezeFrontLong, 20_000, next).breaks();
    assert_eq!(frozen(15_600), [TAKEOVER]);
    assert!(frozen(15_400).is_empty());
    // Thawed after half a second, when it could still renew.
    let thawed = taken_over(Kind::FreezeFrontLong, 10_500, 15_600).breaks();
    assert!(!thawed.contains(&TAKEOVER), "{thawed:?}");
}

#[test]
fn take_overs_are_counted_and_timed() {
    let story = taken_over(Kind::KillFront, 10_001, 12_800).story();
    assert_eq!(takeovers(&story), 1);
    assert_eq!(latencies(&story, Kind::KillFront), [800_000]);
    let handed_over = Plot::default().lived(1_000, 2_000, 1, 1);
    let story = handed_over.lived(1_500, 3_000, 2, 2).story();
    assert_eq!(takeovers(&story), 0);
}

#[test]
fn a_take_over_is_not_judged_when_the_server_was_away_just_before_or_meanwhile() {
    let frozen = |from| {
        let plot = taken_over(Kind::KillFront, 10_001, 14_600);
        plot.fault(from, from + 200, Kind::FreezeServer, None)
    };
    assert!(frozen(9_000).breaks().is_empty());
    assert!(frozen(11_000).breaks().is_empty());
    assert_eq!(frozen(15_000).breaks(), [TAKEOVER], "too late to matter");
}

/// A run that ends with `status` before its command has finished.
fn stopped(status: i32) -> Plot {
    Plot::default()
        .asked(1_000, 1)
        .started(1_100, 1, 10)
        .dead(3_000, 1)
        .ended(3_010, 1, status)
        .calm(30_000)
        .overdue(31_000)
}

#[test]
fn a_lease_that_is_lost_without_cause_is_seen() {
    assert_eq!(stopped(76).breaks(), [CAUSE]);
    let outage = |length: u64| stopped(76).fault(1_200, 1_200 + length, Kind::FreezeServer, None);
    assert_eq!(outage(300).breaks(), [CAUSE], "every lease bears that");
    assert!(outage(1_500).breaks().is_empty());
}

#[test]
fn faults_that_every_lease_bears_are_no_cause() {
    for kind in [
        Kind::HourForward,
        Kind::HourBack,
        Kind::DoubleSpeed,
        Kind::KillSession,
        Kind::LoseReply,
        Kind::ErrorReply,
        Kind::StopReader,
        Kind::ResetConnections,
    ] {
        let plot = stopped(76).fault(1_200, 2_900, kind, None);
        assert_eq!(plot.breaks(), [CAUSE], "{kind}");
    }
}

#[test]
fn an_operators_release_ends_the_lease_of_who_has_it_and_no_other() {
    let released = |status, at| stopped(status).fault(at, at + 50, Kind::Release, Some(1));
    assert!(released(76, 2_900).breaks().is_empty());
    assert_eq!(released(137, 2_900).breaks(), [CAUSE], "it kills nobody");
    assert_eq!(released(76, 3_500).breaks(), [CAUSE], "it came later");
    let elsewhere = stopped(76).fault_at("processes", 2_900, 2_950, Kind::Release);
    assert_eq!(elsewhere.breaks(), [CAUSE], "it was for another action");
    let before = Plot::default()
        .fault(1_000, 1_050, Kind::Release, Some(7))
        .asked(1_000, 1)
        .started(2_500, 1, 10)
        .dead(3_000, 1)
        .ended(3_010, 1, 76)
        .calm(30_000)
        .overdue(31_000);
    assert_eq!(before.breaks(), [CAUSE], "it was for the run before");
}

#[test]
fn an_end_by_a_signal_needs_somebody_who_sent_it() {
    for (status, kind) in [
        (137, Kind::KillCommand),
        (143, Kind::TermFront),
        (76, Kind::KillMonitor),
        (76, Kind::FreezeFrontNear),
    ] {
        assert_eq!(stopped(status).breaks(), [CAUSE], "{status}");
        let plot = stopped(status).fault(2_500, 2_600, kind, Some(1));
        assert!(plot.breaks().is_empty(), "{status} after {kind}");
        let plot = stopped(status).fault(2_500, 2_600, kind, Some(7));
        assert_eq!(plot.breaks(), [CAUSE], "{status} after {kind} of another");
    }
    let plot = Plot::default().asked(1_000, 1).killed(2_000, 1);
    let plot = plot.lived(3_000, 3_500, 2, 1).calm(9_000);
    assert_eq!(plot.breaks(), [CAUSE]);
}

#[test]
fn a_second_request_to_stop_kills_a_command_and_a_first_does_not() {
    let once = |at, kind, run| stopped(137).fault(at, at + 10, kind, Some(run));
    assert_eq!(once(1_050, Kind::TermWaiter, 1).breaks(), [CAUSE]);
    let twice =
        |run| once(1_050, Kind::TermWaiter, 1).fault(2_900, 2_910, Kind::TermFront, Some(run));
    assert!(twice(1).breaks().is_empty());
    assert_eq!(twice(7).breaks(), [CAUSE], "the second was another's");
}

#[test]
fn dlock_itself_dies_of_sigterm_only_before_it_has_begun_anything() {
    let waiter = |kind, run| {
        let plot = Plot::default().lived(1_000, 5_000, 1, 10).calm(9_000);
        let plot = plot.asked(2_000, 2).killed_by(2_300, 2, 15);
        plot.fault(2_200, 2_201, kind, Some(run)).breaks()
    };
    assert!(waiter(Kind::TermWaiter, 2).is_empty());
    assert_eq!(waiter(Kind::TermWaiter, 1), [CAUSE]);
    assert_eq!(waiter(Kind::KillSession, 2), [CAUSE]);
    let holder = Plot::default().asked(1_000, 1).started(1_100, 1, 10);
    let holder = holder.fault(2_000, 2_001, Kind::TermFront, Some(1));
    let holder = holder.dead(2_100, 1).killed_by(2_200, 1, 15).calm(9_000);
    assert_eq!(holder.breaks(), [CAUSE]);
}

#[test]
fn a_status_that_no_fault_leads_to_is_seen() {
    for status in [64, 69, 70, 75, 77, 78, 101, 126, 127, 134] {
        assert_eq!(stopped(status).breaks(), [CAUSE], "{status}");
    }
}

#[test]
fn success_without_a_finished_command_is_seen() {
    assert_eq!(stopped(0).breaks(), [CAUSE]);
}

#[test]
fn to_give_up_is_right_for_those_who_said_how_long_they_wait() {
    let gave_up = |wait| {
        let plan = Plan { wait, ..plan() };
        let plot = Plot::default().lived(1_000, 5_000, 1, 10);
        let plot = plot.asked_for(1_500, 2, plan).ended(2_500, 2, 75);
        plot.calm(9_000).breaks()
    };
    assert!(gave_up(Some(1_000)).is_empty());
    assert_eq!(gave_up(None), [CAUSE]);
}

#[test]
fn no_answer_is_right_for_those_who_said_how_long_they_wait_while_the_server_is_away() {
    let gave_up = |wait, outage: u64| {
        let plan = Plan { wait, ..plan() };
        let plot = Plot::default().lived(1_000, 1_400, 1, 10);
        let plot = plot.fault(1_600, 1_600 + outage, Kind::FreezeServer, None);
        let plot = plot.asked_for(1_500, 2, plan).ended(2_500, 2, 69);
        plot.calm(9_000).breaks()
    };
    assert!(gave_up(Some(500), 800).is_empty());
    assert_eq!(gave_up(None, 800), [CAUSE]);
    assert_eq!(gave_up(Some(500), 100), [CAUSE]);
}

#[test]
fn a_machine_that_stood_still_is_a_cause() {
    let stalled = |site: Option<&str>, micros| {
        let site = site.map(str::to_owned);
        stopped(76).event(2_500, Event::Stalled { site, micros })
    };
    assert!(stalled(None, 900_000).breaks().is_empty());
    assert_eq!(
        excused(&stalled(None, 900_000).story()).len(),
        1,
        "and is told"
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
    let elsewhere = elsewhere.fault_at("restarts", 1_500, 2_400, Kind::FreezeServer);
    assert_eq!(
        elsewhere.breaks(),
        [CAUSE],
        "a frozen server says nothing of others"
    );
}

#[test]
fn whoever_is_not_served_in_the_end_is_seen() {
    let good = || Plot::default().lived(1_000, 2_000, 1, 10).calm(3_000);
    assert_eq!(good().asked(2_000, 2).overdue(9_000).breaks(), [SERVED]);
    let plot = good().asked(2_000, 2).overdue(9_000).killed(9_100, 2);
    assert_eq!(plot.breaks(), [SERVED], "killed by the runner");
    let plot = good().asked(4_000, 2).ended(4_100, 2, 76);
    assert!(plot.breaks().contains(&SERVED), "stopped in calm");
}

#[test]
fn a_run_in_which_nothing_happened_proves_nothing() {
    assert_eq!(Plot::default().breaks(), [SERVED]);
    assert_eq!(Plot::default().calm(1_000).breaks(), [SERVED]);
}
