//! What the lock needs from a database, as questions and answers; no SQL and no driver here.
//!
//! The protocol is written against these types, the SQL behind them is `store::mysql`. An answer
//! says what was *read back* from the row, never what a count of affected rows suggests.

pub mod diagnosis;
pub mod finding;
pub mod intervention;
pub mod mysql;
pub mod read_back;
pub mod record;
pub mod sighting;
pub mod takeover;
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
    Closed, Keeper, LastRun, Operator, Owner, Remainder, Sighting, State, Survey, View, Waiter,
};

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
    /// Take the lease if the condition of the attempt holds.
    Attempt(Wish),
    /// Look at the row and the line.
    Inspect(Place),
    /// Look at the row, which may not exist yet.
    Look,
    /// Take a place in the line, or show that we still want it; then look.
    Queue(Place),
    /// Take a place in the line, wait at the gate, then attempt. The answer takes as long as the line
    /// does.
    Stand(Turn),
    /// Extend the lease, and write this session into the row.
    Renew(Grant, Gate),
    /// Tell the next contender that the command is dead, before the release is committed. Only on the
    /// connection that the row names: on a new one this fails without being sent.
    HandOff(Grant),
    /// Give up what is ours: the lease, the gate, the place in the line.
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
    /// Whose; with a gate always.
    pub claim: Claim,
    /// Maximum time to wait for the gate. None waits for ever.
    pub patience: Option<Duration>,
    /// Whether to clear away places in the line whose sessions are gone before.
    pub tidy: bool,
}

/// What is given up on leaving.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Parting {
    /// Owner of what is given up.
    pub claim: Claim,
    /// Token of the lease. None gives up whatever the row says of the claim, also a lease that an
    /// operator has ended: for a process without a command.
    pub token: Option<Token>,
    /// The gate.
    pub gate: Gate,
    /// Whether there may be a place in the line to give up.
    pub queued: bool,
    /// How long the lease stays nevertheless, for nobody's use. None frees it at once.
    pub keep: Option<Duration>,
    /// The run, if there was one: it is recorded with the release or not at all.
    pub run: Option<Run>,
    /// Whether a [hand-off](Question::HandOff) may have gone before, so that the next holder may
    /// have the row by now.
    pub handed_off: bool,
}

/// What an attempt asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Wish {
    /// Proof of ownership, the same in every attempt of one process.
    pub claim: Claim,
    /// The condition.
    pub mode: Mode,
    /// With a gate, only the session that has it is granted anything.
    pub gate: Gate,
}

impl Wish {
    /// Whether the row is taken as it was seen.
    #[must_use]
    pub const fn is_take_over(&self) -> bool {
        matches!(self.mode, Mode::TakeOver { .. })
    }
}

/// The condition of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The row is free. The first attempt of a process: with `--once` a look goes before it, so that a
    /// process with nothing to do writes nothing.
    First,
    /// The row is free.
    IfFree,
    /// The row still stands as it was seen: the [take-over rule](takeover) allows it.
    TakeOver {
        /// As it was seen.
        version: Version,
        /// Whether each grant of the action has to raise the fence.
        fenced: bool,
    },
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
    /// This attempt has changed the row, and the row is ours.
    Granted(Token),
    /// The row is ours, and this attempt has not changed it: an earlier one was carried out, and nobody
    /// knows when.
    AlreadyOurs(Token),
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
    /// The renewal has changed the row, and the row is ours.
    Renewed,
    /// The row is not ours any more.
    Lost(Sighting),
    /// The next contender may go on.
    HandedOff,
    /// The row was ours and is free now, or kept from others for a while, and what was to be recorded
    /// is.
    Released,
    /// The row was ours and is free now, but the history could not be written.
    ReleasedOnly(Failure),
    /// The lease was not ours any more, for this reason if the server knows it: no success was recorded.
    NotOurs(Option<Loss>),
}

/// How a lease ended that its holder did not give up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Loss {
    /// Another contender has taken it over, or somebody has changed the row by hand.
    TakenOver,
    /// An operator has ended it.
    Revoked,
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
    /// Whether a request that can grant the lease was sent. With a failure, whatever its kind, nobody
    /// knows then whether the lease was granted: an error proves nothing of what was committed before it.
    pub could_grant: bool,
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
    /// There is no connection, or the server takes no writes. Worth another try.
    Unreachable,
    /// The server is there and has no connection left for us. Worth another try.
    Full,
    /// The server reports a conflict with another session. Worth an early retry.
    Conflict,
    /// The question was sent and no usable reply came.
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
}

impl FailureKind {
    /// The status of a command that ends because of it.
    #[must_use]
    pub const fn status(self) -> Status {
        match self {
            Self::Unreachable | Self::Full | Self::Conflict | Self::Unknown | Self::NoGate => {
                Status::UNAVAILABLE
            }
            Self::NotAdmitted | Self::Denied => Status::DENIED,
            Self::Config | Self::NoTables => Status::CONFIG,
        }
    }
}

impl Failure {
    /// A failure of this kind, with one line for people.
    #[must_use]
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    /// An `answer` to another question than the one that was asked.
    #[must_use]
    pub fn unexpected(answer: &Answer) -> Self {
        Self {
            kind: FailureKind::Unknown,
            message: format!("unexpected answer: {answer:?}"),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
