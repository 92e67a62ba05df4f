//! What is compared after each step: responses and rows, in the model's numbers.

use std::time::Duration;

use dlock::lease::{Claim, Token};
use dlock::store::{Answer, Failure, FailureKind, Fate, Keeper, Loss, Remainder, Sighting, View};

use crate::server::{CLAIM, Session};
use crate::time::ticks;

/// A number of the model; 255 for what it does not know.
pub(crate) const UNKNOWN: u8 = u8::MAX;

/// All that a step brought and left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Observed {
    /// To contenders, with whether the question could have granted the lease: to the one that asked first.
    pub(crate) heard: Vec<(usize, Heard, bool)>,
    /// Whether an operator's change was made, and whether it ended the holder's session.
    pub(crate) intervened: Option<(bool, bool)>,
    pub(crate) rows: Rows,
}

/// A response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    Granted(u8),
    AlreadyOurs(u8),
    Seen(Sight, Keeper, u64),
    Queued(Sight, Keeper, u64),
    Renewed,
    Lost(Sight),
    HandedOff,
    TurnedAway,
    Released,
    NotOurs(Option<Loss>),
    Failed(FailureKind),
    /// None yet: the contender waits at the gate.
    Waits,
    /// Anything that no step here can bring.
    Other,
}

/// The row as a contender sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sight {
    claim: Option<u8>,
    token: u8,
    renewals: u64,
    left: Option<i64>,
    gated: bool,
    broken: bool,
    closed: bool,
}

/// What the server keeps of the action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) claim: Option<u8>,
    pub(crate) token: u8,
    pub(crate) renewals: u64,
    pub(crate) gated: bool,
    /// The session that the row names, if it is there.
    pub(crate) session: Option<Session>,
    pub(crate) broken: bool,
    /// Ticks until the lease expires, if there is one.
    pub(crate) left: Option<i64>,
    /// Ticks until the action can be granted again; 0 if it can.
    pub(crate) closed: i64,
    /// Claims and sessions in the line, in order.
    pub(crate) line: Vec<(u8, Option<Session>)>,
    /// The runs in the history, with how they ended.
    pub(crate) runs: Vec<(u8, String)>,
    /// The session that has the gate.
    pub(crate) gate: Option<Session>,
    /// The claims that are handed off, with the sessions that did it.
    pub(crate) handed_off: Vec<(u8, Session)>,
}

/// The word by which the history knows an ending.
pub(crate) fn word(fate: Fate) -> String {
    fate.word().to_owned()
}

/// A duration in ticks, from microseconds that lie ahead.
pub(crate) fn ticks_left(micros: i64) -> i64 {
    let tick = i64::try_from(ticks(1).as_micros()).expect("a short tick");
    -(-micros).div_euclid(tick)
}

/// The model's number of `claim`.
pub(crate) fn number(claim: Claim) -> u8 {
    claim.bytes()[CLAIM]
}

/// `outcome` in the model's numbers; `rank` tells that of a token.
pub(crate) fn heard(outcome: &Result<Answer, Failure>, rank: impl Fn(Token) -> u8) -> Heard {
    match outcome {
        Err(failure) => Heard::Failed(failure.kind),
        Ok(answer) => match answer {
            Answer::Granted(token) => Heard::Granted(rank(*token)),
            Answer::AlreadyOurs(token) => Heard::AlreadyOurs(rank(*token)),
            Answer::Seen(row, View { keeper, ahead, .. }) => {
                Heard::Seen(sight(row, rank), *keeper, *ahead)
            }
            Answer::Queued(row, View { keeper, ahead, .. }) => {
                Heard::Queued(sight(row, rank), *keeper, *ahead)
            }
            Answer::Renewed => Heard::Renewed,
            Answer::Lost(row) => Heard::Lost(sight(row, rank)),
            Answer::HandedOff => Heard::HandedOff,
            Answer::TurnedAway => Heard::TurnedAway,
            Answer::Released => Heard::Released,
            Answer::NotOurs(loss) => Heard::NotOurs(*loss),
            Answer::Looked(_) | Answer::Done(_) | Answer::ReleasedOnly(_) => Heard::Other,
        },
    }
}

fn sight(row: &Sighting, rank: impl Fn(Token) -> u8) -> Sight {
    let micros = |time: Duration| i64::try_from(time.as_micros()).expect("a short time");
    let left = match row.remainder {
        Remainder::Left(time) => micros(time),
        Remainder::Lapsed(time) => -micros(time),
    };
    Sight {
        claim: row.claim.map(number),
        token: rank(row.version.token),
        renewals: row.version.renewals,
        // Of a row that is free nobody asks.
        left: row.claim.map(|_| ticks_left(left)),
        gated: row.gated_here,
        broken: row.broken_ago.is_some(),
        closed: row.closed.is_some(),
    }
}
