//! Records of runs: the outcome of each run, and the successes that make another run unnecessary.

use std::time::Duration;

use super::contender::Holder;
use strum::IntoStaticStr;

use crate::lease::Token;
use crate::lease::action::Action;

/// Outcome of a run, or kind of an operator request, in a history entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum HistoryOutcome {
    /// The command exited with this exit status.
    Exited(u8),
    /// The signal with this number killed the command.
    Killed(u8),
    /// The lease was lost or could not be renewed, or its holder died. It is unknown how much of its work the command
    /// had done.
    Lost,
    /// An operator ended the lease of the run.
    Revoked,
    /// Operator request: an operator removed a recorded success, so that the command can run again.
    Forgotten,
    /// Operator request: an operator revoked the lease.
    Released,
    /// Operator request: an operator paused the action for a given duration, and revoked the lease if there was one.
    Paused,
    /// Operator request: an operator resumed the action.
    Resumed,
}

impl HistoryOutcome {
    /// Returns true if the command exited with status 0.
    #[must_use]
    pub const fn is_success(self) -> bool {
        matches!(self, Self::Exited(0))
    }

    /// Returns the outcome for the values of the columns `outcome` and `code`. Returns None if this version of dlock
    /// does not support the values.
    #[must_use]
    pub fn read(outcome: &str, code: Option<u8>) -> Option<Self> {
        Some(match (outcome, code) {
            ("exited", Some(status)) => Self::Exited(status),
            ("killed", Some(signal)) => Self::Killed(signal),
            ("lost", _) => Self::Lost,
            ("revoked", _) => Self::Revoked,
            ("forgotten", _) => Self::Forgotten,
            ("released", _) => Self::Released,
            ("paused", _) => Self::Paused,
            ("resumed", _) => Self::Resumed,
            _ => return None,
        })
    }

    /// Returns the value for the column `outcome`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns the exit status or the signal number. Returns None for other outcomes.
    #[must_use]
    pub const fn code(self) -> Option<u8> {
        match self {
            Self::Exited(code) | Self::Killed(code) => Some(code),
            _ => None,
        }
    }
}

/// A completed run, as its holder reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RunRecord {
    /// Outcome of the run.
    pub outcome: HistoryOutcome,
    /// Time from the start of dlock to the start of the run.
    pub waited: Duration,
    /// Time from the grant to the end of the run.
    pub duration: Duration,
    /// Number of sessions on the server that dlock killed: those of the command, and those that an earlier holder left.
    pub sessions_ended: u32,
    /// Number of processes that the command left and that were then killed.
    pub processes_killed: u32,
    /// Exit status of dlock if it is not the command's own: dlock chose it, for example because the command ran for too
    /// long, or dlock itself was killed. None otherwise.
    pub dlock_status: Option<u8>,
}

/// The entries that a request has read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// The entries, newest first.
    pub entries: Vec<HistoryEntry>,
    /// True if the server is read-only, so that newer entries may be missing.
    pub is_read_only: bool,
}

/// One entry of the history.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HistoryEntry {
    /// Name of the lock.
    pub action: Action,
    /// Key of `--once`, empty if `--once` had no key. None if the run did not use `--once`, or if a take-over or an
    /// operator request recorded the run.
    pub key: Option<String>,
    /// Token of the run.
    pub token: Token,
    /// Number of the slot of the lease. None if the lease was exclusive.
    pub slot: Option<u32>,
    /// Holder of the run, or the operator who made the request.
    pub holder: Holder,
    /// Time of the grant or of the operator request, by the server's clock, as RFC 3339.
    pub started_at: String,
    /// Time when the entry was recorded, by the server's clock, as RFC 3339.
    pub ended_at: String,
    /// Time that the holder waited before `started_at`. None if the holder did not record the run, or if an operator
    /// request did.
    pub waited: Option<Duration>,
    /// Time from `started_at` to `ended_at`.
    pub duration: Duration,
    /// Time since `ended_at`.
    pub ago: Duration,
    /// Outcome of the run, or kind of the operator request.
    pub outcome: HistoryOutcome,
    /// Number of sessions on the server that dlock killed.
    pub sessions_ended: u32,
    /// Number of processes that the command left and that were then killed.
    pub processes_killed: u32,
    /// Exit status of dlock if it was not the command's own: dlock chose it, or dlock was killed. None otherwise, and if a
    /// take-over or an operator request recorded the run.
    pub dlock_status: Option<u8>,
    /// Label of the operator who revoked the lease of the run. None if the lease was not revoked, or if the operator is
    /// not recorded.
    pub revoked_by: Option<String>,
}

/// The entries of the history that a request reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryFilter {
    /// Maximum number of entries. The request reads the most recent ones.
    pub limit: u32,
    /// True to read only runs that did not succeed, and no operator requests.
    pub failed: bool,
    /// Earliest end of an entry. None reads entries of any age.
    pub since: Option<HistorySince>,
}

/// The earliest end of a history entry, by the server's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistorySince {
    /// The given duration before the request.
    Ago(Duration),
    /// The given duration after 1970-01-01 UTC.
    At(Duration),
}

/// A recorded success that makes another run unnecessary.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Success {
    /// Token of the successful run.
    pub token: Token,
    /// Name of the holder of the successful run: `--holder`, by default `host/pid`.
    pub holder: String,
    /// Time when the success was recorded, by the server's clock, as RFC 3339.
    pub at: String,
    /// Time since `at`.
    pub ago: Duration,
}
