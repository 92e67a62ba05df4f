//! No command is killed without cause, and every exit of dlock is documented and has a reason.

use super::Violation;
use crate::fault_kind::FaultKind;
use crate::history::Micros;
use crate::timeline::{End, Fault, Run, Timeline};

/// SIGKILL and SIGTERM.
const KILL: i32 = 9;
const TERM: i32 = 15;

/// Shortest stall of the machine, in microseconds, that is a reason for a lost lease.
const STALL: Micros = 300_000;

/// Maximum time in microseconds from the grant of a lease to the first record of its command, on a busy machine.
const START: Micros = 1_000_000;

pub(crate) fn cause(timeline: &Timeline) -> Vec<Violation> {
    let judge = |run: &Run| {
        let end = run.end.as_ref()?;
        // The runner itself killed what ended after that.
        if timeline.overdue.is_some_and(|overdue| end.at >= overdue) {
            return None;
        }
        let what = unexplained(timeline, run, end)?;
        let what = format!(
            "run {}: {what}; standard error: {:?}",
            run.number, end.stderr
        );
        Some(Violation::new(end.at, &run.action, what))
    };
    timeline.runs.values().filter_map(judge).collect()
}

/// Describes what is wrong with this end. None if it is right.
fn unexplained(timeline: &Timeline, run: &Run, end: &End) -> Option<String> {
    let struck = |kinds: &[FaultKind]| {
        timeline
            .faults_of(run.number)
            .any(|fault| kinds.contains(&fault.kind) && fault.at < end.at)
    };
    match (end.status, end.signal) {
        (_, Some(KILL)) if struck(&[FaultKind::KillParent, FaultKind::KillWaiter]) => None,
        // On a busy machine the signal may come before dlock handles signals, and before any output.
        (_, Some(TERM)) if struck(&STOPS) && run.start.is_none() && end.stderr.is_empty() => None,
        (_, Some(signal)) => Some(format!("dlock was ended by signal {signal}")),
        // The command exits so if it is not alone or its token was refused, which another checker reports.
        (Some(98 | 99), _) => None,
        (Some(status), None) if status == run.plan.exit => match run.finished {
            Some(_) => None,
            None => Some(format!(
                "ended with {status}, but its command did not finish"
            )),
        },
        (Some(75), None) if run.plan.wait.is_some() && run.start.is_none() => None,
        (Some(69), None) if gave_up_in_an_outage(timeline, run, end) => None,
        (Some(76), None) if struck(&LEASE_FAULTS) || was_released(timeline, run, end) => None,
        (Some(76), None) if was_cut_off(timeline, run, end) => None,
        (Some(76), None) => Some("its lease was lost without cause".to_owned()),
        (Some(137), None)
            if struck(&[FaultKind::KillCommand]) || was_asked_twice(timeline, run, end) =>
        {
            None
        }
        (Some(143), None) if struck(&STOPS) => None,
        (Some(status), None) => Some(format!("ended with {status} without cause")),
        (None, None) => Some("ended with neither a status nor a signal".to_owned()),
    }
}

/// Returns the runs whose lost lease has no other explanation than a slow machine. This checker cannot judge them.
pub(crate) fn excused(timeline: &Timeline) -> Vec<&Run> {
    let is_excused = |run: &&Run| {
        run.end.as_ref().is_some_and(|end| {
            let is_struck = timeline
                .faults_of(run.number)
                .any(|fault| LEASE_FAULTS.contains(&fault.kind) && fault.at < end.at);
            let is_known =
                is_struck || was_released(timeline, run, end) || was_out(timeline, run, end);
            end.status == Some(76) && !is_known
        })
    };
    timeline.runs.values().filter(is_excused).collect()
}

/// Faults that ask dlock to stop.
const STOPS: [FaultKind; 2] = [FaultKind::TermParent, FaultKind::TermWaiter];

/// Faults of processes after which a lease may be lost. A waiter may have become a holder by the time it freezes.
const LEASE_FAULTS: [FaultKind; 6] = [
    FaultKind::FreezeParentShort,
    FaultKind::FreezeParentNear,
    FaultKind::FreezeParentLong,
    FaultKind::FreezeWaiter,
    FaultKind::KillMonitor,
    FaultKind::FreezeMonitor,
];

/// Returns true if dlock was asked to stop twice. The second request kills a command that survived the first.
fn was_asked_twice(timeline: &Timeline, run: &Run, end: &End) -> bool {
    let is_stop = |fault: &&Fault| STOPS.contains(&fault.kind) && fault.at < end.at;
    timeline.faults_of(run.number).filter(is_stop).count() > 1
}

/// Returns true if an operator may have revoked the lease of `run`, and not that of an earlier run.
fn was_released(timeline: &Timeline, run: &Run, end: &End) -> bool {
    timeline.faults.iter().any(|fault| {
        fault.kind == FaultKind::Release
            && fault.hit
            && fault.action.as_ref() == Some(&run.action)
            && fault.at < end.at
            && fault.until >= since(run, end)
            && run.start.is_none_or(|start| start.at < fault.until + START)
    })
}

/// Returns true if a run with a limited wait got no response within that time.
fn gave_up_in_an_outage(timeline: &Timeline, run: &Run, end: &End) -> bool {
    run.plan.wait.is_some() && run.start.is_none() && was_cut_off(timeline, run, end)
}

/// Returns true if the server was unavailable for longer than every lease must tolerate, or the machine stalled.
fn was_cut_off(timeline: &Timeline, run: &Run, end: &End) -> bool {
    was_out(timeline, run, end) || timeline.stalled(&run.action, since(run, end), end.at) >= STALL
}

/// Returns true if a fault of the server or the network lasted longer than every lease must tolerate.
fn was_out(timeline: &Timeline, run: &Run, end: &End) -> bool {
    // Every lease of the schedule tolerates a shorter outage. Whether it survives a longer one depends on the time of
    // the last renewal.
    let bearable = run.plan.ttl * 1_000 / 5;
    timeline.longest_outage(&run.action, since(run, end), end.at) >= bearable
}

/// Returns the earliest time of an event that may be the reason of this end. After earlier events the lease was
/// renewed.
fn since(run: &Run, end: &End) -> Micros {
    end.at.saturating_sub(run.plan.ttl * 2_000)
}
