//! What the lock needs from a database, as questions and answers; no SQL and no driver here.
//!
//! The protocol is written against these types, the SQL behind them is `store::mysql`. An answer
//! says what was *read back* from the row, never what a count of affected rows suggests.

pub mod finding;
pub mod mysql;
pub mod target;

use std::fmt;
use std::time::Duration;

use crate::exit::Status;
use crate::lease::action::Action;
use crate::lease::instant::BootInstant;
use crate::lease::{Claim, Grant, Token};

/// How long past its end, by the server's clock, a lease is left alone where nothing but that
/// clock says that it ended. Stands in for proof that the holder's session is gone.
pub const ALLOWANCE: Duration = Duration::from_secs(5);

/// The same where the contender has the gate that the holder's session had: that session is gone.
/// A little less than the second that users are told, which includes the time to act.
pub const GATE_ALLOWANCE: Duration = Duration::from_millis(900);

/// How long a waiter that polls counts as there after it was last seen.
pub const POLLER_LIFE: Duration = Duration::from_secs(30);

/// Who a holder says it is: a label for people, never a condition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
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
}

/// One question about one action.
#[derive(Debug, Clone)]
pub enum Question {
    /// Take the lease if the take-over rule allows it.
    Attempt(Wish),
    /// Look at the row and the line.
    Inspect(Place),
    /// Take a place in the line, or show that we still want it; then look.
    Queue(Place),
    /// Wait at the gate, then attempt. The answer takes as long as the line does.
    Stand(Turn),
    /// Extend the lease.
    Renew(Grant, Gate),
    /// Give up whatever is ours: the lease, the gate, the place in the line.
    Release(Parting),
}

/// Whether a question may use the gate: the named lock that the holder has and waiters queue on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// There is one.
    Used,
    /// The server refuses named locks, or they do not do what they should.
    Absent,
}

/// One contender's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Whose.
    pub claim: Claim,
    /// How it waits.
    pub gate: Gate,
}

/// A wait at the gate, and the attempt that follows at once when it is ours.
#[derive(Debug, Clone)]
pub struct Turn {
    /// What to ask for then.
    pub wish: Wish,
    /// How long to wait for the gate; none: as long as it takes.
    pub patience: Option<Duration>,
    /// Places in the line whose sessions are gone: they are cleared away on the occasion.
    pub gone: Vec<GonePlace>,
}

/// A place in the line whose session is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GonePlace {
    /// The place.
    pub position: u64,
    /// The session that it had.
    pub session: u64,
}

/// What is given up on leaving.
#[derive(Debug, Clone, Copy)]
pub struct Parting {
    /// The lease of this claim, if it has one.
    pub claim: Claim,
    /// Its token; unknown when the answer to the attempt never came.
    pub token: Option<Token>,
    /// The gate.
    pub gate: Gate,
    /// Whether there is a place in the line to give up.
    pub queued: bool,
}

/// What an attempt asks for.
#[derive(Debug, Clone)]
pub struct Wish {
    /// Proof of ownership, the same in every attempt of one process.
    pub claim: Claim,
    /// Take the row over if it still stands like this: the caller watched it for a full ttl.
    pub seen: Option<Version>,
    /// With a gate, only who has it is granted anything.
    pub gate: Gate,
    /// Whether we have a place in the line, which goes with the grant.
    pub queued: bool,
}

/// A state of a held row: changes with every grant and every renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Token of the grant.
    pub token: Token,
    /// Renewals since that grant.
    pub renewals: u64,
}

/// A row as the server showed it; ages and remainders are computed there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// The lock's name.
    pub action: Action,
    /// Claim of the holder; none when the action is free.
    pub claim: Option<Claim>,
    /// Token and renewals.
    pub version: Version,
    /// The holder, or the last one when the action is free.
    pub holder: Holder,
    /// Length of the lease.
    pub ttl: Duration,
    /// When the lease was granted, by the server's clock, as RFC 3339; none if never.
    pub acquired_at: Option<String>,
    /// Since the grant.
    pub held_for: Duration,
    /// Since the grant or the last renewal.
    pub renewed_ago: Duration,
    /// Until the lease lapses, or since it did.
    pub remainder: Remainder,
    /// Whether the holder's session had the gate, and that on the server that answered.
    pub gated_here: bool,
}

/// What the server says of the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// Who has the gate.
    pub keeper: Keeper,
    /// Waiters in front of us; all of them if we have no place yet.
    pub ahead: u64,
    /// Places whose sessions are gone, as far as our account can see that.
    pub gone: Vec<GonePlace>,
}

/// Who has the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeper {
    /// Our own session.
    Us,
    /// The holder's session or a waiter's: all is as it should be.
    Line,
    /// A session that is neither.
    Stranger,
    /// Nobody.
    Nobody,
    /// Not asked.
    Unasked,
}

/// What is left of a lease by the server's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remainder {
    /// It lapses in this time.
    Left(Duration),
    /// It lapsed this long ago.
    Lapsed(Duration),
}

/// The state of an action, as `status` prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Somebody has a live lease.
    Held,
    /// Nobody has a lease.
    Free,
    /// Somebody has not renewed in time; the next contender takes it over.
    Lapsed,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Held => "held",
            Self::Free => "free",
            Self::Lapsed => "lapsed",
        })
    }
}

impl Sighting {
    /// What there is to say of an action that nobody has ever held: free, token 0.
    #[must_use]
    pub fn never_held(action: Action) -> Self {
        Self {
            action,
            claim: None,
            version: Version {
                token: Token(0),
                renewals: 0,
            },
            holder: Holder::default(),
            ttl: Duration::ZERO,
            acquired_at: None,
            held_for: Duration::ZERO,
            renewed_ago: Duration::ZERO,
            remainder: Remainder::Lapsed(Duration::ZERO),
            gated_here: false,
        }
    }

    /// Held, free or lapsed.
    #[must_use]
    pub const fn state(&self) -> State {
        match (&self.claim, self.remainder) {
            (None, _) => State::Free,
            (Some(_), Remainder::Left(_)) => State::Held,
            (Some(_), Remainder::Lapsed(_)) => State::Lapsed,
        }
    }
}

/// Who stands in the line of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiter {
    /// The lock it waits for.
    pub action: Action,
    /// Who it is.
    pub holder: Holder,
    /// Since it took its place.
    pub waiting_for: Duration,
    /// Whether its session is there; none where the server does not tell our account.
    pub alive: Option<bool>,
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
    /// We have a place in the line; the row and the line as they stand.
    Queued(Sighting, View),
    /// The wait at the gate ended without it.
    TurnedAway,
    /// The renewal stands in the row.
    Renewed,
    /// The row is not ours any more.
    Lost(Sighting),
    /// The row was ours and is free now.
    Released,
    /// There was nothing of ours to release.
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What it means for the protocol.
    pub kind: FailureKind,
    /// One line for people; may hold text of the server, so it is escaped where it is printed.
    pub message: String,
}

/// What a failure means for the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
