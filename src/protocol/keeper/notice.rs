//! The notices of a keeper. Its caller turns them into messages, metrics and hooks. No notice changes the lease.

use std::time::Duration;

use crate::lease::Grant;
use crate::lease::instant::BootInstant;
use crate::protocol::acquire::NotGranted;
use crate::protocol::release::Released;
use crate::protocol::sessions::TrackingProblem;
use crate::store::session::ListedSession;
use crate::store::{Failure, LockRecord, Loss};

/// A change in the life of a lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Notice {
    /// The contender continues to wait after a response. Contains the failure if the request has failed.
    Waiting(Option<Failure>),
    /// The queue lock does not work, so the contender polls.
    NoQueueLock,
    /// Something between dlock and the server ends connections that are silent for this time. Reported once for each
    /// limit.
    Silence(Duration),
    /// The lease is acquired. The sessions of an earlier run may have to end before the work may start.
    Granted(Grant),
    /// The wait for the lease has ended without a grant.
    NotGranted(NotGranted),
    /// A look for the sessions that a command has left has ended. The [wait](super::Keeper::session_wait) shows its
    /// result.
    SessionsLeft,
    /// The sessions that a command has left have ended. Contains the number of those that dlock has killed.
    SessionsEnded(SessionOwner, u32),
    /// The sessions that a command has left have not ended.
    SessionsNotEnded {
        /// Whose sessions they are.
        owner: SessionOwner,
        /// Why the keeper does not wait any more.
        why: SessionsNotEnded,
        /// One of the sessions. None if none is known.
        left: Option<Box<ListedSession>>,
    },
    /// The sessions that still execute statements of a successful command.
    Executing(Vec<ListedSession>),
    /// The work may start under the lease.
    Ready,
    /// A renewal has succeeded, so the deadline has moved.
    Renewed {
        /// Time from the request to its response.
        took: Duration,
        /// Start of the failures that this renewal ends. None if there were none.
        failing_since: Option<BootInstant>,
        /// Why sessions of the command cannot be noted in the record. Each reason is reported once.
        problem: Option<TrackingProblem>,
    },
    /// A renewal has failed, or its outcome is unknown. It is tried again.
    RenewalFailed {
        /// The failure.
        failure: Failure,
        /// False if the renewal before it has failed as well.
        is_first: bool,
    },
    /// The database has lost the grant. The next renewal writes it again.
    GrantLost {
        /// False if this renewal has already tried to write it again.
        is_first: bool,
    },
    /// The server has closed the connection. A renewal follows soon.
    Disconnected,
    /// The address leads to another server or to older data. A holder renews its lease there, and a contender tries there.
    Moved {
        /// True if the record there shows that an operator has revoked the lease.
        is_revoked: bool,
    },
    /// The lease is lost. The work has to stop.
    Lost(Loss, Box<LockRecord>),
    /// The release has ended with this result.
    Released(Released),
    /// The lease is not released within the time limit. Contains the latest failure.
    NotReleased(Option<Failure>),
}

/// Whose sessions have to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SessionOwner {
    /// The work of this process, which has ended.
    OwnWork,
    /// The command of an earlier holder. The own work has not started.
    EarlierRun,
}

/// Why a keeper does not wait any more until sessions have ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SessionsNotEnded {
    /// The time limit has passed.
    TimedOut,
    /// The lease has expired, because the server does not respond.
    Unreachable,
    /// The caller has given up.
    GivenUp,
    /// The lease is lost. Contains the present record.
    Lost(Box<LockRecord>),
}
