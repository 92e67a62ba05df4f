//! What the model's server keeps and what its packets bring back. Pure.

use dlock::lease::{Claim, Token};
use dlock::store::read_back::{AttemptReadBack, ReleaseReadBack};
use dlock::store::{Keeper, Owner, POLLER_LIFE, Question};

use crate::time::whole_ticks;

/// A session: whose, and whether it belongs to the connection that the client still uses or to one
/// that it has dropped and the server has not noticed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Session {
    pub(crate) client: usize,
    pub(crate) dropped: bool,
}

impl Session {
    pub(crate) const fn current(client: usize) -> Self {
        Self {
            client,
            dropped: false,
        }
    }

    pub(crate) const fn dropped(client: usize) -> Self {
        Self {
            client,
            dropped: true,
        }
    }
}

/// The row of the action.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Row {
    pub(crate) claim: Option<u8>,
    pub(crate) token: u8,
    pub(crate) renewals: u8,
    pub(crate) gated: bool,
    /// The holder's session; none once it has ended.
    pub(crate) session: Option<Session>,
    /// By the server's clock.
    pub(crate) expires: i8,
    /// Whether an operator has ended the lease.
    pub(crate) broken: bool,
    /// Until when an operator keeps the action from being granted, by the server's clock.
    pub(crate) closed: Option<i8>,
}

/// A place in the line.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) claim: u8,
    pub(crate) session: Option<Session>,
    /// When it was last seen, if it waits without a gate.
    pub(super) seen: Option<i8>,
}

/// Which packet of a question is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// The first.
    First,
    /// The attempt behind a wait at the gate.
    AtGate,
    /// What settles a lease that an operator has ended, or a run whose row was freed by hand, behind the
    /// release that found this.
    Settle(ReleaseReadBack),
}

/// Liberties that a broken variant takes, and rules that it lacks.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a variant of its own"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Rules {
    /// Whether named locks are refused.
    pub(crate) no_gate: bool,
    /// Whether a lease is over as soon as the server's clock says so, whoever asks.
    pub(crate) clock_alone: bool,
    /// Whether a gate that the holder has no more is as good as a hand-off.
    pub(crate) gate_alone: bool,
    /// Whether a lease that an operator has ended can be renewed and released like any other.
    pub(crate) revoked_is_ours: bool,
    /// Whether a renewal leaves the session in the row as it is.
    pub(crate) session_stays: bool,
}

/// The row and the line as a reply shows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Look {
    pub(crate) claim: Option<u8>,
    pub(crate) token: u8,
    pub(crate) renewals: u8,
    /// Ticks until the lease lapses.
    pub(crate) left: i8,
    pub(crate) broken: bool,
    pub(crate) gated: bool,
    /// Ticks for which an operator keeps the action from being granted.
    pub(crate) closed: u8,
    pub(crate) keeper: Keeper,
    pub(crate) in_front: u8,
}

/// What a packet brings back, before the client makes sense of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Raw {
    /// The row, and whether the packet changed it.
    Row(Look, bool),
    /// The gate is the session's.
    AtGate,
    /// Whether the claim was handed off.
    HandedOff(bool),
    /// What was read back behind a release.
    Freed(ReleaseReadBack),
    /// What that had left over is settled.
    Settled(ReleaseReadBack),
    /// Named locks are refused.
    NoGate,
}

impl Raw {
    /// The next packet of `question`, of which this packet is not the last.
    pub(crate) fn next(&self, question: &Question) -> Option<Stage> {
        match (question, self) {
            (Question::Stand(_), Self::AtGate) => Some(Stage::AtGate),
            (Question::Release(parting), Self::Freed(freed)) if freed.needs_settling(parting) => {
                Some(Stage::Settle(*freed))
            }
            _ => None,
        }
    }
}

impl Place {
    /// Whether its waiter asks from time to time and has not done so for too long.
    pub(super) fn is_silent(&self, clock: i8) -> bool {
        self.seen
            .is_some_and(|seen| clock - seen >= whole_ticks(POLLER_LIFE))
    }
}

/// The claim that a question is about; 0 where it is about none.
pub(super) fn claim_in(question: &Question) -> u8 {
    let claim = match question {
        Question::Attempt(wish) => wish.claim,
        Question::Inspect(place) | Question::Queue(place) => place.claim,
        Question::Stand(turn) => turn.claim,
        Question::Renew(grant, _) | Question::HandOff(grant) => grant.claim,
        Question::Release(parting) => parting.claim,
        Question::Look => return 0,
    };
    claim.bytes()[CLAIM]
}

/// The claim that the server knows by this number.
pub(crate) const fn full(number: u8) -> Claim {
    let mut claim = [0; CLAIM + 1];
    claim[CLAIM] = number;
    Claim::new(claim)
}

impl Look {
    /// What an attempt reads back.
    pub(crate) fn read_back(self, changed: bool) -> AttemptReadBack {
        AttemptReadBack {
            changed,
            owner: Owner {
                claim: self.claim.map(full),
                token: Token(self.token.into()),
                is_broken: self.broken,
            },
        }
    }
}

/// Where a claim differs from another: the other bytes are zero, so that the machines' jitter is
/// the same for all.
pub(crate) const CLAIM: usize = 15;
