//! What the lock needs from a database, as questions and answers; no SQL and no driver here.
//!
//! The protocol is written against these types, the SQL behind them is `store::mysql`. An answer
//! says what was *read back* from the row, never what a count of affected rows suggests.

pub mod diagnosis;
pub mod finding;
pub mod intervention;
pub mod mysql;
pub mod record;
pub mod sighting;
pub mod target;

use std::fmt;
use std::time::Duration;

use crate::exit::Status;
use crate::lease::action::Action;
use crate::lease::instant::BootInstant;
use crate::lease::once::Once;
use crate::lease::{Claim, Grant, Token};

pub use self::record::{Entry, Fate, Run, Success};
pub use self::sighting::{
    Closed, Keeper, LastRun, Operator, Remainder, Session, Sighting, State, Survey, View, Waiter,
};

/// How long past its end, by the server's clock, a lease is left alone where nothing but that
/// clock says that it ended. Stands in for proof that the holder's session is gone.
pub const ALLOWANCE: Duration = Duration::from_secs(5);

/// The same where the contender has the gate that the holder's session had: that session is gone.
/// A little less than the second that users are told, which includes the time to act.
pub const GATE_ALLOWANCE: Duration = Duration::from_millis(900);

/// How long a waiter that polls counts as there after it was last seen.
pub const POLLER_LIFE: Duration = Duration::from_secs(30);

/// Who a holder says it is: a label for people, never a condition.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Holder {
    /// `--holder`, by default `host/pid`.
    pub label: String,
    /// Host name; in Kubernetes the pod's name.
    pub host: String,
    /// Process id of dlock on that host.
    pub pid: u32,
    /// Operating-system user.
    pub user: String,
    /// `--note`, empty if none.
    pub note: String,
    /// Name of the Kubernetes pod, empty if the environment tells none.
    pub pod: String,
    /// Its namespace.
    pub namespace: String,
    /// Name of the command, without its arguments: these may hold secrets.
    pub command: String,
}

/// One question about one action.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Question {
    /// Take the lease if the take-over rule allows it.
    Attempt(Wish),
    /// Look at the row and the line.
    Inspect(Place),
    /// Look at the row, which nobody need have made yet.
    Look,
    /// Take a place in the line, or show that we still want it; then look.
    Queue(Place),
    /// Take a place in the line, wait at the gate, then attempt. The answer takes as long as the line
    /// does.
    Stand(Turn),
    /// Extend the lease.
    Renew(Grant, Gate),
    /// Give up whatever is ours: the lease, the gate, the place in the line.
    Release(Parting),
}

/// Whether a question may use the gate: the named lock that the holder has and waiters queue on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Gate {
    /// There is one.
    Used,
    /// The server refuses named locks, or they do not do what they should.
    Absent,
}

/// One contender's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// Whose.
    pub claim: Claim,
    /// How it waits.
    pub gate: Gate,
}

/// A wait at the gate, and the attempt that follows at once when it is ours.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Turn {
    /// What to ask for then.
    pub wish: Wish,
    /// How long to wait for the gate; none: as long as it takes.
    pub patience: Option<Duration>,
    /// Whether to clear away places in the line whose sessions are gone before.
    pub tidy: bool,
}

/// What is given up on leaving.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Parting {
    /// The lease of this claim, if it has one.
    pub claim: Claim,
    /// Its token; unknown when the answer to the attempt never came.
    pub token: Option<Token>,
    /// The gate.
    pub gate: Gate,
    /// Whether there is a place in the line to give up.
    pub queued: bool,
    /// How long the lease stays nevertheless, for nobody's use; none: not at all.
    pub keep: Option<Duration>,
    /// The run, if there was one: it is recorded with the release or not at all.
    pub run: Option<Run>,
}

/// What an attempt asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Wish {
    /// Proof of ownership, the same in every attempt of one process.
    pub claim: Claim,
    /// Take the row over if it still stands like this: the caller watched it for a full ttl.
    pub seen: Option<Version>,
    /// With a gate, only who has it is granted anything.
    pub gate: Gate,
    /// Whether we have a place in the line, which is given up after the grant.
    pub queued: bool,
}

