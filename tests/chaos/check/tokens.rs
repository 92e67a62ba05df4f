//! Checks that each command has a higher token than all commands of its action that started before it.
//! The token may be lower if the database has lost the grant of the earlier command.

use super::Violation;
use crate::timeline::Timeline;

pub(crate) fn tokens(timeline: &Timeline) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (action, grants) in timeline.grants() {
        // The highest token and the time of its start.
        let (mut highest, mut granted) = (0, 0);
        for (run, start) in grants {
            if start.token <= highest && !timeline.may_have_lost(action, granted, start.at) {
                let what = format!(
                    "run {} has token {}, but an earlier run had token {highest}",
                    run.number, start.token
                );
                violations.push(Violation::new(start.at, action, what));
            }
            // After a loss, the tokens increase again from this one.
            if start.token > highest || timeline.may_have_lost(action, granted, start.at) {
                (highest, granted) = (start.token, start.at);
            }
        }
    }
    violations
}
