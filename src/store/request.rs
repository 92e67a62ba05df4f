//! The requests of the protocol.

use std::time::Duration;

use super::history::RunRecord;
use super::record::Version;
use crate::lease::{Grant, OwnerId, Token};

/// One request about one action.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Request {
    /// Acquires the lease if the condition of the attempt holds.
    TryAcquire(AcquireRequest),
    /// Reads the record and the state of the queue.
    GetWithQueue(QueueEntry),
    /// Reads the record, which may not exist yet.
    Get,
    /// Enters the queue or refreshes the queue entry, then reads the record and the state of the queue.
    Enqueue(QueueEntry),
    /// Enters the queue, waits for the queue lock, then attempts to acquire the lease. The response arrives when the
    /// wait is over.
    WaitTurn(WaitRequest),
    /// Extends the lease, and writes this session into the record.
    Renew(Grant, QueueLock),
    /// Signals to the next contender that the command is dead, before the release is committed. It is sent only on an
    /// open connection, which the record names. Without one it fails without being sent.
    HandOff(Grant),
    /// Releases the lease and the queue lock, and removes the queue entry.
    Release(ReleaseRequest),
}

/// Availability of the queue lock: the named lock that the holder keeps and waiters queue on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QueueLock {
    /// Requests use the queue lock.
    Available,
    /// The server refuses named locks, or they do not work as they should.
    Unavailable,
}

/// Queue entry of one contender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct QueueEntry {
    /// Owner id of the contender.
    pub owner_id: OwnerId,
    /// With a queue lock the contender waits for it. Without one it polls.
    pub queue_lock: QueueLock,
}

/// A wait for the queue lock, and the attempt that follows as soon as this session owns it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WaitRequest {
    /// Owner id of the waiter.
    pub owner_id: OwnerId,
    /// Maximum time to wait for the queue lock. None waits forever.
    pub limit: Option<Duration>,
    /// True removes queue entries of dead sessions before the wait.
    pub prune_dead: bool,
}

/// A release of everything that a contender has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReleaseRequest {
    /// Owner id of the contender.
    pub owner_id: OwnerId,
    /// Token of the lease. None releases any lease under the owner id, even one that an operator has revoked. It is for
    /// a process without a command.
    pub token: Option<Token>,
    /// The queue lock is released if it is available.
    pub queue_lock: QueueLock,
    /// True if there may be a queue entry to remove.
    pub has_entry: bool,
    /// Time (`--min-hold`) for which the lease stays held although the run is over. None frees it at once.
    pub keep: Option<Duration>,
    /// The run that is over. It is recorded in the same transaction as the release. None if no command ran.
    pub run: Option<RunRecord>,
    /// True if a [hand-off](Request::HandOff) may have preceded this release, so that the next holder may already have
    /// the record.
    pub handed_off: bool,
}

/// An attempt to acquire the lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AcquireRequest {
    /// Proof of ownership. It is the same in every attempt of one process.
    pub owner_id: OwnerId,
    /// Condition of the grant.
    pub mode: AcquireMode,
    /// With a queue lock, only the session that owns it is granted the lease.
    pub queue_lock: QueueLock,
}

impl AcquireRequest {
    /// Returns true if the attempt takes over a lease.
    #[must_use]
    pub const fn is_take_over(&self) -> bool {
        matches!(self.mode, AcquireMode::TakeOver { .. })
    }
}

/// Condition of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AcquireMode {
    /// The action is free. This is the first attempt of a process. With `--once` it reads the record first, so that a
    /// process with nothing to do writes nothing.
    First,
    /// The action is free.
    IfFree,
    /// The record still has the observed version. The [take-over rule](crate::store::takeover) allows the take-over.
    TakeOver {
        /// Observed version.
        version: Version,
        /// True if each grant of the action has to advance the fence.
        fenced: bool,
    },
}
