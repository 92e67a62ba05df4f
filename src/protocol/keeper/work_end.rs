//! The end of the work, as the caller reports it to the keeper. Pure.

use std::time::Duration;

use crate::store::ReleaseRequest;

/// The end of the work under a lease. Its processes are dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WorkEnd {
    /// The release after the run. The keeper adds what it knows: the queue lock, the queue entry and the sessions.
    pub release: ReleaseRequest,
    /// Time since the start of the work.
    pub took: Duration,
    /// How the keeper handles the sessions that the work has left on the server.
    pub sessions: LeftSessions,
    /// How long the release is tried.
    pub effort: ReleaseEffort,
}

/// The handling of the sessions that the work has left on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LeftSessions {
    /// They end before the release.
    End,
    /// They continue, because the work has succeeded.
    Keep,
    /// They continue, and one look reports those that execute a statement.
    Look,
}

/// How long a release is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReleaseEffort {
    /// For a short time, because the lease otherwise ends at its expiry.
    Brief {
        /// True if a hand-off may precede the release.
        may_hand_off: bool,
    },
    /// Until the deadline of the lease, which cannot be renewed any more.
    WithinLease,
    /// Until the deadline of the lease and at least for a short time, because other processes rely on the record of the run.
    Persistent,
}
