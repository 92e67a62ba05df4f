//! Requests that the lock sends to a database and the responses to them. No SQL and no driver here.
//!
//! The protocol is written against these types; `store::mysql` has the SQL. A response contains what was *read back*
//! from the record. It is never derived from a count of affected rows alone.

pub mod check;
pub mod diagnosis;
pub mod history;
pub mod mysql;
pub mod operator;
pub mod read_back;
pub mod record;
pub mod takeover;
pub mod target;

use std::fmt;
use std::time::Duration;

use crate::exit::Status;
use crate::lease::action::Action;
use crate::lease::instant::BootInstant;
use crate::lease::once::Once;
use crate::lease::{Grant, OwnerId, Token};

pub use self::history::{HistoryEntry, HistoryOutcome, RunRecord, Success};
pub use self::record::{
    Expiry, LastRun, LockRecord, LockState, Operator, Owner, Pause, QueueLockOwner, QueueState,
    Snapshot, Waiter,
};

/// Time after its last poll for which a polling waiter counts as alive.
pub const POLLER_TIMEOUT: Duration = Duration::from_secs(30);

/// Identity that a holder reports. It is shown to users and is never part of a condition.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Holder {
    /// `--holder`; by default `host/pid`.
    pub label: String,
    /// Host name. In Kubernetes this is the name of the pod.
    pub host: String,
    /// Process id of dlock on `host`.
    pub pid: u32,
    /// Operating-system user.
    pub user: String,
    /// `--note`. Empty if not given.
    pub note: String,
    /// Name of the Kubernetes pod. Empty if the environment does not contain it.
    pub pod: String,
    /// Namespace of the pod. Empty if the environment does not contain it.
    pub namespace: String,
    /// Name of the command without its arguments, which may contain secrets.
    pub command: String,
}

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
    /// The record still has the observed version. The [take-over rule](takeover) allows the take-over.
    TakeOver {
        /// Observed version.
        version: Version,
        /// True if each grant of the action has to advance the fence.
        fenced: bool,
    },
}

/// Version of a held record. It changes with every grant and every renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version {
    /// Token of the grant.
    pub token: Token,
    /// Number of renewals since that grant.
    pub renewals: u64,
}

/// Server time of a response: microseconds since 1970-01-01 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerTime(pub u64);

/// Response to a [`Request`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// This attempt changed the record, and this process holds the lease.
    Granted(Token),
    /// This process holds the lease, but this attempt did not change the record. An earlier attempt did, at an unknown
    /// time.
    AlreadyHeld(Token),
    /// This process does not hold the lease. Contains the current record and the state of the queue.
    NotAcquired(LockRecord, QueueState),
    /// The current record.
    Record(LockRecord),
    /// This process has a queue entry. Contains the current record and the state of the queue.
    Enqueued(LockRecord, QueueState),
    /// A recorded success makes a run unnecessary. Nothing was acquired, and this process holds nothing.
    AlreadyDone(Success),
    /// The wait ended without the queue lock.
    WaitEnded,
    /// The renewal changed the record, and this process holds the lease.
    Renewed,
    /// This process does not hold the lease any more.
    Lost(LockRecord),
    /// The next contender may proceed.
    HandedOff,
    /// This process held the lease. It is free now or held for `--min-hold`, and everything that had to be recorded is
    /// recorded.
    Released,
    /// This process held the lease, and it is free now, but the history could not be written.
    ReleasedUnrecorded(Failure),
    /// This process did not hold the lease any more. No success was recorded. None if the reason is unknown.
    NotHolder(Option<Loss>),
}

/// Reason why a lease ended without a release by its holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Loss {
    /// Another contender took it over, or an operator changed the record with SQL.
    TakenOver,
    /// An operator revoked it.
    Revoked,
}

/// Data that is the same in all requests of one process.
#[derive(Debug, Clone)]
pub struct Contender {
    /// The lock.
    pub action: Action,
    /// Holder as `status` shows it.
    pub holder: Holder,
    /// Length of the lease.
    pub ttl: Duration,
    /// Which recorded success makes a run unnecessary. None runs the command in any case.
    pub once: Option<Once>,
    /// Number of runs of the action that stay in the history. With 0, runs are not recorded.
    pub history: u32,
    /// Use of the fence by the command.
    pub fence: FenceMode,
}

/// Effect of a grant on the fence of the action: the row that a command's own transaction locks, so that
/// no other contender is granted the action before the transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FenceMode {
    /// Creates the fence if it does not exist, and advances it.
    Advance,
    /// Leaves the fence as it is, unless another contender has created one.
    Unchanged,
}

/// A response or a failure, and the time when the request was sent.
#[derive(Debug, Clone)]
pub struct TimedResponse {
    /// Time before the first byte of the request was written. Deadlines count from here.
    pub sent: BootInstant,
    /// Time after the last byte of the response was read.
    pub received: BootInstant,
    /// Server time between `sent` and `received`. None if the response does not contain it.
    pub server_time: Option<ServerTime>,
    /// True if a request that can grant the lease was sent. After a failure of any kind it is then unknown if the lease
    /// was granted: an error does not prove that nothing was committed before it.
    pub could_grant: bool,
    /// The response or the failure.
    pub outcome: Result<Response, Failure>,
}

/// Reason why there is no response.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Failure {
    /// Meaning for the protocol.
    pub kind: FailureKind,
    /// One line for users. It may contain text of the server and is escaped where it is printed.
    pub message: String,
}

/// Meaning of a failure for the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// There is no connection, or the server does not accept writes. A retry may help.
    Unreachable,
    /// The server is up, but has no connection left for this account. A retry may help.
    TooManyConnections,
    /// The server reports a conflict with another session. An early retry may help.
    Conflict,
    /// The request was sent, and no usable response arrived.
    Unknown,
    /// The server refused the login. A retry does not help, unless an earlier login succeeded: then the server is
    /// starting, or its grants are being changed.
    LoginRefused,
    /// The account lacks a privilege. A retry does not help.
    Denied,
    /// The configuration of the server or the database is wrong. A retry does not help.
    Config,
    /// The tables do not exist.
    NoTables,
    /// The server refuses named locks. The same request without the queue lock may succeed.
    NoQueueLock,
}

impl FailureKind {
    /// Returns the exit status of a dlock that ends because of this failure.
    #[must_use]
    pub const fn status(self) -> Status {
        match self {
            Self::Unreachable
            | Self::TooManyConnections
            | Self::Conflict
            | Self::Unknown
            | Self::NoQueueLock => Status::UNAVAILABLE,
            Self::LoginRefused | Self::Denied => Status::DENIED,
            Self::Config | Self::NoTables => Status::CONFIG,
        }
    }
}

impl Failure {
    /// Returns a failure with one line for users.
    #[must_use]
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    /// Returns the failure for a `response` that does not belong to the request.
    #[must_use]
    pub fn unexpected(response: &Response) -> Self {
        Self {
            kind: FailureKind::Unknown,
            message: format!("unexpected answer: {response:?}"),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
