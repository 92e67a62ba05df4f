//! Checks that a lock stays held for the time of `--min-hold` after the grant, if its lease was neither lost nor revoked.

use super::{START, Violation};
use crate::fault_kind::FaultKind;
use crate::schedule::ExecOption;
use crate::timeline::{End, Fault, Run, Timeline};

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

/// Returns true if `run` has released a lease that was neither revoked nor measured by a clock that was set. A dlock that
/// is frozen for longer than its lease may find at its release that the lease was taken over.
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
