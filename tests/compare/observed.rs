//! The values that are compared after each step: responses and rows, in the model's numbers.

use std::time::Duration;

use dlock::lease::{OwnerId, Token};
use dlock::store::{
    Expiry, Failure, FailureKind, HistoryOutcome, LockRecord, Loss, QueueLockOwner, QueueState,
    Response,
};

use crate::server::{OWNER_ID, Session};
use crate::time::ticks;

/// The number for an owner id or token that the model does not know.
pub(crate) const UNKNOWN: u8 = u8::MAX;

/// The responses of a step and the rows after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Observed {
    /// The responses to contenders, first to the one that sent the request. The flag is true if the request could have
    /// granted the lease.
    pub(crate) heard: Vec<(usize, Heard, bool)>,
    /// Two flags of an operator's action: true if it was applied, and true if it ended the holder's session. None
    /// without an operator.
    pub(crate) intervened: Option<(bool, bool)>,
    pub(crate) rows: Rows,
}

/// A response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    Granted(u8),
    AlreadyOurs(u8),
    Seen(Sight, QueueLockOwner, u64),
    Queued(Sight, QueueLockOwner, u64),
    Renewed,
    Lost(Sight),
    HandedOff,
    TurnedAway,
    Released,
    NotOurs(Option<Loss>),
    Failed(FailureKind),
    /// No response yet: the contender waits for the queue lock.
    Waits,
    /// A response that no step here can cause.
    Other,
}

/// The row in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sight {
    owner_id: Option<u8>,
    token: u8,
    renewals: u64,
    left: Option<i64>,
    has_queue_lock: bool,
    revoked: bool,
    paused: bool,
}

/// All that the server stores about the action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) owner_id: Option<u8>,
    pub(crate) token: u8,
    pub(crate) renewals: u64,
    pub(crate) has_queue_lock: bool,
    /// The session that the row names. None if it has ended.
    pub(crate) session: Option<Session>,
    pub(crate) revoked: bool,
    /// Ticks until the lease expires. None if there is no lease.
    pub(crate) left: Option<i64>,
    /// Ticks until the pause ends; 0 if the action is not paused.
    pub(crate) paused: i64,
    /// Owner ids and sessions in the queue, in order.
    pub(crate) queue: Vec<(u8, Option<Session>)>,
    /// Tokens and outcomes of the runs in the history.
    pub(crate) runs: Vec<(u8, String)>,
    /// The session that owns the queue lock. None if it is free.
    pub(crate) queue_lock: Option<Session>,
    /// The owner ids that are handed off, with the sessions that did it.
    pub(crate) handed_off: Vec<(u8, Session)>,
}

/// Returns an outcome as the history stores it.
pub(crate) fn word(outcome: HistoryOutcome) -> String {
    outcome.as_str().to_owned()
}

/// Converts microseconds to ticks, rounded up.
pub(crate) fn ticks_left(micros: i64) -> i64 {
    let tick = i64::try_from(ticks(1).as_micros()).expect("a short tick");
    -(-micros).div_euclid(tick)
}

/// Returns the model's number of `owner_id`.
pub(crate) fn number(owner_id: OwnerId) -> u8 {
    owner_id.bytes()[OWNER_ID]
}

/// Returns `outcome` in the model's numbers; `rank` converts a token.
pub(crate) fn heard(outcome: &Result<Response, Failure>, rank: impl Fn(Token) -> u8) -> Heard {
    match outcome {
        Err(failure) => Heard::Failed(failure.kind),
        Ok(answer) => match answer {
            Response::Granted(token) => Heard::Granted(rank(*token)),
            Response::AlreadyHeld(token) => Heard::AlreadyOurs(rank(*token)),
            Response::NotAcquired(
                row,
                QueueState {
                    lock_owner, ahead, ..
                },
            ) => Heard::Seen(sight(row, rank), *lock_owner, *ahead),
            Response::Enqueued(
                row,
                QueueState {
                    lock_owner, ahead, ..
                },
            ) => Heard::Queued(sight(row, rank), *lock_owner, *ahead),
            Response::Renewed => Heard::Renewed,
            Response::Lost(row) => Heard::Lost(sight(row, rank)),
            Response::HandedOff => Heard::HandedOff,
            Response::WaitEnded => Heard::TurnedAway,
            Response::Released => Heard::Released,
            Response::NotHolder(loss) => Heard::NotOurs(*loss),
            Response::Record(_) | Response::AlreadyDone(_) | Response::ReleasedUnrecorded(_) => {
                Heard::Other
            }
        },
    }
}

fn sight(row: &LockRecord, rank: impl Fn(Token) -> u8) -> Sight {
    let micros = |time: Duration| i64::try_from(time.as_micros()).expect("a short time");
    let left = match row.expiry {
        Expiry::In(time) => micros(time),
        Expiry::Ago(time) => -micros(time),
    };
    Sight {
        owner_id: row.owner_id.map(number),
        token: rank(row.version.token),
        renewals: row.version.renewals,
        // The time left of a free row has no meaning.
        left: row.owner_id.map(|_| ticks_left(left)),
        has_queue_lock: row.had_queue_lock_here,
        revoked: row.revoked_ago.is_some(),
        paused: row.pause.is_some(),
    }
}
