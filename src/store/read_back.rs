//! Interprets the data that is read back after a change. The functions are pure, and the model of the protocol calls
//! them too.
//!
//! A count of changed rows alone does not prove that a change took effect. Only data that is read after the change is
//! proof.

use super::history::HistoryOutcome;
use super::record::Owner;
use super::request::ReleaseRequest;
use super::response::{EarlierSessions, Loss, Response};
use crate::lease::{OwnerId, Token};

/// Data read back after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AttemptReadBack {
    /// True if the attempt changed the record.
    pub changed: bool,
    /// Owner in the record, or in the slot, after the attempt.
    pub owner: Owner,
    /// Number of the slot. 1 if the lease is in the record.
    pub slot: u32,
    /// Sessions of an earlier holder in the record.
    pub sessions: EarlierSessions,
    /// True if the action has a queue entry that may belong to a dead waiter.
    pub has_old_entry: bool,
}

impl AttemptReadBack {
    /// Returns the response if `owner_id` holds the lease, and None otherwise.
    #[must_use]
    pub fn granted(&self, owner_id: OwnerId) -> Option<Response> {
        let (token, slot) = (self.owner.token, self.slot);
        match self.owner.is_held_by(owner_id, None) {
            true if self.changed => Some(Response::Granted(token, slot, self.sessions)),
            true => Some(Response::AlreadyHeld(token, slot)),
            false => None,
        }
    }
}

/// What a release knows about a later grant, after which the token of the record is larger than the token of the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NextGrant {
    /// The token is not larger, or the release records no run.
    None,
    /// The token is larger, and the lease was handed off on the server of the release, so the next contender has normally
    /// been granted the lease after the end of the command.
    HandedOff,
    /// The token is larger, and the lease was not handed off on this server.
    Other,
}

/// Data read back after a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReleaseReadBack {
    /// True if the release changed the record.
    pub changed: bool,
    /// True if the record still contains the lease to release, or a revoked lease with the same owner id.
    pub is_named: bool,
    /// True if the token of the record is larger than the token of the lease, and why.
    pub next: NextGrant,
    /// Token of the record if the record still contains the owner id and an operator has revoked the lease. Otherwise
    /// None.
    pub revoked: Option<Token>,
    /// True if the success is recorded. None if the run did not succeed, or did not use `--once`.
    pub is_recorded: Option<bool>,
    /// Outcome of the run in the history. None if the history has no entry for the run.
    pub outcome: Option<HistoryOutcome>,
}

impl ReleaseReadBack {
    /// Returns the response to the release. Returns None if the record still contains the lease although no
    /// operator has revoked it, which is unexpected.
    #[must_use]
    pub fn answer(&self) -> Option<Response> {
        if self.is_named && self.revoked.is_none() {
            return None;
        }
        Some(match self.is_done() {
            true => Response::Released,
            false => Response::NotHolder(self.loss()),
        })
    }

    /// Returns true if a second request is necessary. The second request frees a revoked lease, or records a run whose
    /// lease this release did not free.
    #[must_use]
    pub fn needs_reconciling(&self, request: &ReleaseRequest) -> bool {
        let has_response = self.answer().is_some();
        has_response && (self.revoked.is_some() || request.run.is_some() && !self.is_done())
    }

    /// Returns true if this process released the lease and, if the run had a success to record, recorded the success.
    /// An earlier request whose response was lost may have done this.
    const fn is_done(&self) -> bool {
        let was_recorded_by_holder = matches!(
            self.outcome,
            Some(HistoryOutcome::Exited(_) | HistoryOutcome::Killed(_))
        );
        let by_hand_off = matches!(self.next, NextGrant::HandedOff) && self.outcome.is_none();
        match self.is_recorded {
            _ if self.revoked.is_some() => false,
            Some(is_recorded) => is_recorded,
            None => self.changed || was_recorded_by_holder || by_hand_off,
        }
    }

    /// Returns the reason why this process no longer held the lease. Returns None if there is no evidence of a loss. An
    /// earlier request whose response was lost may then have released the lease.
    ///
    /// Such a request would also have recorded the run and its success. If one of them is missing and the action was
    /// granted again, another contender has been granted the lease before the release, for example by a server that had
    /// lost the lease.
    const fn loss(&self) -> Option<Loss> {
        match self.outcome {
            _ if self.revoked.is_some() => Some(Loss::Revoked),
            Some(HistoryOutcome::Revoked) => Some(Loss::Revoked),
            Some(HistoryOutcome::Lost) => Some(Loss::TakenOver),
            None if !matches!(self.next, NextGrant::None) => Some(Loss::TakenOver),
            _ if matches!(self.is_recorded, Some(false)) => Some(Loss::TakenOver),
            _ => None,
        }
    }
}
