//! How a run ended: the one value from which the exit status, the history, the metrics and the hook
//! follow. Pure.

use std::time::Duration;

use crate::acquire::AcquiredLease;
use crate::exit::Status;
use crate::metrics::Outcome;
use crate::releasing::Released;
use crate::store::{Fate, Loss, Parting, Run};
use crate::supervise::Blame;
use crate::sys::tree::End;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunOutcome {
    /// The command ended by itself with this status.
    Exited(u8),
    /// This signal killed the command, and not on account of the lease.
    Killed(i32),
    /// The command ran for longer than it may.
    TimedOut,
    /// The command could not be executed.
    NeverRan(Status),
    /// The lease could not be kept, became another's, or nobody was left to enforce its deadline.
    Lost,
    /// An operator ended the lease.
    Revoked,
    /// The command succeeded, but the success that others rely on could not be recorded.
    Unrecorded,
    /// A process of the command does not die, and dlock was told to leave.
    LeftBehind,
}

impl RunOutcome {
    /// Of a command that ended like `end`; `blame` is the monitor's word, and `loss` what the parent was
    /// told of the lease before: a run whose lease was lost is never a success.
    #[must_use]
    pub fn of(end: End, blame: Blame, loss: Option<Loss>) -> Self {
        match (loss, blame, end) {
            (Some(loss), _, _) => Self::from(loss),
            (None, Blame::Lost | Blame::Expired | Blame::Unguarded, _) => Self::Lost,
            (None, Blame::Overran, _) => Self::TimedOut,
            (None, Blame::Nobody, End::Exited(code)) => Self::Exited(code),
            (None, Blame::Nobody, End::Killed(signal)) => Self::Killed(signal),
        }
    }

    /// The same after the release: a lease that was not ours any more by then was lost before the
    /// command had ended.
    #[must_use]
    pub fn after(self, released: &Released) -> Self {
        match (self, released) {
            (Self::Exited(_) | Self::Killed(_) | Self::TimedOut, Released::NotOurs(loss)) => {
                Self::from(*loss)
            }
            _ => self,
        }
    }

    /// What the release has to record. None of a lease that an operator ended: that is recorded, and so
    /// is the end of a run that others have seen.
    #[must_use]
    pub fn fate(self) -> Option<Fate> {
        match self {
            Self::Exited(status) => Some(Fate::Exited(status)),
            Self::Killed(signal) => Some(Fate::Killed(u8::try_from(signal).unwrap_or(0))),
            Self::TimedOut => Some(Fate::Exited(Status::TIMED_OUT.code())),
            Self::NeverRan(status) => Some(Fate::Exited(status.code())),
            Self::Lost => Some(Fate::Lost),
            Self::Revoked | Self::Unrecorded | Self::LeftBehind => None,
        }
    }

    /// What to give up of `lease` after a run that ended like this and took `took` since the grant. A lease
    /// that is still ours is kept from others for the rest of `min_hold`.
    #[must_use]
    pub fn parting(self, lease: &AcquiredLease, took: Duration, min_hold: Duration) -> Parting {
        let keep = min_hold.saturating_sub(took);
        Parting {
            claim: lease.grant.claim,
            // A revoked lease has another token by now, and the row is still ours to free.
            token: (self != Self::Revoked).then_some(lease.grant.token),
            gate: lease.gate,
            queued: lease.queued,
            keep: (self.is_ours() && !keep.is_zero()).then_some(keep),
            run: self.fate().map(|fate| Run { fate, took }),
            handed_off: false,
        }
    }

    /// Whether the lease was still ours when the command ended, as far as we know.
    #[must_use]
    pub const fn is_ours(self) -> bool {
        !matches!(self, Self::Lost | Self::Revoked | Self::LeftBehind)
    }

    /// The status that dlock ends with.
    #[must_use]
    pub fn status(self) -> Status {
        match self {
            Self::Exited(code) => Status::from_code(code),
            Self::Killed(signal) => Status::from_signal(signal),
            Self::TimedOut => Status::TIMED_OUT,
            Self::NeverRan(status) => status,
            Self::Lost | Self::Revoked | Self::Unrecorded | Self::LeftBehind => Status::LOST,
        }
    }

    /// The word for metrics and hooks.
    #[must_use]
    pub const fn result(self) -> Outcome {
        match self {
            Self::Exited(0) => Outcome::Succeeded,
            Self::Exited(_) | Self::Killed(_) | Self::NeverRan(_) => Outcome::Failed,
            Self::TimedOut => Outcome::TimedOut,
            Self::Lost | Self::Revoked | Self::Unrecorded | Self::LeftBehind => Outcome::Lost,
        }
    }
}

impl From<Loss> for RunOutcome {
    fn from(loss: Loss) -> Self {
        match loss {
            Loss::TakenOver => Self::Lost,
            Loss::Revoked => Self::Revoked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RunOutcome;
    use crate::releasing::Released;
    use crate::store::Loss;
    use crate::supervise::Blame;
    use crate::sys::tree::End;

    #[test]
    fn a_run_that_was_told_lost_or_revoked_never_ends_with_0() {
        for loss in [Loss::TakenOver, Loss::Revoked] {
            let told = RunOutcome::of(End::Exited(0), Blame::Nobody, Some(loss));
            assert_eq!(told.status().code(), 76);
            let ended = RunOutcome::of(End::Exited(0), Blame::Nobody, None);
            assert_eq!(ended.status().code(), 0);
            assert_eq!(ended.after(&Released::NotOurs(loss)).status().code(), 76);
            assert_eq!(told.after(&Released::Recorded), told);
        }
        let expired = RunOutcome::of(End::Exited(0), Blame::Expired, None);
        assert_eq!(expired.status().code(), 76);
    }
}
