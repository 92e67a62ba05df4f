//! Interprets what is read back after a change. Pure; the model of the protocol uses it too.
//!
//! A count of changed rows alone is not proof. The record that is read after the change is.

use super::history::HistoryOutcome;
use super::record::Owner;
use super::request::ReleaseRequest;
use super::response::{Loss, Response};
use crate::lease::{OwnerId, Token};

/// Data read back after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AttemptReadBack {
    /// True if the attempt changed the record.
    pub changed: bool,
    /// Owner of the record.
    pub owner: Owner,
}

impl AttemptReadBack {
    /// Returns the response if `owner_id` holds the lease. None if it does not.
    #[must_use]
    pub fn granted(&self, owner_id: OwnerId) -> Option<Response> {
        let token = self.owner.token;
        match self.owner.is_held_by(owner_id, None) {
            true if self.changed => Some(Response::Granted(token)),
            true => Some(Response::AlreadyHeld(token)),
            false => None,
        }
    }
}

/// Data read back after a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReleaseReadBack {
    /// True if the release changed the record.
    pub changed: bool,
    /// True if the record still contains the lease.
    pub is_named: bool,
    /// True if the action was granted again after this lease.
    pub is_passed_on: bool,
    /// Token of the record, if an operator has revoked the lease and the record still contains the owner id.
    pub revoked: Option<Token>,
    /// True if the success is recorded. None if no success had to be recorded.
    pub is_recorded: Option<bool>,
    /// Outcome of the run according to the history. None without an entry.
    pub outcome: Option<HistoryOutcome>,
}

impl ReleaseReadBack {
    /// Returns the response to the release `request`. None if the lease still exists and was not revoked, which is
    /// unexpected.
    #[must_use]
    pub fn answer(&self, request: &ReleaseRequest) -> Option<Response> {
        if self.is_named && self.revoked.is_none() {
            return None;
        }
        Some(match self.is_done(request) {
            true => Response::Released,
            false => Response::NotHolder(self.loss()),
        })
    }

    /// Returns true if a second request has to reconcile the tables: to free a revoked lease, or to record a run whose
    /// lease this release did not free.
    #[must_use]
    pub fn needs_settling(&self, request: &ReleaseRequest) -> bool {
        let explained = self.answer(request).is_some();
        explained && (self.revoked.is_some() || request.run.is_some() && !self.is_done(request))
    }

    /// Returns true if this process released the lease and, if required, recorded the success: by this request, or by
    /// an earlier one whose response was lost.
    const fn is_done(&self, request: &ReleaseRequest) -> bool {
        let was_recorded_by_holder = matches!(
            self.outcome,
            Some(HistoryOutcome::Exited(_) | HistoryOutcome::Killed(_))
        );
        let by_hand_off = request.handed_off && self.is_passed_on && self.outcome.is_none();
        match self.is_recorded {
            _ if self.revoked.is_some() => false,
            Some(is_recorded) => is_recorded,
            None => self.changed || was_recorded_by_holder || by_hand_off,
        }
    }

    /// Returns the reason why this process did not hold the lease any more. None if no reason is recorded.
    const fn loss(&self) -> Option<Loss> {
        match self.outcome {
            _ if self.revoked.is_some() => Some(Loss::Revoked),
            Some(HistoryOutcome::Revoked) => Some(Loss::Revoked),
            Some(HistoryOutcome::Lost) => Some(Loss::TakenOver),
            _ => None,
        }
    }
}
