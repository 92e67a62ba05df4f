//! A tree dies with its dlock: at once when its front is killed, by the end of the lease when that is frozen, and
//! before dlock ends in any other way. And nobody is left over.

use super::{ALLOWANCE, Violation};
use crate::history::{Event, Line, Micros};
use crate::kind::Kind;
use crate::story::{Run, Story};

/// From the death of the front to that of the tree.
const PROMPT: Micros = 100_000;

pub(crate) fn deaths(story: &Story) -> Vec<Violation> {
    let trees = story.runs.values().flat_map(|run| {
        bounds(story, run)
            .into_iter()
            .filter_map(|(from, bound, why)| late(story, run, from, bound, why))
    });
    let orphans = story
        .lines
        .iter()
        .filter_map(|Line { at, event }| match event {
            Event::Orphan { pid, words } => Some(Violation {
                at: *at,
                action: None,
                what: format!("process {pid} is left: {words}"),
            }),
            _ => None,
        });
    trees.chain(orphans).collect()
}

/// From when on, within which time and why the tree of `run` must be dead.
fn bounds(story: &Story, run: &Run) -> Vec<(Micros, Micros, &'static str)> {
    let mut bounds = Vec::new();
    for fault in story.faults_of(run.number).filter(|fault| fault.hit) {
        let ttl = run.plan.ttl * 1_000;
        match fault.kind {
            Kind::KillFront | Kind::KillWaiter => {
                bounds.push((fault.at, PROMPT, "its front was killed"));
            }
            kind if kind.freezes_front() && fault.until.saturating_sub(fault.at) > ttl => {
                bounds.push((
                    fault.at,
                    ttl,
                    "its front was frozen for longer than the lease",
                ));
            }
            _ => {}
        }
    }
    let end = run.end.as_ref().filter(|end| end.signal.is_none());
    bounds.extend(end.map(|end| (end.at, 0, "dlock ended")));
    bounds
}

fn late(story: &Story, run: &Run, from: Micros, bound: Micros, why: &str) -> Option<Violation> {
    // A command that never began, or began when the fault was over.
    let start = run.start.filter(|start| start.at <= from)?;
    let lived = run.dead.map(|dead| dead.saturating_sub(from));
    let allowed = bound + ALLOWANCE;
    let allowed = allowed + story.stalled(&run.action, from, from + allowed);
    let what = match lived {
        Some(lived) if lived <= allowed => return None,
        Some(lived) => format!("lived for {lived} µs more, {bound} are promised"),
        None => "was never seen dead".to_owned(),
    };
    let what = format!(
        "the tree of run {} (token {}): {why}, and it {what}",
        run.number, start.token
    );
    Some(Violation::new(from, &run.action, what))
}
