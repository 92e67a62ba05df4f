//! What a look shows: a row, the line, and who stands in it.

use std::fmt;
use std::time::Duration;

use super::{Fate, Holder, ServerTime, Version};
use crate::lease::action::Action;
use crate::lease::{Claim, Token};
use crate::twin::{self, Mechanism};

/// A row as the server showed it; ages and remainders are computed there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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
    /// How far that lies ahead of the server's clock, which must have been set back since.
    pub renewed_ahead: Duration,
    /// Until the lease lapses, or since it did.
    pub remainder: Remainder,
    /// Whether each grant has to raise the fence.
    pub fenced: bool,
    /// When the lease lapses, as RFC 3339, if the run is over and only `--min-hold` keeps it.
    pub kept_until: Option<String>,
    /// The last run that is over, where that was asked for.
    pub last: Option<LastRun>,
    /// Whether the holder's session had the gate, and that on the server that answered.
    pub gated_here: bool,
    /// Whether the holder's session is there, where that was asked for and the server tells.
    pub session_alive: Option<bool>,
    /// Since when the lease has been broken: nobody renews it any more. None: it is not.
    pub broken_ago: Option<Duration>,
    /// Until when nobody is granted anything; none: the action is open.
    pub closed: Option<Closed>,
    /// Who broke or closed it last, and why.
    pub operator: Option<Operator>,
}

/// Whose a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Claim that the row names. None when the action is free.
    pub claim: Option<Claim>,
    /// Token of the last grant, or of the change that ended it.
    pub token: Token,
    /// Whether an operator has ended the lease.
    pub is_broken: bool,
}

impl Owner {
    /// Whether the row is held by `claim`, under `token` if that is known: it names the claim, and no
    /// operator has ended the lease. The one predicate of ownership; the SQL has the same.
    #[must_use]
    pub fn is_held_by(&self, claim: Claim, token: Option<Token>) -> bool {
        let is_its = token.is_none_or(|token| self.token == token);
        twin::is_out(Mechanism::ReadBack) || self.claim == Some(claim) && is_its && !self.is_broken
    }
}

/// An action that is closed for maintenance.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Closed {
    /// Until then, by the server's clock, as RFC 3339.
    pub until: String,
    /// Until then.
    pub left: Duration,
}

/// Who acted on an action by hand.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Operator {
    /// `--holder` of `dlock release`.
    pub label: String,
    /// `--reason`, empty if none.
    pub reason: String,
}

/// The last run of an action that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LastRun {
    /// Its token.
    pub token: Token,
    /// How it ended.
    pub fate: Fate,
    /// Since then.
    pub ago: Duration,
}

/// What the server says of the line.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct View {
    /// Who has the gate.
    pub keeper: Keeper,
    /// Waiters in front of us; all of them if we have no place yet.
    pub ahead: u64,
    /// How long the first of all has waited; none if nobody waits.
    pub first_for: Option<Duration>,
}

/// Who has the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Remainder {
    /// It lapses in this time.
    Left(Duration),
    /// It lapsed this long ago.
    Lapsed(Duration),
}

/// The state of an action, as `status` prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Somebody has a live lease.
    Held,
    /// Nobody has a lease.
    Free,
    /// Somebody has not renewed in time; the next contender takes it over.
    Lapsed,
    /// Somebody's lease was ended by hand; it goes on until the command is dead or its time is over.
    Broken,
    /// Nobody has a lease, and nobody is granted one.
    Closed,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Held => "held",
            Self::Free => "free",
            Self::Lapsed => "lapsed",
            Self::Broken => "broken",
            Self::Closed => "closed",
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
            renewed_ahead: Duration::ZERO,
            remainder: Remainder::Lapsed(Duration::ZERO),
            fenced: false,
            kept_until: None,
            last: None,
            gated_here: false,
            session_alive: None,
            broken_ago: None,
            closed: None,
            operator: None,
        }
    }

    /// Whether the row as read back is held by `claim`, under `token` if that is known.
    #[must_use]
    pub fn is_held_by(&self, claim: Claim, token: Option<Token>) -> bool {
        let owner = Owner {
            claim: self.claim,
            token: self.version.token,
            is_broken: self.broken_ago.is_some(),
        };
        owner.is_held_by(claim, token)
    }

    /// How the action stands.
    #[must_use]
    pub const fn state(&self) -> State {
        match (&self.claim, self.remainder) {
            (Some(_), Remainder::Left(_)) if self.broken_ago.is_some() => State::Broken,
            (Some(_), Remainder::Left(_)) => State::Held,
            (Some(_), Remainder::Lapsed(_)) if self.kept_until.is_none() => State::Lapsed,
            (Some(_) | None, _) if self.closed.is_some() => State::Closed,
            (Some(_) | None, _) => State::Free,
        }
    }

    /// Whether somebody has a lease, be it lapsed or broken: whose command may be alive.
    #[must_use]
    pub const fn is_leased(&self) -> bool {
        matches!(self.state(), State::Held | State::Lapsed | State::Broken)
    }
}

/// Who holds what and who waits for it, as `status` shows it.
#[derive(Debug, Clone)]
pub struct Survey {
    /// The server's clock.
    pub server_time: ServerTime,
    /// The actions, in order of their names' bytes.
    pub locks: Vec<Sighting>,
    /// The waiters, in order of their places.
    pub waiters: Vec<Waiter>,
}

/// Who stands in the line of an action.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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
