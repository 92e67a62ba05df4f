//! Checks that no command with `--once` starts after a run with the same key has succeeded, and that a lock stays held
//! for the time of `--min-hold` after the grant, if its lease was neither lost nor revoked.

use super::{START, Violation};
use crate::fault_kind::FaultKind;
use crate::history::{End, Micros};
use crate::schedule::{ExecOption, once_key};
use crate::timeline::{Fault, Run, Start, Timeline};

pub(crate) fn once(timeline: &Timeline) -> Vec<Violation> {
    // A replica may lack the success.
    let mut faults = timeline.faults.values();
    if faults.any(|fault| fault.kind == FaultKind::LosePrimary) {
        return Vec::new();
    }
    let mut violations = Vec::new();
    for (run, succeeded) in successes(timeline) {
        for other in timeline.runs.values().filter(|other| is_same(run, other)) {
            // A lease beside that of `run` may have been granted before the success.
            let granted = |start: &Start| match run.excludes(other) {
                true => start.at,
                false => start.at - START,
            };
            let Some(start) = (other.start).filter(|start| granted(start) > succeeded) else {
                continue;
            };
            let what = format!(
                "run {} started although run {} had succeeded with the same key",
                other.number, run.number
            );
            violations.push(Violation::new(start.at, &*other.action, what));
        }
    }
    violations
}

/// Returns the number of successes under a key, and the number of runs that found one and started no command.
pub(crate) fn count(timeline: &Timeline) -> (usize, usize) {
    let is_skipped = |run: &&Run| {
        let status = run.end.as_ref().and_then(|end| end.status);
        run.plan.option == Some(ExecOption::Once) && run.start.is_none() && status == Some(0)
    };
    let skipped = timeline.runs.values().filter(is_skipped).count();
    (successes(timeline).count(), skipped)
}

/// Returns true if `run` may have found a success under its key, and has started no command.
pub(crate) fn is_done(timeline: &Timeline, run: &Run) -> bool {
    let end = run.end.as_ref().map_or(Micros::MAX, |end| end.at);
    let mut runs = timeline.runs.values();
    run.start.is_none()
        && runs.any(|other| {
            is_same(run, other) && other.finished.is_some_and(|finished| finished < end)
        })
}

/// Returns the runs that have succeeded under a key, and when their commands had finished.
fn successes(timeline: &Timeline) -> impl Iterator<Item = (&Run, Micros)> {
    timeline.runs.values().filter_map(|run| {
        let status = run.end.as_ref().and_then(|end| end.status);
        let has_key = run.plan.option == Some(ExecOption::Once);
        let has_succeeded = has_key && run.start.is_some() && status == Some(0);
        Some((run, run.finished.filter(|_| has_succeeded)?))
    })
}

/// Returns true if another run of the same action has the same key.
fn is_same(run: &Run, other: &Run) -> bool {
    run.number != other.number
        && run.action == other.action
        && [run, other].map(|run| run.plan.option) == [Some(ExecOption::Once); 2]
        && once_key(run.number) == once_key(other.number)
}

pub(crate) fn min_hold(timeline: &Timeline) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (action, grants) in timeline.grants() {
        for pair in grants.windows(2) {
            let [(run, start), (next, next_start)] = pair else {
                continue;
            };
            if !run.excludes(next) {
                continue;
            }
            let Some(ExecOption::MinHold(millis)) = run.plan.option else {
                continue;
            };
            // The grant was at most START before the start of the command.
            let until = start.at + millis * 1_000 - START;
            if released(timeline, run) && next_start.at < until {
                let what = format!(
                    "run {} started although run {} holds the lock for {millis} ms",
                    next.number, run.number
                );
                violations.push(Violation::new(next_start.at, action, what));
            }
        }
    }
    violations
}

/// Returns true if `run` has released a lease that was neither revoked nor measured by a clock that was set. A dlock
/// that is frozen for longer than its lease may find at its release that the lease was taken over.
fn released(timeline: &Timeline, run: &Run) -> bool {
    let is_excuse = |fault: &Fault| match fault.kind {
        FaultKind::DoubleSpeed | FaultKind::HourForward | FaultKind::LosePrimary => {
            run.action.starts_with(&fault.site)
        }
        FaultKind::FreezeParentLong => fault.run == Some(run.number),
        _ => false,
    };
    // A run whose release gets no response does not change its exit status.
    let has_released =
        |end: &End| end.status == Some(run.plan.exit) && !end.stderr.contains("cannot release");
    run.end.as_ref().is_some_and(has_released)
        && run.revoked.is_none()
        && !timeline.faults.values().any(is_excuse)
}
