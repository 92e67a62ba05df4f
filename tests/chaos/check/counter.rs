//! A counter behind a store that checks tokens loses no increment.

use std::collections::BTreeMap;

use super::Violation;
use crate::history::{Event, Line};
use crate::timeline::Timeline;

/// The increments that the commands of an action recorded.
#[derive(Default)]
struct Said {
    /// Number of increments that the store accepted, and the increments by run whose command died before it recorded
    /// the result.
    taken: u64,
    unknown: BTreeMap<u64, u64>,
}

/// The count must be the number of accepted increments; those with an unknown result may be included.
pub(crate) fn counter(timeline: &Timeline) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut said: BTreeMap<&str, Said> = BTreeMap::new();
    let mut counters = Vec::new();
    for Line { at, event } in &timeline.lines {
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