/// A state of a held row: changes with every grant and every renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version {
    /// Token of the grant.
    pub token: Token,
    /// Renewals since that grant.
    pub renewals: u64,
}

/// The server's own clock when it answered: microseconds since 1970, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerTime(pub u64);

/// What the server answered to a [`Question`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The row is ours.
    Granted(Token),
    /// The row as it stands, not ours, and the line.
    Seen(Sighting, View),
    /// The row as it stands.
    Looked(Sighting),
    /// We have a place in the line; the row and the line as they stand.
    Queued(Sighting, View),
    /// There is a success that makes a run needless; nothing was taken, nothing is ours.
    Done(Success),
    /// The wait at the gate ended without it.
    TurnedAway,
    /// The renewal stands in the row.
    Renewed,
    /// The row is not ours any more.
    Lost(Sighting),
    /// The row was ours and is free now, or kept from others for a while, and what was to be recorded
    /// is.
    Released,
    /// The row was ours and is free now, but the history could not be written.
    ReleasedOnly(Failure),
    /// There was nothing of ours to release, and nothing was recorded.
    NotOurs,
}

/// What stays the same in all questions of one process.
#[derive(Debug, Clone)]
pub struct Contender {
    /// The lock.
    pub action: Action,
    /// Label and facts for `status`.
    pub holder: Holder,
    /// Length of the lease.
    pub ttl: Duration,
    /// Which success makes a run needless, if any does.
    pub once: Option<Once>,
    /// How many runs of the action stay in the history; with 0 none is recorded.
    pub history: u32,
    /// Whether the command locks a fence.
    pub fence: Fence,
}

/// What a grant does with the action's fence: the row that a command's own transaction locks, so that
/// nobody else is granted the action before it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fence {
    /// Raises it, after making it if need be.
    Raised,
    /// Nothing, unless another has made one.
    AsItIs,
}

/// An answer or a failure, and when the question was sent.
#[derive(Debug, Clone)]
pub struct Reply {
    /// Read before the first byte of the question was written: deadlines count from here.
    pub sent: BootInstant,
    /// Read after the last byte of the reply.
    pub received: BootInstant,
    /// The server's clock in between, when it told.
    pub server_time: Option<ServerTime>,
    /// What came of it.
    pub outcome: Result<Answer, Failure>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Failure {
    /// What it means for the protocol.
    pub kind: FailureKind,
    /// One line for people; may hold text of the server, so it is escaped where it is printed.
    pub message: String,
}

/// What a failure means for the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// The question was not sent: no connection. Worth another try.
    Unreachable,
    /// The server is there and has no connection left for us. Worth another try.
    Full,
    /// The server undid the question because of a conflict with another. Worth an early retry.
    Conflict,
    /// The question was sent and no usable reply came: it may have been carried out.
    Unknown,
    /// The server did not let the account in. A retry would not help, unless it was let in before:
    /// then the server is starting, or its grants are being changed.
    NotAdmitted,
    /// The account may not do this; a retry would not help.
    Denied,
    /// Something is set up wrongly; a retry would not help.
    Config,
    /// The tables are not there.
    NoTables,
    /// Named locks are refused: the same question without the gate may be answered.
    NoGate,
    /// The server prepares no more statements; from now on none is asked for. Worth an early retry.
    Unprepared,
}

impl FailureKind {
    /// The status of a command that ends because of it.
    #[must_use]
    pub const fn status(self) -> Status {
        match self {
            Self::Unreachable
            | Self::Full
            | Self::Conflict
            | Self::Unknown
            | Self::NoGate
            | Self::Unprepared => Status::UNAVAILABLE,
            Self::NotAdmitted | Self::Denied => Status::DENIED,
            Self::Config | Self::NoTables => Status::CONFIG,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
