//! Nobody is killed without cause, and every end of dlock is one that is documented and has a reason.

use super::Violation;
use crate::history::Micros;
use crate::kind::Kind;
use crate::story::{End, Fault, Run, Story};

/// SIGKILL and SIGTERM.
const KILL: i32 = 9;
const TERM: i32 = 15;

/// The machine stood still for long enough to be a reason by itself.
const STALL: Micros = 300_000;

/// From the grant of a lease to the first word of its command, on a busy machine.
const START: Micros = 1_000_000;

pub(crate) fn cause(story: &Story) -> Vec<Violation> {
    let judge = |run: &Run| {
        let end = run.end.as_ref()?;
        // What is ended by the runner itself is not dlock's to answer for.
        if story.overdue.is_some_and(|overdue| end.at >= overdue) {
            return None;
        }
        let what = unexplained(story, run, end)?;
        let what = format!("run {}: {what}; it said {:?}", run.number, end.stderr);
        Some(Violation::new(end.at, &run.action, what))
    };
    story.runs.values().filter_map(judge).collect()
}

/// What is wrong with this end, if anything is.
fn unexplained(story: &Story, run: &Run, end: &End) -> Option<String> {
    let struck = |kinds: &[Kind]| {
        story
            .faults_of(run.number)
            .any(|fault| kinds.contains(&fault.kind) && fault.at < end.at)
    };
    match (end.status, end.signal) {
        (_, Some(KILL)) if struck(&[Kind::KillFront, Kind::KillWaiter]) => None,
        // On a busy machine it may come before dlock has got as far as to listen, let alone to speak.
        (_, Some(TERM)) if struck(&STOPS) && run.start.is_none() && end.stderr.is_empty() => None,
        (_, Some(signal)) => Some(format!("dlock was ended by signal {signal}")),
        // The command's own way to say that it is not alone, which another checker tells.
        (Some(98 | 99), _) => None,
        (Some(status), None) if status == run.plan.exit => match run.finished {
            Some(_) => None,
            None => Some(format!(
                "ended with {status}, but its command did not finish"
            )),
        },
        (Some(75), None) if run.plan.wait.is_some() && run.start.is_none() => None,
        (Some(69), None) if gave_up_in_an_outage(story, run, end) => None,
        (Some(76), None) if struck(&LEASE_FAULTS) || was_released(story, run, end) => None,
        (Some(76), None) if was_cut_off(story, run, end) => None,
        (Some(76), None) => Some("its lease was lost without cause".to_owned()),
        (Some(137), None) if struck(&[Kind::KillCommand]) || was_asked_twice(story, run, end) => {
            None
        }
        (Some(143), None) if struck(&STOPS) => None,
        (Some(status), None) => Some(format!("ended with {status} without cause")),
        (None, None) => Some("ended in no known way".to_owned()),
    }
}

/// The runs whose lost lease nothing explains but that the machine was slow: what this checker cannot judge.
pub(crate) fn excused(story: &Story) -> Vec<&Run> {
    let is_excused = |run: &&Run| {
        run.end.as_ref().is_some_and(|end| {
            let is_struck = story
                .faults_of(run.number)
                .any(|fault| LEASE_FAULTS.contains(&fault.kind) && fault.at < end.at);
            let is_known = is_struck || was_released(story, run, end) || was_out(story, run, end);
            end.status == Some(76) && !is_known
        })
    };
    story.runs.values().filter(is_excused).collect()
}

/// Requests to stop.
const STOPS: [Kind; 2] = [Kind::TermFront, Kind::TermWaiter];

/// Faults of processes after which a lease may be lost. A waiter may be a holder by the time it freezes.
const LEASE_FAULTS: [Kind; 6] = [
    Kind::FreezeFrontShort,
    Kind::FreezeFrontNear,
    Kind::FreezeFrontLong,
    Kind::FreezeWaiter,
    Kind::KillMonitor,
    Kind::FreezeMonitor,
];

/// Whether dlock was asked to stop a second time, which kills a command that went on after the first.
fn was_asked_twice(story: &Story, run: &Run, end: &End) -> bool {
    let is_stop = |fault: &&Fault| STOPS.contains(&fault.kind) && fault.at < end.at;
    story.faults_of(run.number).filter(is_stop).count() > 1
}

/// Whether an operator may have ended the lease of `run`, and not that of a run before it.
fn was_released(story: &Story, run: &Run, end: &End) -> bool {
    story.faults.iter().any(|fault| {
        fault.kind == Kind::Release
            && fault.hit
            && fault.action.as_ref() == Some(&run.action)
            && fault.at < end.at
            && fault.until >= since(run, end)
            && run.start.is_none_or(|start| start.at < fault.until + START)
    })
}

/// Whether a run that waits for a limited time got no answer in that time.
fn gave_up_in_an_outage(story: &Story, run: &Run, end: &End) -> bool {
    run.plan.wait.is_some() && run.start.is_none() && was_cut_off(story, run, end)
}

/// Whether the server was away for longer than every lease must bear, or the machine stood still.
fn was_cut_off(story: &Story, run: &Run, end: &End) -> bool {
    was_out(story, run, end) || story.stalled(&run.action, since(run, end), end.at) >= STALL
}

/// Whether a fault of the server or the network took the server away for longer than every lease must bear.
fn was_out(story: &Story, run: &Run, end: &End) -> bool {
    // From a fifth of the ttl on it depends on when the last renewal was; no lease of these bears less.
    let bearable = run.plan.ttl * 1_000 / 5;
    story.longest_outage(&run.action, since(run, end), end.at) >= bearable
}

/// From when on something may be the reason of this end: what was longer ago has been renewed since.
fn since(run: &Run, end: &End) -> Micros {
    end.at.saturating_sub(run.plan.ttl * 2_000)
}
