//! What is read back behind a change, and what that means. Pure; the model of the protocol uses it too.
//!
//! No count of changed rows is proof by itself: a change counts by the row that stands there after it.

use super::{Answer, Fate, Loss, Owner, Parting};
use crate::lease::{Claim, Token};

/// What is read back behind an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AttemptReadBack {
    /// Whether the attempt changed the row.
    pub changed: bool,
    /// Whose the row is.
    pub owner: Owner,
}

impl AttemptReadBack {
    /// The answer if the row is held by `claim`. None if it is not.
    #[must_use]
    pub fn granted(&self, claim: Claim) -> Option<Answer> {
        let token = self.owner.token;
        match self.owner.is_held_by(claim, None) {
            true if self.changed => Some(Answer::Granted(token)),
            true => Some(Answer::AlreadyOurs(token)),
            false => None,
        }
    }
}

/// What is read back behind a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReleaseReadBack {
    /// Whether the release changed the row.
    pub changed: bool,
    /// Whether the lease is still there.
    pub is_named: bool,
    /// The row's token, if an operator has ended the lease and the row still names us.
    pub broken: Option<Token>,
    /// Whether the success is recorded. None where none had to be.
    pub is_recorded: Option<bool>,
    /// How the run ended according to the history. None without an entry.
    pub ending: Option<Fate>,
}

impl ReleaseReadBack {
    /// The answer to a release of `parting`. None if the lease is still there, which nothing explains.
    #[must_use]
    pub fn answer(&self, parting: &Parting) -> Option<Answer> {
        if self.is_named && self.broken.is_none() {
            return None;
        }
        Some(match self.is_done(parting) {
            true => Answer::Released,
            false => Answer::NotOurs(self.loss()),
        })
    }

    /// Whether something is left to settle: a row that an operator has left to us, or the record of a run
    /// whose row was freed by hand.
    #[must_use]
    pub fn needs_settling(&self, parting: &Parting) -> bool {
        let explained = self.answer(parting).is_some();
        explained && (self.broken.is_some() || parting.run.is_some() && !self.is_done(parting))
    }

    /// Whether the lease was given up by us, and the success recorded where one had to be: by this
    /// request, or by one before it whose answer was lost.
    const fn is_done(&self, parting: &Parting) -> bool {
        let is_ours = matches!(self.ending, Some(Fate::Exited(_) | Fate::Killed(_)));
        let by_hand_off = parting.handed_off && self.ending.is_none();
        match self.is_recorded {
            _ if self.broken.is_some() => false,
            Some(is_recorded) => is_recorded,
            None => self.changed || is_ours || by_hand_off,
        }
    }

    /// Why the lease was not ours any more, as far as anybody has recorded it.
    const fn loss(&self) -> Option<Loss> {
        match self.ending {
            _ if self.broken.is_some() => Some(Loss::Revoked),
            Some(Fate::Broken) => Some(Loss::Revoked),
            Some(Fate::Lost) => Some(Loss::TakenOver),
            _ => None,
        }
    }
}
