//! The texts about a database that has lost a grant, or that may have lost one.

use std::time::Duration;

use super::messages::{duration, holding};
use crate::lease::action::Action;
use crate::store::LockRecord;

/// What can remove a grant from a record.
const CAUSE: &str = "as after a fail-over to an older replica or a restored backup";

/// Returns the message of a holder that writes its lost grant again.
#[must_use]
pub fn reasserting(action: &Action) -> String {
    format!("the database has lost the grant of {action}, {CAUSE}; writing it again")
}

/// Returns the reason why a holder does not write its lost grant to the record `seen` again.
#[must_use]
pub fn not_reasserted(action: &Action, seen: &LockRecord) -> String {
    let state = match seen.main_lease().owner_id.is_some() || seen.pause.is_some() {
        true => format!(", and {}", holding(action, seen)),
        false => String::new(),
    };
    format!("the database has lost the grant, {CAUSE}{state}")
}

/// Returns the reason why another process has the lease of `action` although the lease of this process had not ended.
#[must_use]
pub fn taken_early(action: &Action, seen: &LockRecord) -> String {
    let holding = holding(action, seen);
    format!(
        "{holding}, although the lease of this process had not ended; the database has lost the grant of this process, {CAUSE}, or the server's clock has jumped"
    )
}

/// Returns the reason why the run of a holder that has released nothing does not count as exclusive.
#[must_use]
pub fn not_released(action: &Action) -> String {
    format!("the database has lost the grant of {action} before the command had ended, {CAUSE}")
}

/// Returns the reason why a contender does not acquire `action`. A lease that the database may have lost has ended after
/// the time `left`.
#[must_use]
pub fn outwaiting(action: &Action, left: Duration) -> String {
    format!(
        "{action} may still be held: another server responds, or the database has lost its latest writes, {CAUSE}; a lost lease ends within {}",
        duration(left)
    )
}
