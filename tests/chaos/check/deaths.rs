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
        let bounds = bounds(timeline, run).into_iter();
        bounds.filter_map(|bound| late_death(timeline, run, bound))
    });
    let orphan = |line: &Line| match &line.event {
        Event::Orphan { pid, words } => {
            let what = format!("process {pid} still runs: {words}");
            Some(Violation::new(line.at, None, what))
        }
        _ => None,
    };
    let orphans = timeline.lines.iter().filter_map(orphan);
    trees.chain(orphans).collect()
}

/// A limit for the death of a process tree: a start time, the maximum time from it to the death of the tree, and the reason.
type Bound = (Micros, Micros, &'static str);

fn bounds(timeline: &Timeline, run: &Run) -> Vec<Bound> {
    let mut bounds = Vec::new();
    let ttl = run.plan.ttl * 1_000;
    for fault in timeline.faults_of(run.number).filter(|fault| fault.hit) {
        let length = fault.until.saturating_sub(fault.at);
        match fault.kind {
            FaultKind::KillParent | FaultKind::KillWaiter => {
                let bound = match works_until_its_deadline(run) {
                    true => ttl,
                    false => PROMPT,
                };
                bounds.push((fault.at, bound, "its parent was killed"));
            }
            kind if kind.freezes_parent() && length > ttl => {
                let why = "its parent was frozen for longer than the lease";
                bounds.push((fault.at, ttl, why));
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

fn late_death(timeline: &Timeline, run: &Run, (from, bound, why): Bound) -> Option<Violation> {
    // A command that was not started, or was started after `from`, cannot die too late.
    let start = run.start.filter(|start| start.at <= from)?;
    // A frozen program does not work.
    let freezes = timeline
        .faults_of(run.number)
        .filter(|fault| fault.kind == FaultKind::FreezeCommand && !run.plan.kind.has_monitor());
    let from = freezes.fold(from, |from, fault| from.max(fault.until));
    let lived = run.dead.map(|dead| dead.saturating_sub(from));
    let allowed = bound + ALLOWANCE;
    let allowed = allowed + timeline.stalled(&run.action, from, from + lived.unwrap_or(allowed));
    let what = match lived {
        Some(lived) if lived <= allowed => return None,
        Some(lived) => format!("died {lived} µs later, but at most {bound} µs are promised"),
        None => "never died".to_owned(),
    };
    let what = format!(
        "the process tree of run {} (token {}): {why}, and the tree {what}",
        run.number, start.token
    );
    Some(Violation::new(from, &*run.action, what))
}
