//! Checks that no command is killed without a cause, and that every exit of dlock has a documented cause.

use super::{START, Violation, once};
use crate::fault_kind::{FaultKind, Victim};
use crate::history::Micros;
use crate::schedule::{ContenderKind, ExecOption};
use crate::timeline::{End, Fault, Run, Timeline};

/// The numbers of SIGKILL and SIGTERM.
const KILL: i32 = 9;
const TERM: i32 = 15;

/// Minimum length in microseconds of a stall of the machine that explains a lost lease.
const STALL: Micros = 300_000;

pub(crate) fn cause(timeline: &Timeline) -> Vec<Violation> {
    let violation = |run: &Run| {
        let end = run.end.as_ref()?;
        // After this time, the runner itself kills the remaining processes.
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
    timeline.runs.values().filter_map(violation).collect()
}

/// Describes an unexplained end of a run. None if the end has a cause.
fn unexplained(timeline: &Timeline, run: &Run, end: &End) -> Option<String> {
    let had_fault = |kinds: &[FaultKind]| {
        timeline
            .faults_of(run.number)
            .any(|fault| kinds.contains(&fault.kind) && fault.at < end.at)
    };
    match (end.status, end.signal) {
        (_, Some(KILL)) if had_fault(&[FaultKind::KillParent, FaultKind::KillWaiter]) => None,
        // On a busy machine, the signal may arrive before dlock handles signals. dlock has then printed nothing.
        (_, Some(TERM)) if had_fault(&STOPS) && run.start.is_none() && end.stderr.is_empty() => {
            None
        }
        (status, signal)
            if run.plan.kind == ContenderKind::HoldPid
                && (matches!(signal, Some(KILL | TERM)) || matches!(status, Some(137 | 143)))
                && (had_fault(&SCRIPT_FAULTS)
                    || had_fault(&STOPS)
                    || had_fault(&LEASE_FAULTS)
                    || was_revoked(timeline, run, end)
                    || had_outage_or_stall(timeline, run, end)) =>
        {
            None
        }
        (_, Some(signal)) => Some(format!("dlock was ended by signal {signal}")),
        // The command exits with these statuses if it is not alone or its token was refused. Another checker reports
        // this.
        (Some(98 | 99), _) => None,
        (Some(0), None) if was_skipped(timeline, run, end) || once::is_done(timeline, run) => None,
        // The failure of a command is the status, also if dlock cannot find out whether the lease was live to the end.
        (Some(1..), None) if is_failure_without_release(run, end) => None,
        (Some(0), None) if run.plan.kind == ContenderKind::HoldJson && run.finished.is_none() => {
            let has_cause = had_fault(&PROGRAM_FAULTS)
                || had_fault(&STOPS)
                || had_fault(&LEASE_FAULTS)
                || was_revoked(timeline, run, end)
                || had_outage_or_stall(timeline, run, end);
            (!has_cause).then(|| "its program stopped without a cause".to_owned())
        }
        (Some(status), None) if status == run.plan.exit => {
            let what = lost_before_the_end(timeline, run)?;
            Some(format!("dlock exited with {status}, but {what}"))
        }
        (Some(75), None) if run.plan.wait.is_some() && run.start.is_none() => None,
        (Some(69), None) if timed_out_in_an_outage(timeline, run, end) => None,
        (Some(69), None) if is_unconfirmed(timeline, run, end) => None,
        (Some(69), None) if could_not_end_sessions(timeline, run, end) => None,
        (Some(76), None) if had_fault(&LEASE_FAULTS) || was_revoked(timeline, run, end) => None,
        (Some(76), None) if had_outage_or_stall(timeline, run, end) => None,
        (Some(76), None) => Some("its lease was lost without a cause".to_owned()),
        (Some(137), None)
            if had_fault(&[FaultKind::KillCommand]) || was_stopped_twice(timeline, run, end) =>
        {
            None
        }
        (Some(143), None) if had_fault(&STOPS) => None,
        (Some(status), None) => Some(format!("dlock exited with {status} without a cause")),
        (None, None) => Some("dlock ended with neither a status nor a signal".to_owned()),
    }
}

/// Returns true if dlock passes the failure of the command on and has reported that the server did not confirm the release.
fn is_failure_without_release(run: &Run, end: &End) -> bool {
    end.status == Some(run.plan.exit) && end.stderr.contains("dlock: cannot release ")
}

/// Describes why the lease of `run` was not live when its command had finished. None if nothing contradicts it.
fn lost_before_the_end(timeline: &Timeline, run: &Run) -> Option<String> {
    let (Some(start), Some(finished)) = (run.start, run.finished) else {
        return Some("its command did not finish".to_owned());
    };
    // The status of a script is its own, and a stubborn one goes on until dlock kills it. An operator may also have revoked a
    // grant that was not confirmed yet, or one lease of several. dlock then waits again.
    let is_own = run.plan.kind != ContenderKind::HoldPid;
    let is_revoked = |revoked| start.at < revoked && revoked < finished;
    if is_own && run.revoked.is_some_and(is_revoked) {
        return Some("an operator had revoked its lease before the command finished".to_owned());
    }
    let mut others = timeline.runs.values();
    let next = others.find(|other| {
        other.action == run.action
            && run.excludes(other)
            && (other.start).is_some_and(|other| start.at < other.at && other.at < finished)
    })?;
    let next = next.number;
    Some(format!(
        "run {next} had started before the command finished"
    ))
}

/// Returns true if `run` may have found that the action had just succeeded, and has not started its command.
fn was_skipped(timeline: &Timeline, run: &Run, end: &End) -> bool {
    run.plan.option == Some(ExecOption::OncePer)
        && run.start.is_none()
        && timeline.runs.values().any(|other| {
            other.action == run.action
                // The end of a hold counts as a success.
                && (other.plan.exit == 0 || other.plan.kind == ContenderKind::HoldPid)
                && (other.finished).is_some_and(|at| run.launched < at + START && at < end.at)
        })
}

/// Returns the runs whose lost lease can only be explained by a slow machine. The checker accepts these runs.
pub(crate) fn excused(timeline: &Timeline) -> Vec<&Run> {
    let is_excused = |run: &&Run| {
        run.end.as_ref().is_some_and(|end| {
            let has_fault = timeline
                .faults_of(run.number)
                .any(|fault| LEASE_FAULTS.contains(&fault.kind) && fault.at < end.at);
            let is_explained =
                has_fault || was_revoked(timeline, run, end) || had_outage(timeline, run, end);
            end.status == Some(76) && !is_explained
        })
    };
    timeline.runs.values().filter(is_excused).collect()
}

/// Faults that send SIGTERM to dlock.
const STOPS: [FaultKind; 2] = [FaultKind::TermParent, FaultKind::TermWaiter];

/// Faults of processes that may cause the loss of a lease. `FreezeWaiter` is included because the waiter may have
/// become the holder.
const LEASE_FAULTS: [FaultKind; 6] = [
    FaultKind::FreezeParentShort,
    FaultKind::FreezeParentNear,
    FaultKind::FreezeParentLong,
    FaultKind::FreezeWaiter,
    FaultKind::KillMonitor,
    FaultKind::FreezeMonitor,
];

/// Faults after which a script is killed.
const SCRIPT_FAULTS: [FaultKind; 3] = [
    FaultKind::KillParent,
    FaultKind::KillWaiter,
    FaultKind::KillCommand,
];

/// Faults after which the program of a hold may end before its work is finished.
const PROGRAM_FAULTS: [FaultKind; 3] = [
    FaultKind::KillCommand,
    FaultKind::FreezeCommand,
    FaultKind::StopReader,
];

/// Returns true if the server may not have confirmed the release of a hold.
fn is_unconfirmed(timeline: &Timeline, run: &Run, end: &End) -> bool {
    run.plan.kind == ContenderKind::HoldJson && had_outage_or_stall(timeline, run, end)
}

/// Returns true if dlock received more than one SIGTERM. The second one kills a command that survived the first.
fn was_stopped_twice(timeline: &Timeline, run: &Run, end: &End) -> bool {
    let is_stop = |fault: &&Fault| STOPS.contains(&fault.kind) && fault.at < end.at;
    timeline.faults_of(run.number).filter(is_stop).count() > 1
}

/// Returns true if an operator may have revoked the lease of `run`. A revoked lease of an earlier run does not count.
fn was_revoked(timeline: &Timeline, run: &Run, end: &End) -> bool {
    timeline.faults.iter().any(|fault| {
        fault.kind.victim() == Victim::Lease
            && fault.hit
            && fault.action.as_ref() == Some(&run.action)
            && fault.at < end.at
            && fault.until >= since(run, end)
            && run.start.is_none_or(|start| start.at < fault.until + START)
    })
}

/// Returns true if a run with a wait limit may have received no response before the limit.
fn timed_out_in_an_outage(timeline: &Timeline, run: &Run, end: &End) -> bool {
    run.plan.wait.is_some() && run.start.is_none() && had_outage_or_stall(timeline, run, end)
}

/// Returns true if the lease may have ended while dlock waited for the end of sessions that an earlier run had left.
fn could_not_end_sessions(timeline: &Timeline, run: &Run, end: &End) -> bool {
    run.start.is_none()
        && end
            .stderr
            .contains(" left on the server, has not ended, and ")
        && had_outage_or_stall(timeline, run, end)
}

/// Returns true if the server was unavailable for longer than the lease must tolerate, or if the machine stalled.
fn had_outage_or_stall(timeline: &Timeline, run: &Run, end: &End) -> bool {
    had_outage(timeline, run, end)
        || timeline.stalled(&run.action, since(run, end), end.at) >= STALL
}

/// Returns true if a fault of the server or the network lasted longer than the lease must tolerate.
fn had_outage(timeline: &Timeline, run: &Run, end: &End) -> bool {
    // Every lease of the schedule must tolerate an outage that is shorter than a fifth of its ttl. A longer outage may
    // cause the loss of the lease, depending on the time of the latest renewal before the outage.
    let tolerated = run.plan.ttl * 1_000 / 5;
    timeline.longest_outage(&run.action, since(run, end), end.at) >= tolerated
}

/// Returns the earliest time of an event that can explain this end. An earlier event cannot explain the end, because
/// the lease was renewed after that event.
fn since(run: &Run, end: &End) -> Micros {
    end.at.saturating_sub(run.plan.ttl * 2_000)
}
