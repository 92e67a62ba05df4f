//! Operations that an operator can perform on a lock: release, pause and resume.

use std::time::Duration;

use super::contender::Holder;
use super::record::{Lease, LockRecord};
use crate::lease::Token;
use crate::lease::action::Action;

/// A request by an operator to change the state of one lock.
#[derive(Debug, Clone)]
pub struct OperatorRequest {
    /// Name of the lock.
    pub action: Action,
    /// Token in the record that was shown to the operator. If the record has a different token, nothing is changed, unless
    /// the request is about `slots`.
    pub token: Token,
    /// The leases in slots to revoke, as they were shown: the number of the slot and the token. Only those that still exist
    /// are revoked. A pause changes nothing if another lease exists. Empty if no lease is in a slot.
    pub slots: Vec<(u32, Token)>,
    /// Identity of the operator. The `note` field contains the reason for the operation.
    pub by: Holder,
    /// Operation to perform.
    pub kind: OperatorAction,
}

impl OperatorRequest {
    /// Returns true if the holder must read its record immediately after the change: the operation revokes a lease
    /// in `record`, the record that was shown to the operator, and the holder's session is open.
    #[must_use]
    pub fn wakes_holder(&self, record: &LockRecord) -> bool {
        let is_open = |lease: &Lease| lease.session_alive == Some(true);
        record.is_leased() && record.leases().any(is_open) && self.kind != OperatorAction::Resume
    }
}

/// Kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperatorAction {
    /// Revokes the lease.
    Release,
    /// Revokes the lease, if there is one, and prevents grants of the action for the given duration.
    Pause(Duration),
    /// Ends the pause early.
    Resume,
}

/// Result of an operator request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperatorResult {
    /// The change was made.
    Applied {
        /// True if the sessions of all holders were killed, so that they read their leases immediately.
        woken: bool,
    },
    /// The record has a different token. Nothing was changed.
    Conflict,
}
