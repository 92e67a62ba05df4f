//! The outcome of a run: the one value that determines the exit status, the history entry, the metrics and the hook
//! variables. Pure.

use std::time::Duration;

use crate::exit::Status;
use crate::lease::Grant;
use crate::metrics::MetricsResult;
use crate::process::supervisor::{KILL, StopReason};
use crate::protocol::release::Released;
use crate::store::{HistoryOutcome, Loss, QueueLock, ReleaseRequest, RunHistory, RunRecord};
use crate::sys::tree::ExitReason;

/// The outcome of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunOutcome {
    /// The command exited with this status.
    Exited(u8),
    /// This signal killed the command, but neither the lease nor `--max-runtime` was the reason.
    Killed(i32),
    /// The command ran for longer than `--max-runtime`.
    TimedOut,
    /// The command could not be executed. Contains the exit status of dlock.
    NeverRan(Status),
    /// The lease could not be renewed in time or was taken over, or the monitor that enforces its deadline died.
    Lost,
    /// An operator revoked the lease.
    Revoked,
    /// Another lease of the run was lost, so dlock stopped the command, which ended like this. Only an outcome for the lease
    /// that was not lost.
    OtherLost(ExitReason),
    /// The command succeeded, but the success that `--once` requires could not be recorded.
    Unrecorded,
    /// A process of the command did not die after SIGKILL, and a signal ended dlock.
    LeftBehind,
}

/// Numbers of what dlock has killed, because a command left it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KilledRemains {
    /// Sessions on the server, of the command or of an earlier holder.
    pub sessions: u32,
    /// Processes of the command.
    pub processes: u32,
}

/// Facts about a run for the history, besides its outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunFacts {
    /// Time before the run.
    pub waited: Duration,
    /// Time since the grant.
    pub took: Duration,
    /// Numbers of the sessions and processes that dlock has killed.
    pub killed: KilledRemains,
}

/// Returns the release of `grant` after dlock itself was killed, and then the command. The session that owned the queue
/// lock has ended with dlock. `facts` are those of the run, and `min_hold` is the minimum time from the grant to the end
/// of the lease.
#[must_use]
pub fn release_after_death(grant: Grant, facts: RunFacts, min_hold: Duration) -> ReleaseRequest {
    let outcome = RunOutcome::Killed(KILL);
    let mut request = outcome.request(grant, facts, min_hold);
    request.has_entry = true;
    if let Some(run) = &mut request.run {
        run.dlock_status = Some(outcome.status().code());
    }
    request
}

impl RunOutcome {
    /// Returns the outcome of a command that ended with `exit`. `stop_reason` is the reason why dlock stopped the
    /// command. `loss` is the loss of the lease if a response reported one during the run. A run that lost its lease is
    /// never a success.
    #[must_use]
    pub fn of(exit: ExitReason, stop_reason: StopReason, loss: Option<Loss>) -> Self {
        match (loss, stop_reason, exit) {
            (Some(loss), _, _) => Self::from(loss),
            (None, StopReason::Lost | StopReason::Expired | StopReason::MonitorDied, _) => {
                Self::Lost
            }
            (None, StopReason::TimedOut, _) => Self::TimedOut,
            (None, StopReason::None, ExitReason::Exited(code)) => Self::Exited(code),
            (None, StopReason::None, ExitReason::Killed(signal)) => Self::Killed(signal),
        }
    }

    /// Returns the outcome of the run after the release. If the release finds that this process no longer holds the
    /// lease, the run counts as lost or revoked.
    #[must_use]
    pub fn after(self, released: &Released) -> Self {
        match (self, released) {
            (Self::Exited(_) | Self::Killed(_) | Self::TimedOut, Released::NotHolder(loss)) => {
                Self::from(*loss)
            }
            _ => self,
        }
    }

    /// Returns the outcome that the release records in the history. None if the release records no run, for example
    /// because the operator's request has already recorded a revocation.
    #[must_use]
    pub fn history_outcome(self) -> Option<HistoryOutcome> {
        match self {
            Self::Exited(status) | Self::OtherLost(ExitReason::Exited(status)) => {
                Some(HistoryOutcome::Exited(status))
            }
            Self::Killed(signal) | Self::OtherLost(ExitReason::Killed(signal)) => {
                Some(HistoryOutcome::Killed(u8::try_from(signal).unwrap_or(0)))
            }
            Self::TimedOut => Some(HistoryOutcome::Exited(Status::TIMED_OUT.code())),
            Self::NeverRan(status) => Some(HistoryOutcome::Exited(status.code())),
            Self::Lost => Some(HistoryOutcome::Lost),
            Self::Revoked | Self::Unrecorded | Self::LeftBehind => None,
        }
    }

