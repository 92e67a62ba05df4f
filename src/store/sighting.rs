//! What a look shows: a row, the line, and who stands in it.

use std::fmt;
use std::time::Duration;

use super::{Fate, GonePlace, Holder, Version};
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
    /// Places whose sessions are gone, as far as our account can see that.
    pub gone: Vec<GonePlace>,
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
            fenced: false,
            kept_until: None,
            last: None,
            gated_here: false,
        }
    }

    /// Whether the row as read back is `claim`'s, under `token` if that is known.
    #[must_use]
    pub fn is_held_by(&self, claim: Claim, token: Option<Token>) -> bool {
        twin::is_out(Mechanism::ReadBack)
            || self.claim == Some(claim) && token.is_none_or(|token| self.version.token == token)
    }

    /// Held, free or lapsed.
    #[must_use]
    pub const fn state(&self) -> State {
        match (&self.claim, self.remainder) {
            (None, _) => State::Free,
            (Some(_), Remainder::Lapsed(_)) if self.kept_until.is_some() => State::Free,
            (Some(_), Remainder::Left(_)) => State::Held,
            (Some(_), Remainder::Lapsed(_)) => State::Lapsed,
        }
    }
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
