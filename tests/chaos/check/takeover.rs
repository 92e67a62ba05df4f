//! Checks that a lease is taken over in time: at most ttl + 1 s after the parent is killed, and at most ttl + 2 s after
//! the parent is frozen.

use super::{ALLOWANCE, Violation};
use crate::fault_kind::{FaultKind, Victim};
use crate::history::{GALERA_SITE, Micros};
use crate::schedule::ExecOption;
use crate::timeline::{Fault, Run, Timeline};

/// Time in microseconds after an outage during which the server may still keep the session of a client that it cannot
/// reach. It is longer than the longest ttl.
const AFTER_OUTAGE: Micros = 6_000_000;

/// Time in microseconds for which the queue entry of a dead waiter of another node, or of the earlier primary, still
/// counts, and the time for which other waiters then leave the lease to that waiter. "Waiters that the queue lock does not
/// order" in dlock-protocol(7) contains both times.
const STALE_ENTRY: Micros = 30_000_000;
const ENTRY_PRIORITY: Micros = 3_000_000;

struct Due<'a> {
    fault: &'a Fault,
    run: &'a Run,
    /// Promised maximum time in microseconds from the fault to the start of the next command.
    bound: Micros,
    /// Start time of the next command. None if no command started.
    next: Option<Micros>,
}

pub(crate) fn takeover(timeline: &Timeline) -> Vec<Violation> {
    let violation = |due: &Due| {
        let end = due.next.or(timeline.overdue)?;
        let took = end.saturating_sub(due.fault.at);
        let stalled = timeline.stalled(&due.run.action, due.fault.at, end);
        let promised = due.bound + priority_of_stale_entries(timeline, due.run, end);
        let what = format!(
            "{} of run {}: {took} µs until the next command, but at most {promised} µs are promised",
            due.fault.kind, due.run.number
        );
        (took > promised + ALLOWANCE + stalled)
            .then(|| Violation::new(due.fault.at, &*due.run.action, what))
    };
    let due = due_takeovers(timeline);
    due.iter().filter_map(violation).collect()
}

/// Returns the time for which the waiters may leave the lease of `run` to dead waiters. It is 0 if no waiter can have
/// left a queue entry on another server.
fn priority_of_stale_entries(timeline: &Timeline, run: &Run, end: Micros) -> Micros {
    let leaves_entry = |fault: &Fault| match fault.kind.victim() {
        Victim::Node => run.action.starts_with(&fault.site),
        // On other sites, the server knows that the session of the waiter has ended.
        Victim::Waiter => fault.action.as_ref() == Some(&run.action) && fault.site == GALERA_SITE,
        _ => false,
    };
    let is_recent = |fault: &Fault| fault.at < end && fault.until.saturating_add(STALE_ENTRY) > end;
    let mut faults = timeline.faults.values();
    match faults.any(|fault| leaves_entry(fault) && is_recent(fault)) {
        true => ENTRY_PRIORITY,
        false => 0,
    }
}

/// Returns, for each fault of this kind, the time from the fault to the take-over minus the ttl, in microseconds. dlock
/// promises at most 1 s for a killed parent and 2 s for a frozen parent.
pub(crate) fn latencies(timeline: &Timeline, kind: FaultKind) -> Vec<i64> {
    let beyond_ttl = |due: &Due| {
        let took = due.next?.saturating_sub(due.fault.at);
        let ttl = due.run.plan.ttl * 1_000;
        Some(took.cast_signed() - ttl.cast_signed())
    };
    let due = due_takeovers(timeline).into_iter();
    let of_kind = due.filter(|due| due.fault.kind == kind);
    of_kind.filter_map(|due| beyond_ttl(&due)).collect()
}

fn due_takeovers<'s>(timeline: &'s Timeline) -> Vec<Due<'s>> {
    let grants = timeline.grants();
    let due = |fault: &'s Fault| {
        let Fault { kind, at, .. } = *fault;
        let second = match kind {
            FaultKind::KillParent => 1_000_000,
            FaultKind::FreezeParentLong => 2_000_000,
            _ => return None,
        };
        // Beside the slot of a dead holder, other holders may be in the way of the next one.
        let run = timeline.runs.get(&fault.run?)?;
        if !run.plan.is_exclusive() {
            return None;
        }
        // A holder that resumes before its lease expires renews the lease. The end of the fault phase can also resume a
        // frozen holder early.
        let resumed_early = fault.until.saturating_sub(at) < run.plan.ttl * 1_000;
        if kind == FaultKind::FreezeParentLong && resumed_early {
            return None;
        }
        // No take-over is due if the command had not started or had already finished.
        let held = run.start?.at < at && run.finished.is_none_or(|finished| finished > at);
        let mut runs = timeline.runs.values();
        let has_waiter = runs.any(|waiter| was_waiting(timeline, waiter, run, at));
        let next = grants.get(run.action.as_str())?.iter();
        let next = next.map(|(_, start)| start.at).find(|start| *start > at);
        // No waiter can take over while the server is down. An earlier fault of the server or the network may also
        // still delay the queue.
        let before = at.saturating_sub(AFTER_OUTAGE);
        let until = next.unwrap_or(Micros::MAX);
        let had_outage = timeline.longest_outage(&run.action, before, until) > 0;
        (fault.hit && held && has_waiter && !had_outage).then_some(Due {
            fault,
            run,
            bound: run.plan.ttl * 1_000 + second,
            next,
        })
    };
    timeline.faults.values().filter_map(due).collect()
}

/// Returns true if `waiter` waited for the lease of `holder` at `at` or soon after, and was not affected by a fault
/// until then.
fn was_waiting(timeline: &Timeline, waiter: &Run, holder: &Run, at: Micros) -> bool {
    waiter.action == holder.action
        && waiter.number != holder.number
        && waiter.plan.wait.is_none()
        // Such a run may still wait for its first lock.
        && waiter.plan.option != Some(ExecOption::Several)
        && waiter.launched < at + holder.plan.ttl * 1_000 / 4
        && waiter.start.is_none_or(|start| start.at > at)
        && waiter.end.as_ref().is_none_or(|end| end.at > at)
        && timeline.faults_of(waiter.number).all(|fault| fault.at > at)
}