    /// Returns the exit status that dlock chooses for this outcome. None if dlock exits with the command's own status.
    fn dlock_status(self) -> Option<u8> {
        match self {
            Self::Exited(_) | Self::Killed(_) => None,
            Self::TimedOut
            | Self::NeverRan(_)
            | Self::Lost
            | Self::Revoked
            | Self::OtherLost(_)
            | Self::Unrecorded
            | Self::LeftBehind => Some(self.status().code()),
        }
    }

    /// Returns the release request for `grant` after a run with this outcome and with these `facts`. It does not release
    /// the queue lock. A lease that this process still holds stays held until `min_hold` after the grant.
    #[must_use]
    pub fn request(self, grant: Grant, facts: RunFacts, min_hold: Duration) -> ReleaseRequest {
        let RunFacts {
            waited,
            took,
            killed,
        } = facts;
        let keep = min_hold.saturating_sub(took);
        ReleaseRequest {
            owner_id: grant.owner_id,
            // The token of a revoked lease has changed, and this process must still free the record. Therefore this
            // request contains no token.
            token: (self != Self::Revoked).then_some(grant.token),
            queue_lock: QueueLock::Unavailable,
            has_entry: false,
            keep: (self.held_lease() && !keep.is_zero()).then_some(keep),
            run: self.history_outcome().map(|outcome| RunRecord {
                outcome,
                waited,
                duration: took,
                sessions_ended: killed.sessions,
                processes_killed: killed.processes,
                dlock_status: self.dlock_status(),
            }),
            clears_sessions: false,
            history: RunHistory::Written,
            handed_off: false,
        }
    }

    /// Returns true if this process still held the lease when the command ended, as far as this process can determine.
    #[must_use]
    pub const fn held_lease(self) -> bool {
        !matches!(self, Self::Lost | Self::Revoked | Self::LeftBehind)
    }

    /// Returns the exit status of dlock.
    #[must_use]
    pub fn status(self) -> Status {
        match self {
            Self::Exited(code) => Status::from_code(code),
            Self::Killed(signal) => Status::from_signal(signal),
            Self::TimedOut => Status::TIMED_OUT,
            Self::NeverRan(status) => status,
            Self::Lost
            | Self::Revoked
            | Self::OtherLost(_)
            | Self::Unrecorded
            | Self::LeftBehind => Status::LOST,
        }
    }

    /// Returns the result for metrics and hooks.
    #[must_use]
    pub const fn result(self) -> MetricsResult {
        match self {
            Self::Exited(0) => MetricsResult::Succeeded,
            Self::Exited(_) | Self::Killed(_) | Self::NeverRan(_) => MetricsResult::Failed,
            Self::TimedOut => MetricsResult::TimedOut,
            Self::Lost
            | Self::Revoked
            | Self::OtherLost(_)
            | Self::Unrecorded
            | Self::LeftBehind => MetricsResult::Lost,
        }
    }
}

impl From<Loss> for RunOutcome {
    fn from(loss: Loss) -> Self {
        match loss {
            Loss::TakenOver | Loss::LostGrant => Self::Lost,
            Loss::Revoked => Self::Revoked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RunOutcome;
    use crate::process::supervisor::StopReason;
    use crate::protocol::release::Released;
    use crate::store::Loss;
    use crate::sys::tree::ExitReason;

    #[test]
    fn run_with_a_lost_or_revoked_lease_never_exits_with_0() {
        for loss in [Loss::TakenOver, Loss::Revoked, Loss::LostGrant] {
            let known = RunOutcome::of(ExitReason::Exited(0), StopReason::None, Some(loss));
            assert_eq!(known.status().code(), 76);
            let ended = RunOutcome::of(ExitReason::Exited(0), StopReason::None, None);
            assert_eq!(ended.status().code(), 0);
            assert_eq!(ended.after(&Released::NotHolder(loss)).status().code(), 76);
            assert_eq!(known.after(&Released::Recorded), known);
        }
        let expired = RunOutcome::of(ExitReason::Exited(0), StopReason::Expired, None);
        assert_eq!(expired.status().code(), 76);
    }
}
