//! Checks that no two process trees of an action run at the same time.

use std::collections::BTreeMap;

use super::Violation;
use crate::fault_kind::FaultKind;
use crate::history::{Event, Micros};
use crate::schedule::ContenderKind;
use crate::timeline::Timeline;

/// Returns a violation for each sign of an overlap. There are three independent signs: a command did not get the lock
/// on the witness file, a command was active after a later command had started, or the store refused a token. No sign
/// depends on a tolerance.
pub(crate) fn overlap(timeline: &Timeline) -> Vec<Violation> {
    let mut violations = Vec::new();
    // The commands of each action, in the order of their starts. A command may be alive beside a later one only if both
    // accept others; their number is checked at the start of each.
    let is_exclusive = |run: &u64| {
        let run = timeline.runs.get(run);
        run.is_none_or(|run| run.plan.is_exclusive())
    };
    let may_be_alive = |started: &[u64], run: &u64| {
        let later = started.iter().rev().take_while(|other| *other != run);
        let mut later = later.filter(|other| is_exclusive(run) || is_exclusive(other));
        later.next().is_none()
    };
    let mut commands: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    // The time at which each run last checked that it may write.
    let mut checked: BTreeMap<u64, Micros> = BTreeMap::new();
    for line in &timeline.lines {
        let (Some(run), Some(action)) = (line.run, line.action.as_deref()) else {
            continue;
        };
        if let Event::Counting { .. } = line.event {
            checked.insert(run, line.at);
        }
        let started = commands.entry(action).or_default();
        let what = match &line.event {
            Event::Started { alone, .. } => {
                let before = started.last().copied();
                started.push(run);
                match (alone, before) {
                    (true, _) => continue,
                    (false, Some(before)) => format!(
                        "run {run} started while the process tree of run {before} was alive"
                    ),
                    (false, None) => {
                        format!("run {run} started while another process tree was alive")
                    }
                }
            }
            Event::Counted { .. } | Event::Refused { .. }
                if was_paused(timeline, run, checked.get(&run), line.at) =>
            {
                continue;
            }
            Event::Counting { .. } | Event::Counted { .. } | Event::Finished
                if started.contains(&run) && !may_be_alive(started, &run) =>
            {
                format!("run {run} was alive after a later command had started")
            }
            Event::Refused { .. } if timeline.is_refused_after_loss(run) => continue,
            Event::Refused { token, highest } => format!(
                "the store refused token {token} of run {run} after it had accepted token {highest}"
            ),
            _ => continue,
        };
        violations.push(Violation::new(line.at, action, what));
    }
    violations
}

/// Returns true if the program of `run` was frozen between the check at `checked` and `at`, the end of its write. A check
/// of the clock says nothing about the time after it, so that only the store can refuse such a write.
fn was_paused(timeline: &Timeline, run: u64, checked: Option<&Micros>, at: Micros) -> bool {
    let kind = timeline.runs.get(&run).map(|run| run.plan.kind);
    kind == Some(ContenderKind::HoldJson)
        && timeline.faults_of(run).any(|fault| {
            let is_between = checked.is_some_and(|checked| fault.until > *checked && fault.at < at);
            fault.kind == FaultKind::FreezeCommand && is_between
        })
}
