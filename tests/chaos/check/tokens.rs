//! Checks that each command has a higher token than all commands of its action that started before it.

use super::Violation;
use crate::timeline::Timeline;

pub(crate) fn tokens(timeline: &Timeline) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (action, grants) in timeline.grants() {
        let mut highest = 0;
        for (run, start) in grants {
            if start.token <= highest {
                let what = format!(
                    "run {} has token {}, but an earlier run had token {highest}",
                    run.number, start.token
                );
                violations.push(Violation::new(start.at, action, what));
            }
            highest = highest.max(start.token);
        }
    }
    violations
}
