//! The requests of the protocol.

use std::time::Duration;

use super::history::RunRecord;
use super::record::{DatabaseId, Version};
use super::session::{SessionLook, SessionNote};
use crate::lease::limit::Limit;
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
    /// Reads the next note of sessions that must end before the work under a lease starts. The note in the own row is the
    /// last one. Responds with the record if another contender has the lease.
    GetNote(NoteRequest),
    /// Removes the note of sessions that have ended, if the action still has it in the place. Responds with
    /// [`Response::NoteRemoved`](crate::store::Response::NoteRemoved) in any case.
    RemoveNote(Box<Noted>),
    /// Enters the queue or refreshes the queue entry, then reads the record and the state of the queue.
    Enqueue(QueueEntry),
    /// Enters the queue, waits for the queue lock, then attempts to acquire the lease. The response arrives after the
    /// wait.
    WaitTurn(WaitRequest),
    /// Extends the lease, and writes this session into the record.
    Renew(RenewRequest),
    /// Looks for the sessions that a command has left on the server, and kills them if the request says so. Changes no
    /// row.
    EndSessions(Box<EndSessionsRequest>),
    /// Signals to the next contender that the command is dead, before the release is committed. The hand-off needs an
    /// open connection, because contenders accept it only from the session in the record. If there is no open
    /// connection, nothing is sent, and the response is [`Response::NotHolder`](crate::store::Response::NotHolder).
    HandOff(Grant),
    /// Releases the lease and the queue lock, and removes the queue entry, if there is one.
    Release(ReleaseRequest),
}

/// Availability of the queue lock, which is the named lock that the holder keeps and that waiters wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QueueLock {
    /// Requests use the queue lock.
    Available,
    /// The server refuses named locks, or its named locks do not work correctly.
    Unavailable,
}

/// A renewal of a lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RenewRequest {
    /// Owner id and token of the lease.
    pub grant: Grant,
    /// Availability of the queue lock. If it is available, the renewal acquires it again if necessary.
    pub queue_lock: QueueLock,
    /// The sessions of the command to find and to note in the record. None leaves the note in the record unchanged.
    pub look: Option<Box<SessionLook>>,
    /// Writes the grant to a record that has lost it. None renews the lease.
    pub reassertion: Option<Reassertion>,
}

/// The grant that its holder writes to the record again, because the database has lost it. The request changes the
/// record only under the condition of [`can_reassert`](crate::store::lost_grant::can_reassert).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reassertion {
    /// Number of renewals in the record afterwards. It is larger than the number in each earlier record of the grant,
    /// so that a contender does not mistake the record for one that it has read before.
    pub renewals: u64,
    /// True if the request also advances the fence to the token of the grant.
    pub fenced: bool,
}

impl RenewRequest {
    /// Returns a renewal that leaves the noted sessions unchanged.
    #[must_use]
    pub const fn new(grant: Grant, queue_lock: QueueLock) -> Self {
        Self {
            grant,
            queue_lock,
            look: None,
            reassertion: None,
        }
    }
}

/// A read of noted sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NoteRequest {
    /// Owner id of the lease.
    pub owner_id: OwnerId,
    /// True if the notes in other rows of the action count, which nobody holds. A record with an exclusive lease shows
    /// whether there may be one.
    pub of_others: bool,
}

/// A note of sessions, and its place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Noted {
    /// Where the note is.
    pub place: NotePlace,
    /// The note.
    pub note: SessionNote,
    /// The text of the note as the row contains it. A newer dlock may have written more than this one reads.
    pub text: String,
}

/// The row that contains a note of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NotePlace {
    /// The row of the own lease. Renewals replace the note.
    Own,
    /// The record, while leases are in slots.
    Record,
    /// The slot with this number, which nobody holds.
    Slot(u32),
}

/// One step of ending the sessions that a command has left on the server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EndSessionsRequest {
    /// The sessions to look for.
    pub look: SessionLook,
    /// True if the request uses a connection to the server of the noted sessions, over another host of the configuration.
    /// The connection of the lease leads to a different server.
    pub on_other_host: bool,
    /// True if the sessions are killed.
    pub kill: bool,
    /// Ids of the sessions that are not killed, because an earlier step has killed them, or because dlock's account may
    /// not kill them.
    pub skip: Vec<u64>,
}

/// Queue entry of one contender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct QueueEntry {
    /// Owner id of the contender.
    pub owner_id: OwnerId,
    /// If the queue lock is available, the contender waits for it. Otherwise the contender polls.
    pub queue_lock: QueueLock,
}

/// A wait on the server, followed by an attempt: for the queue lock or, if this session owns it, for room among the leases
/// in slots.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WaitRequest {
    /// Owner id of the waiter.
    pub owner_id: OwnerId,
    /// Maximum time to wait. None waits forever.
    pub limit: Option<Duration>,
    /// What the head of the queue waits for. None waits for the queue lock.
    pub room: Option<RoomWait>,
    /// True if the queue entries of dead waiters are removed after the wait.
    pub prune_dead: bool,
    /// True if this waiter, once it has the queue lock, releases it for an earlier waiter that waits again, and then waits
    /// again. Otherwise the
    /// attempt fails if the queue contains the entry of such a waiter ([`QueueState::is_behind_mark`](super::QueueState)).
    pub lets_pass: bool,
    /// Position of the latest waiter that this waiter has let pass. Zero if there is none. Only waiters with later
    /// positions count.
    pub let_pass: u64,
    /// True if an attempt follows the wait. Otherwise, the response contains the record and the queue.
    pub may_acquire: bool,
    /// What the waiter has read, as in [`AcquireRequest`].
    pub last_read: Option<LastRead>,
}

