//! No two trees of an action live at once.

use std::collections::BTreeMap;

use super::Violation;
use crate::history::{Event, Line};
use crate::story::Story;

/// Three independent signs, none of which needs an allowance: a command did not get the witness's lock; a command did
/// something after a later one had begun; the store refused a token.
pub(crate) fn overlap(story: &Story) -> Vec<Violation> {
    let mut violations = Vec::new();
    // By action, the commands in order of their start; the last is the one that may live.
    let mut commands: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for Line { at, event } in &story.lines {
        let Some(action) = event.action() else {
            continue;
        };
        let started = commands.entry(action).or_default();
        let what = match event {
            Event::Started { run, alone, .. } => {
                let before = started.last().copied();
                started.push(*run);
                match (alone, before) {
                    (true, _) => continue,
                    (false, Some(before)) => {
                        format!("run {run} began while the tree of run {before} lived")
                    }
                    (false, None) => format!("run {run} began while somebody's tree lived"),
                }
            }
            Event::Counting { run, .. }
            | Event::Counted { run, .. }
            | Event::Finished { run, .. }
                if started.contains(run) && started.last() != Some(run) =>
            {
                format!("run {run} lived when a later command had begun")
            }
            Event::Refused {
                run,
                token,
                highest,
                ..
            } => format!("the store refused token {token} of run {run}, having seen {highest}"),
            _ => continue,
        };
        violations.push(Violation::new(*at, action, what));
    }
    violations
}
