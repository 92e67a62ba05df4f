//! The selection of actions that nobody uses any more, for `dlock prune`.

use std::time::Duration;

use crate::lease::Token;
use crate::lease::action::Action;

/// Actions to remove.
#[derive(Debug, Clone)]
pub struct PruneFilter {
    /// Pattern of the names, in which `*` matches any text. None selects all names.
    pub pattern: Option<String>,
    /// Time for which nobody has used the action.
    pub unused_for: Duration,
    /// True to remove actions too for which `--once` has recorded a success.
    pub includes_done: bool,
}

/// An action that nobody uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prunable {
    /// Name of the lock.
    pub action: Action,
    /// Token in the row.
    pub token: Token,
    /// Time since the latest use. None if the action was never granted.
    pub unused_for: Option<Duration>,
    /// True if `--once` has recorded a success, so that later runs are unnecessary.
    pub is_done: bool,
}
