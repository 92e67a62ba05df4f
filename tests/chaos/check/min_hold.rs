//! Checks that a lock stays held for the time of `--min-hold` after the grant, if its lease was neither lost nor revoked.

use super::{START, Violation};
use crate::fault_kind::FaultKind;
use crate::schedule::ExecOption;
use crate::timeline::{End, Run, Timeline};

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
    let changes_clock = |kind| {
        use FaultKind::{DoubleSpeed, HourForward};
        [HourForward, DoubleSpeed].contains(&kind)
    };
    let has_changed = |fault: &crate::timeline::Fault| {
        let is_here = run.action.starts_with(&fault.site);
        is_here && (changes_clock(fault.kind) || fault.kind == FaultKind::LosePrimary)
    };
    let was_frozen = |fault: &crate::timeline::Fault| {
        fault.run == Some(run.number) && fault.kind == FaultKind::FreezeParentLong
    };
    let end = run.end.as_ref();
    // A run whose release gets no response does not change its exit status.
    let has_released = |end: &End| !end.stderr.contains("cannot release");
    end.is_some_and(|end| end.status == Some(run.plan.exit) && has_released(end))
        && run.revoked.is_none()
        && !timeline
            .faults
            .iter()
            .any(|fault| has_changed(fault) || was_frozen(fault))
}
