//! Checks that a counter in a store that checks tokens loses no increment.

use std::collections::BTreeMap;

use super::Violation;
use crate::history::{Event, Line};
use crate::timeline::Timeline;

/// The increments that the commands of an action recorded.
#[derive(Default)]
struct Increments {
    /// Number of increments that the store accepted.
    accepted: u64,
    /// New count of each run whose command died before it recorded the result of its increment.
    unknown: BTreeMap<u64, u64>,
}

/// Returns a violation for each counter that is lower than the number of accepted increments, or higher than the
/// number of increments that are accepted or whose result is unknown.
pub(crate) fn counter(timeline: &Timeline) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut increments: BTreeMap<&str, Increments> = BTreeMap::new();
    let mut counters = Vec::new();
    for Line { at, event } in &timeline.lines {
        match event {
            Event::Counting { run, action, count } => {
                let increments = increments.entry(action).or_default();
                increments.unknown.insert(*run, *count);
            }
            Event::Refused { run, action, .. } => {
                increments.entry(action).or_default().unknown.remove(run);
            }
            Event::Counted { run, action, .. } => {
                let increments = increments.entry(action).or_default();
                increments.unknown.remove(run);
                increments.accepted += 1;
            }
            Event::Counter { action, count, .. } => counters.push((*at, action, *count)),
            _ => {}
        }
    }
    for (at, action, count) in counters {
        let Increments { accepted, unknown } =
            increments.remove(action.as_str()).unwrap_or_default();
        let most = accepted + unknown.len() as u64;
        if !(accepted..=most).contains(&count) {
            let what = format!(
                "the counter is {count}, but {accepted} to {most} increments were accepted"
            );
            violations.push(Violation::new(at, action, what));
        }
    }
    violations
}
