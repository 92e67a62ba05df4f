//! Checks that each command has a higher token than all commands of its action that started before it. The token may be
//! lower if the database has lost the grant of the earlier command. Also checks that a counter in a store that checks
//! tokens loses no increment.

use std::collections::BTreeMap;

use super::Violation;
use crate::history::Event;
use crate::timeline::Timeline;

pub(crate) fn tokens(timeline: &Timeline) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (action, grants) in timeline.grants() {
        // The highest token and the time of its start: of all commands, and of those that run alone. Commands that run
        // together may start in another order than they were granted the lock.
        let (mut of_all, mut of_exclusive) = ((0, 0), (0, 0));
        for (run, start) in grants {
            let (highest, granted) = match run.plan.is_exclusive() {
                true => of_all,
                false => of_exclusive,
            };
            let may_be_lost = timeline.may_have_lost(action, granted, start.at);
            if start.token <= highest && !may_be_lost {
                let what = format!(
                    "run {} has token {}, but an earlier run had token {highest}",
                    run.number, start.token
                );
                violations.push(Violation::new(start.at, action, what));
            }
            // After a loss, the tokens increase again from this one.
            let raise = |highest: &mut (u64, u64)| {
                if start.token > highest.0 || timeline.may_have_lost(action, highest.1, start.at) {
                    *highest = (start.token, start.at);
                }
            };
            raise(&mut of_all);
            if run.plan.is_exclusive() {
                raise(&mut of_exclusive);
            }
        }
    }
    violations
}

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
