//! A counter behind a store that checks tokens loses nothing.

use std::collections::BTreeMap;

use super::Violation;
use crate::history::{Event, Line};
use crate::story::Story;

/// What the commands of an action say of its counter.
#[derive(Default)]
struct Said {
    /// Increments that the store took, and such of which the command did not live to tell.
    taken: u64,
    unknown: BTreeMap<u64, u64>,
}

/// The count is the number of increments that were taken; those whose outcome nobody knows may be in it.
pub(crate) fn counter(story: &Story) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut said: BTreeMap<&str, Said> = BTreeMap::new();
    let mut counters = Vec::new();
    for Line { at, event } in &story.lines {
        match event {
            Event::Counting { run, action, count } => {
                let said = said.entry(action).or_default();
                said.unknown.insert(*run, *count);
            }
            Event::Refused { run, action, .. } => {
                said.entry(action).or_default().unknown.remove(run);
            }
            Event::Counted { run, action, .. } => {
                let said = said.entry(action).or_default();
                said.unknown.remove(run);
                said.taken += 1;
            }
            Event::Counter { action, count, .. } => counters.push((*at, action, *count)),
            _ => {}
        }
    }
    for (at, action, count) in counters {
        let Said { taken, unknown } = said.remove(action.as_str()).unwrap_or_default();
        let most = taken + unknown.len() as u64;
        if !(taken..=most).contains(&count) {
            let what =
                format!("the counter is {count}, and {taken} to {most} increments were made");
            violations.push(Violation::new(at, action, what));
        }
    }
    violations
}
