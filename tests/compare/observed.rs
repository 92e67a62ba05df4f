//! The values that are compared after each step: responses and rows. Owner ids, tokens and sessions are converted to
//! the model's numbers.

use std::time::Duration;

use dlock::lease::limit::Limit;
use dlock::lease::{OwnerId, Token};
use dlock::store::{
    EarlierSessions, Expiry, Failure, FailureKind, HistoryOutcome, LockRecord, Loss,
    QueueLockOwner, QueueState, Response, Slot,
};

use crate::server::{NUMBER_BYTE, SHARED, Session};
use crate::time::ticks;

/// The number for an owner id or token that does not exist in the model.
pub(crate) const UNKNOWN: u8 = u8::MAX;

/// The responses of a step and the rows after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Observed {
    /// Index of the contender, response, and a flag that is true if the request could have granted the lease. If a
    /// contender sent a request in this step, its response is the first one.
    pub(crate) responses: Vec<(usize, ObservedResponse, bool)>,
    /// Two flags: the first is true if the operator request was applied, and the second if it ended the holder's
    /// session. None if the step is not an operator request.
    pub(crate) operator_result: Option<(bool, bool)>,
    pub(crate) rows: Rows,
}

/// Returns the number of waiters ahead by which a poller decides. A contender that uses the queue lock only displays the
/// number, and the server then leaves out waiters whose sessions have ended, which the model counts.
fn ahead(queue: &QueueState) -> u64 {
    match queue.lock_owner {
        QueueLockOwner::NotQueried => queue.ahead,
        _ => 0,
    }
}

/// A response to a contender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ObservedResponse {
    /// Token, and number of the slot. The flag is true if the row contains the sessions of an earlier holder.
    Granted(u8, u32, bool),
    AlreadyHeld(u8, u32),
    /// The number is the number of waiters ahead of a poller. The flag is true if one of them has a mark.
    NotAcquired(ObservedRow, QueueLockOwner, u64, bool),
    Enqueued(ObservedRow, QueueLockOwner, u64, bool),
    /// True if a session is noted. None if the renewal did not look.
    Renewed(Option<bool>),
    Lost(ObservedRow),
    HandedOff,
    WaitEnded,
    HasLetPass,
    Released,
    NotHolder(Option<Loss>),
    Failed(FailureKind),
    /// No response yet: the contender waits for the queue lock.
    Waiting,
    /// A response that no step of a sequence can cause.
    Unexpected,
}

/// The row of the action and its slots in a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObservedRow {
    owner_id: Option<u8>,
    token: u8,
    renewals: u64,
    expires_in: Option<i64>,
    has_queue_lock: bool,
    revoked: bool,
    paused: bool,
    slots: Vec<ObservedSlot>,
}

/// A lease in a slot in a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObservedSlot {
    number: u32,
    limit: Limit,
    owner_id: Option<u8>,
    token: u8,
    renewals: u64,
    expires_in: i64,
    had_lock: bool,
    is_alive: Option<bool>,
}

/// The server's complete state of the action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) owner_id: Option<u8>,
    pub(crate) token: u8,
    pub(crate) renewals: u64,
    pub(crate) has_queue_lock: bool,
    /// The session in the row. None if the session has ended.
    pub(crate) session: Option<Session>,
    pub(crate) revoked: bool,
    /// Ticks until the lease expires; negative if the lease has expired. None if there is no lease in the row.
    pub(crate) expires_in: Option<i64>,
    /// Ticks until the pause ends; 0 if the action is not paused.
    pub(crate) paused: i64,
    /// Token in the note of a command's sessions. None if the row contains no note.
    pub(crate) note: Option<u8>,
    /// True if the row has the mark that slots may contain notes.
    pub(crate) may_have_noted_slots: bool,
    pub(crate) slots: Vec<SlotRow>,
    /// Owner ids and sessions of the queue entries, in the order of their positions.
    pub(crate) queue: Vec<(u8, Option<Session>)>,
    /// Tokens and outcomes of the runs in the history.
    pub(crate) runs: Vec<(u8, String)>,
    /// The session that owns the queue lock. None if it is free.
    pub(crate) queue_lock: Option<Session>,
    /// The owner ids with a hand-off, each with the session that made the hand-off.
    pub(crate) handed_off: Vec<(u8, Session)>,
    /// The owner ids whose holder lock a session owns.
    pub(crate) holder_locks: Vec<(u8, Session)>,
}

