//! Checks that a counter in a store that checks tokens loses no increment.

use std::collections::BTreeMap;

use super::Violation;
use crate::history::Event;
use crate::timeline::Timeline;

/// Returns a violation for each counter that is lower than the number of accepted increments, or higher than the
/// number of increments that are accepted or whose result is unknown. A result is unknown if the command died before it
/// recorded the result.
pub(crate) fn counter(timeline: &Timeline) -> Vec<Violation> {
    let mut violations = Vec::new();
    // The number of accepted increments, and the runs with an unknown result.
    let mut increments: BTreeMap<&str, (u64, Vec<u64>)> = BTreeMap::new();
    for line in &timeline.lines {
        let Some(action) = line.action.as_deref() else {
            continue;
        };
        let run = line.run.unwrap_or_default();
        let (accepted, unknown) = increments.entry(action).or_default();
        if let Event::Counting { .. } | Event::Counted { .. } | Event::Refused { .. } = line.event {
            unknown.retain(|other| *other != run);
        }
        match line.event {
            Event::Counting { .. } => unknown.push(run),
            Event::Counted { .. } => *accepted += 1,
            Event::Counter { count } => {
                let most = *accepted + unknown.len() as u64;
                if !(*accepted..=most).contains(&count) {
                    let what = format!(
                        "the counter is {count}, but {accepted} to {most} increments were accepted"
                    );
                    violations.push(Violation::new(line.at, action, what));
                }
            }
            _ => {}
        }
    }
    violations
}
