//! Operator actions: release, pause and resume.

use std::time::Duration;

use super::contender::Holder;
use crate::lease::Token;
use crate::lease::action::Action;

/// Request of an operator to change one action.
#[derive(Debug, Clone)]
pub struct OperatorRequest {
    /// Name of the lock.
    pub action: Action,
    /// Token that was shown to the operator. If the record has another token, nothing is changed.
    pub token: Token,
    /// Identity of the operator. Its note contains the reason.
    pub by: Holder,
    /// Operator action to perform.
    pub kind: OperatorAction,
}

/// Kind of an operator action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperatorAction {
    /// Revokes the lease.
    Release,
    /// Revokes the lease, if there is one, and prevents grants of the action for this time.
    Pause(Duration),
    /// Ends the pause early.
    Resume,
}

/// Result of an operator request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperatorResult {
    /// The change was made.
    Applied {
        /// True if the holder's session was killed, so that the holder reads its record immediately.
        woken: bool,
    },
    /// The record has another token. Nothing was changed.
    Conflict,
}