/// A row of `dlock_slot`. The fields mean the same as in [`Rows`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SlotRow {
    pub(crate) number: u32,
    /// None if nobody holds the slot.
    pub(crate) limit: Option<Limit>,
    pub(crate) owner_id: Option<u8>,
    pub(crate) token: u8,
    pub(crate) renewals: u64,
    /// True if the session had the holder lock.
    pub(crate) has_queue_lock: bool,
    pub(crate) session: Option<Session>,
    pub(crate) revoked: bool,
    pub(crate) expires_in: Option<i64>,
    pub(crate) note: Option<u8>,
}

/// Returns true if a row with `owner_id` contains a lease. The expiry of any other row has no meaning.
pub(crate) fn is_lease(owner_id: Option<u8>) -> bool {
    owner_id.is_some_and(|owner_id| owner_id != SHARED)
}

/// Returns an outcome as it is stored in the history.
pub(crate) fn word(outcome: HistoryOutcome) -> String {
    outcome.as_str().to_owned()
}

/// Converts microseconds to ticks, rounded up.
pub(crate) fn ticks_left(micros: i64) -> i64 {
    let tick = i64::try_from(ticks(1).as_micros()).expect("a short tick");
    -(-micros).div_euclid(tick)
}

/// Returns the model's number for `owner_id`.
pub(crate) fn number(owner_id: OwnerId) -> u8 {
    owner_id.bytes()[NUMBER_BYTE]
}

/// Converts `outcome` to the model's numbers. `rank` converts a token.
pub(crate) fn observed_response(
    outcome: &Result<Response, Failure>,
    rank: impl Fn(Token) -> u8,
) -> ObservedResponse {
    match outcome {
        Err(failure) => ObservedResponse::Failed(failure.kind),
        Ok(answer) => match answer {
            Response::Granted(token, slot, sessions) => {
                let is_noted = *sessions == EarlierSessions::Noted;
                ObservedResponse::Granted(rank(*token), *slot, is_noted)
            }
            Response::AlreadyHeld(token, slot) => {
                ObservedResponse::AlreadyHeld(rank(*token), *slot)
            }
            Response::NotAcquired(row, queue) => ObservedResponse::NotAcquired(
                observed_row(row, rank),
                queue.lock_owner,
                ahead(queue),
                queue.is_behind_mark,
            ),
            Response::Enqueued(row, queue) => ObservedResponse::Enqueued(
                observed_row(row, rank),
                queue.lock_owner,
                ahead(queue),
                queue.is_behind_mark,
            ),
            Response::Renewed(look) => ObservedResponse::Renewed(look.as_ref().map(|look| {
                let found = look.as_ref().as_ref();
                found.is_ok_and(|found| found.note.is_some())
            })),
            Response::Lost(row) => ObservedResponse::Lost(observed_row(row, rank)),
            Response::HandedOff => ObservedResponse::HandedOff,
            Response::WaitEnded | Response::WaitSliced => ObservedResponse::WaitEnded,
            Response::HasLetPass(_) => ObservedResponse::HasLetPass,
            Response::Released => ObservedResponse::Released,
            Response::NotHolder(loss) => ObservedResponse::NotHolder(*loss),
            Response::Record(_)
            | Response::Note(_)
            | Response::NoteRemoved
            | Response::Sessions(_)
            | Response::AlreadyDone(_)
            | Response::HeldThoughDone(..) => ObservedResponse::Unexpected,
        },
    }
}

fn observed_row(row: &LockRecord, rank: impl Fn(Token) -> u8) -> ObservedRow {
    let owner_id = row.lease.owner_id.map(number);
    let slot = |slot: &Slot| ObservedSlot {
        number: slot.number,
        limit: slot.limit,
        owner_id: slot.lease.owner_id.map(number),
        token: rank(slot.lease.version.token),
        renewals: slot.lease.version.renewals,
        expires_in: expires_in(slot.lease.expiry),
        had_lock: slot.lease.had_queue_lock_here,
        is_alive: slot.lease.session_alive,
    };
    ObservedRow {
        owner_id,
        token: rank(row.lease.version.token),
        renewals: row.lease.version.renewals,
        expires_in: is_lease(owner_id).then(|| expires_in(row.lease.expiry)),
        has_queue_lock: row.lease.had_queue_lock_here,
        revoked: row.lease.revoked_ago.is_some(),
        paused: row.pause.is_some(),
        slots: row.slots.iter().map(slot).collect(),
    }
}

/// Returns the ticks until a lease expires. Negative if it has expired.
fn expires_in(expiry: Expiry) -> i64 {
    let micros = |time: Duration| i64::try_from(time.as_micros()).expect("a short time");
    ticks_left(match expiry {
        Expiry::In(time) => micros(time),
        Expiry::Ago(time) => -micros(time),
    })
}
