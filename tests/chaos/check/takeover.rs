//! A lease is taken over in time: ttl + 1 s after its front was killed, ttl + 2 s after it froze.

use super::{ALLOWANCE, Violation};
use crate::history::Micros;
use crate::kind::Kind;
use crate::story::{Fault, Run, Start, Story};

/// How long the server keeps the session of a client that a cut network took away: the longest ttl, and then some.
const AFTERMATH: Micros = 6_000_000;

/// A take-over that was due.
struct Due<'a> {
    fault: &'a Fault,
    run: &'a Run,
    /// What is promised, counted from the fault.
    bound: Micros,
    /// When the next command began, if one did.
    next: Option<Micros>,
}

pub(crate) fn takeover(story: &Story) -> Vec<Violation> {
    let late = |due: &Due| {
        let end = due.next.or(story.overdue)?;
        let took = end.saturating_sub(due.fault.at);
        let stalled = story.stalled(&due.run.action, due.fault.at, end);
        let allowed = due.bound + ALLOWANCE + stalled;
        let what = format!(
            "{} of run {}: {} µs until the next command, {} are promised",
            due.fault.kind, due.run.number, took, due.bound
        );
        (took > allowed).then(|| Violation::new(due.fault.at, &due.run.action, what))
    };
    dues(story).iter().filter_map(late).collect()
}

/// How long after its fault each take-over was, for killed fronts and for frozen ones, less the ttl: what is promised
/// are 1 s and 2 s. Sorted.
pub(crate) fn latencies(story: &Story, kind: Kind) -> Vec<i64> {
    let over = |due: &Due| {
        let took = due.next?.saturating_sub(due.fault.at);
        let ttl = due.run.plan.ttl * 1_000;
        Some(took.cast_signed() - ttl.cast_signed())
    };
    let mut latencies: Vec<i64> = dues(story)
        .iter()
        .filter(|due| due.fault.kind == kind)
        .filter_map(over)
        .collect();
    latencies.sort_unstable();
    latencies
}

/// How many commands began under a lease that the holder before had not given back.
pub(crate) fn count(story: &Story) -> usize {
    let grants = story.grants();
    let pairs = grants.values().flat_map(|grants| grants.windows(2));
    pairs
        .filter(|pair| !gave_back(story, pair[0].0, pair[1].1))
        .count()
}

/// Whether `run` had given the lease back when the command after it began.
fn gave_back(story: &Story, run: &Run, next: Start) -> bool {
    let Some(end) = &run.end else {
        return false;
    };
    let was_frozen = story
        .faults_of(run.number)
        .any(|fault| fault.kind.freezes_front() && fault.at < next.at);
    let failed = ["cannot release", "was not ours any more"]
        .iter()
        .any(|text| end.stderr.contains(text));
    end.signal.is_none() && !failed && !(was_frozen && end.at > next.at)
}

fn dues<'s>(story: &'s Story) -> Vec<Due<'s>> {
    let grants = story.grants();
    let due = |fault: &'s Fault| {
        let Fault { kind, at, .. } = *fault;
        let second = match kind {
            Kind::KillFront => 1_000_000,
            Kind::FreezeFrontLong => 2_000_000,
            _ => return None,
        };
        let run = story.runs.get(&fault.run?)?;
        // Who thaws in time renews; so does who was to be frozen for longer when the faults ended.
        let thawed = fault.until.saturating_sub(at) < run.plan.ttl * 1_000;
        if kind == Kind::FreezeFrontLong && thawed {
            return None;
        }
        // Who had not begun, or was about to give the lease back, leaves nothing to take over.
        let held = run.start?.at < at && run.finished.is_none_or(|finished| finished > at);
        let stood = story
            .runs
            .values()
            .any(|waiter| stood(story, waiter, run, at));
        let next = grants.get(run.action.as_str())?.iter();
        let next = next.map(|(_, start)| start.at).find(|start| *start > at);
        // Nobody can take over from a server that is away, and what it or the network did just before may still hold
        // up the line.
        let before = at.saturating_sub(AFTERMATH);
        let until = next.unwrap_or(Micros::MAX);
        let was_cut_off = story.longest_outage(&run.action, before, until) > 0;
        (fault.hit && held && stood && !was_cut_off).then_some(Due {
            fault,
            run,
            bound: run.plan.ttl * 1_000 + second,
            next,
        })
    };
    story.faults.iter().filter_map(due).collect()
}

/// Whether `waiter` stood in line for the lease of `holder` at this time or soon after, and had been let alone.
fn stood(story: &Story, waiter: &Run, holder: &Run, at: Micros) -> bool {
    waiter.action == holder.action
        && waiter.number != holder.number
        && waiter.plan.wait.is_none()
        && waiter.asked < at + holder.plan.ttl * 1_000 / 4
        && waiter.start.is_none_or(|start| start.at > at)
        && waiter.end.as_ref().is_none_or(|end| end.at > at)
        && story.faults_of(waiter.number).all(|fault| fault.at > at)
}
