//! A lease is taken over in time: at most ttl + 1 s after its parent was killed, and ttl + 2 s after it was frozen.

use super::{ALLOWANCE, Violation};
use crate::fault_kind::FaultKind;
use crate::history::Micros;
use crate::timeline::{Fault, Run, Start, Timeline};

/// Time in microseconds for which the server keeps the session of a client behind a cut network: more than the longest
/// ttl.
const AFTERMATH: Micros = 6_000_000;

/// A take-over that was due.
struct Due<'a> {
    fault: &'a Fault,
    run: &'a Run,
    /// Promised maximum time from the fault to the next command.
    bound: Micros,
    /// Start of the next command. None if there was none.
    next: Option<Micros>,
}

pub(crate) fn takeover(timeline: &Timeline) -> Vec<Violation> {
    let late = |due: &Due| {
        let end = due.next.or(timeline.overdue)?;
        let took = end.saturating_sub(due.fault.at);
        let stalled = timeline.stalled(&due.run.action, due.fault.at, end);
        let allowed = due.bound + ALLOWANCE + stalled;
        let what = format!(
            "{} of run {}: {} µs until the next command, {} are promised",
            due.fault.kind, due.run.number, took, due.bound
        );
        (took > allowed).then(|| Violation::new(due.fault.at, &due.run.action, what))
    };
    dues(timeline).iter().filter_map(late).collect()
}

/// Returns the time from each fault of this kind to its take-over, less the ttl. The promise is 1 s for a killed parent
/// and 2 s for a frozen one. Sorted.
pub(crate) fn latencies(timeline: &Timeline, kind: FaultKind) -> Vec<i64> {
    let over = |due: &Due| {
        let took = due.next?.saturating_sub(due.fault.at);
        let ttl = due.run.plan.ttl * 1_000;
        Some(took.cast_signed() - ttl.cast_signed())
    };
    let mut latencies: Vec<i64> = dues(timeline)
        .iter()
        .filter(|due| due.fault.kind == kind)
        .filter_map(over)
        .collect();
    latencies.sort_unstable();
    latencies
}

/// Returns the number of commands that were started on a lease that the previous holder had not released.
pub(crate) fn count(timeline: &Timeline) -> usize {
    let grants = timeline.grants();
    let pairs = grants.values().flat_map(|grants| grants.windows(2));
    pairs
        .filter(|pair| !gave_back(timeline, pair[0].0, pair[1].1))
        .count()
}

/// Returns true if `run` had released the lease before the next command started.
fn gave_back(timeline: &Timeline, run: &Run, next: Start) -> bool {
    let Some(end) = &run.end else {
        return false;
    };
    let was_frozen = timeline
        .faults_of(run.number)
        .any(|fault| fault.kind.freezes_parent() && fault.at < next.at);
    let failed = ["cannot release", "was not ours any more"]
        .iter()
        .any(|text| end.stderr.contains(text));
    end.signal.is_none() && !failed && !(was_frozen && end.at > next.at)
}

fn dues<'s>(timeline: &'s Timeline) -> Vec<Due<'s>> {
    let grants = timeline.grants();
    let due = |fault: &'s Fault| {
        let Fault { kind, at, .. } = *fault;
        let second = match kind {
            FaultKind::KillParent => 1_000_000,
            FaultKind::FreezeParentLong => 2_000_000,
            _ => return None,
        };
        let run = timeline.runs.get(&fault.run?)?;
        // A holder that resumes in time renews its lease. The end of the fault phase also resumes a frozen holder
        // early.
        let thawed = fault.until.saturating_sub(at) < run.plan.ttl * 1_000;
        if kind == FaultKind::FreezeParentLong && thawed {
            return None;
        }
        // There is nothing to take over if the command had not been started, or if its work was done.
        let held = run.start?.at < at && run.finished.is_none_or(|finished| finished > at);
        let stood = timeline
            .runs
            .values()
            .any(|waiter| stood(timeline, waiter, run, at));
        let next = grants.get(run.action.as_str())?.iter();
        let next = next.map(|(_, start)| start.at).find(|start| *start > at);
        // No waiter can take over while the server is down, and a fault of the server or the network just before may
        // still delay the queue.
        let before = at.saturating_sub(AFTERMATH);
        let until = next.unwrap_or(Micros::MAX);
        let was_cut_off = timeline.longest_outage(&run.action, before, until) > 0;
        (fault.hit && held && stood && !was_cut_off).then_some(Due {
            fault,
            run,
            bound: run.plan.ttl * 1_000 + second,
            next,
        })
    };
    timeline.faults.iter().filter_map(due).collect()
}

/// Returns true if `waiter` waited for the lease of `holder` at `at` or soon after, and had no fault before.
fn stood(timeline: &Timeline, waiter: &Run, holder: &Run, at: Micros) -> bool {
    waiter.action == holder.action
        && waiter.number != holder.number
        && waiter.plan.wait.is_none()
        && waiter.asked < at + holder.plan.ttl * 1_000 / 4
        && waiter.start.is_none_or(|start| start.at > at)
        && waiter.end.as_ref().is_none_or(|end| end.at > at)
        && timeline.faults_of(waiter.number).all(|fault| fault.at > at)
}