/// A wait of the head of the queue for room among the leases in slots. It ends when holder locks are released, after a
/// release or at the end of a session, but shows nothing: the attempt that follows counts the slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RoomWait {
    /// The only holder, whose holder lock is waited for. None if there are several.
    pub holder: Option<OwnerId>,
    /// Number of leases in slots.
    pub holders: u32,
    /// Number of leases whose holders have no holder lock on this server. They count as held during the wait.
    pub without_lock: u32,
    /// The smallest limit of the contender and of these leases.
    pub limit: Limit,
    /// Time since the latest grant of a lease in a slot. A holder that has worked for long normally continues for long.
    pub held_for: Duration,
    /// Maximum time to wait, after which the contender reads the leases again.
    pub longest: Duration,
    /// True if the attempt advances the fence.
    pub fenced: bool,
}

/// A release of the lease, the queue lock and the queue entry of a contender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReleaseRequest {
    /// Owner id of the contender.
    pub owner_id: OwnerId,
    /// Token of the lease. None releases any lease of the owner id, even a revoked lease. A process that has not
    /// started a command uses None.
    pub token: Option<Token>,
    /// Availability of the queue lock. The queue lock is released if it is available.
    pub queue_lock: QueueLock,
    /// True if the contender may have a queue entry to remove.
    pub has_entry: bool,
    /// How long the lease stays held after the release (`--min-hold`). None frees the lease immediately.
    pub keep: Option<Duration>,
    /// The completed run, which is recorded in the same transaction as the release. None if no command ran.
    pub run: Option<RunRecord>,
    /// Whether the run is recorded in the history.
    pub history: RunHistory,
    /// True if no session of the command is left on the server, so that the next holder need not look for sessions.
    pub clears_sessions: bool,
    /// True if a [hand-off](Request::HandOff) may have preceded this release. In that case the record may already
    /// contain the next holder.
    pub handed_off: bool,
}

/// Whether a release records its run in the history. A success of `--once` is recorded in any case, because other
/// contenders rely on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunHistory {
    /// The run is recorded if the contender keeps a history.
    Written,
    /// The run is not recorded, because the history cannot be written.
    Skipped,
}

impl ReleaseRequest {
    /// Returns the release by a process that has started no command under the lease with `token`. It removes the queue
    /// entry too.
    #[must_use]
    pub const fn without_run(
        owner_id: OwnerId,
        token: Option<Token>,
        queue_lock: QueueLock,
    ) -> Self {
        Self {
            owner_id,
            token,
            queue_lock,
            has_entry: true,
            keep: None,
            run: None,
            history: RunHistory::Written,
            clears_sessions: false,
            handed_off: false,
        }
    }
}

/// An attempt to acquire the lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AcquireRequest {
    /// Owner id of the contender. It is the same in every attempt of one process.
    pub owner_id: OwnerId,
    /// Condition under which the attempt is granted the lease.
    pub mode: AcquireMode,
    /// If the queue lock is available, the attempt is granted the lease only if this session owns the queue lock.
    pub queue_lock: QueueLock,
    /// What the contender has read. The attempt is granted the lease only if the server still belongs to that database,
    /// and if the record is not older. None if the contender has read nothing.
    pub last_read: Option<LastRead>,
    /// True if the attempt is not granted the lease while a live waiter came first that the queue lock does not order
    /// (`QueueState::is_behind_other`). False for a take-over and for an attempt without the queue lock.
    pub in_order: bool,
    /// True to remove the queue entries of dead waiters after the grant. Other contenders may wait for an attempt that
    /// follows a wait, so such an attempt does not do this.
    pub prune_dead: bool,
}

/// What a contender has read most recently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LastRead {
    /// The database. None if it is unknown.
    pub database: Option<DatabaseId>,
    /// The version of the record.
    pub version: Version,
    /// The highest token that the contender knows. The token of its grant is higher.
    pub highest_token: Token,
}

impl AcquireRequest {
    /// Returns true if the attempt takes over a lease.
    #[must_use]
    pub const fn is_take_over(&self) -> bool {
        matches!(self.mode, AcquireMode::TakeOver { .. })
    }
}

/// Condition under which an attempt is granted the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AcquireMode {
    /// The action must be free. This is the first attempt of a process. With `--once`, the attempt first checks whether
    /// a run is necessary, so that a process that does not have to run its command writes nothing.
    First,
    /// The action must be free.
    IfFree,
    /// The record must still have the observed version. The contender sends this attempt only if the [take-over
    /// rule](crate::store::takeover) allows the take-over.
    TakeOver {
        /// Version that the contender observed.
        version: Version,
        /// True if each grant of the action has to advance the fence.
        fenced: bool,
    },
    /// The record must be [shared](super::LockRecord::is_shared), and the limits must allow one more lease. The attempt
    /// first frees the slot of a dead holder, under the same condition as a take-over.
    AmongSlots {
        /// The slot to free, and the version of its lease that the contender observed. None if no slot has to be freed.
        dead: Option<(u32, Version)>,
        /// True if each grant of the action has to advance the fence.
        fenced: bool,
    },
}
