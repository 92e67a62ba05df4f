//! Checks that a process tree dies with its dlock: immediately after the parent is killed, before the lease expires if
//! the parent is frozen, and before dlock exits in all other cases. No process may remain after the chaos run. The program of
//! a hold must stop its work at the same times.

use super::{ALLOWANCE, Violation};
use crate::fault_kind::FaultKind;
use crate::history::{Event, Line, Micros};
use crate::schedule::{ContenderKind, Shape};
use crate::timeline::{Run, Timeline};

/// Maximum time in microseconds from the death of the parent to the death of the tree.
const PROMPT: Micros = 100_000;

pub(crate) fn deaths(timeline: &Timeline) -> Vec<Violation> {
    let trees = timeline.runs.values().flat_map(|run| {
        bounds(timeline, run)
            .into_iter()
            .filter_map(|(from, bound, why)| late_death(timeline, run, from, bound, why))
    });
    let orphans = timeline
        .lines
        .iter()
        .filter_map(|Line { at, event }| match event {
            Event::Orphan { pid, words } => Some(Violation {
                at: *at,
                action: None,
                what: format!("process {pid} still runs: {words}"),
            }),
            _ => None,
        });
    trees.chain(orphans).collect()
}

/// Returns the limits for the death of `run`'s process tree. A limit consists of a start time, the maximum time from
/// the start time to the death of the tree, and the reason.
fn bounds(timeline: &Timeline, run: &Run) -> Vec<(Micros, Micros, &'static str)> {
    let mut bounds = Vec::new();
    for fault in timeline.faults_of(run.number).filter(|fault| fault.hit) {
        let ttl = run.plan.ttl * 1_000;
        match fault.kind {
            FaultKind::KillParent | FaultKind::KillWaiter => {
                let bound = if works_until_its_deadline(run) {
                    ttl
                } else {
                    PROMPT
                };
                bounds.push((fault.at, bound, "its parent was killed"));
            }
            kind if kind.freezes_parent() && fault.until.saturating_sub(fault.at) > ttl => {
                bounds.push((
                    fault.at,
                    ttl,
                    "its parent was frozen for longer than the lease",
                ));
            }
            _ => {}
        }
    }
    let end = run.end.as_ref().filter(|end| end.signal.is_none());
    bounds.extend(end.map(|end| match run.plan.kind {
        // The processes that a script leaves are killed after its end.
        ContenderKind::HoldPid => (end.at, PROMPT, "the script ended"),
        ContenderKind::Exec | ContenderKind::HoldJson => (end.at, 0, "dlock ended"),
    }));
    bounds
}

/// Returns true if nobody kills the work of `run`, and it does not stop when it is told to.
fn works_until_its_deadline(run: &Run) -> bool {
    !run.plan.kind.has_monitor() && run.plan.shape == Shape::Stubborn
}

fn late_death(
    timeline: &Timeline,
    run: &Run,
    from: Micros,
    bound: Micros,
    why: &str,
) -> Option<Violation> {
    // A command that was not started, or was started after `from`, cannot die too late.
    let start = run.start.filter(|start| start.at <= from)?;
    // A frozen program does not work.
    let freezes = timeline
        .faults_of(run.number)
        .filter(|fault| fault.kind == FaultKind::FreezeCommand && !run.plan.kind.has_monitor());
    let from = freezes.fold(from, |from, fault| from.max(fault.until));
    let lived = run.dead.map(|dead| dead.saturating_sub(from));
    let allowed = bound + ALLOWANCE;
    let allowed = allowed + timeline.stalled(&run.action, from, from + allowed);
    let what = match lived {
        Some(lived) if lived <= allowed => return None,
        Some(lived) => format!("died {lived} µs later, but at most {bound} µs are promised"),
        None => "never died".to_owned(),
    };
    let what = format!(
        "the process tree of run {} (token {}): {why}, and the tree {what}",
        run.number, start.token
    );
    Some(Violation::new(from, &run.action, what))
}
