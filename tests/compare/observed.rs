//! The values that are compared after each step: responses and rows. Owner ids, tokens and sessions are converted to
//! the model's numbers.

use std::time::Duration;

use dlock::lease::limit::Limit;
use dlock::lease::{OwnerId, Token};
use dlock::store::{
    EarlierSessions, Expiry, Failure, FailureKind, Lease, LockRecord, QueueLockOwner, QueueState,
    Response,
};

use crate::server::{NUMBER_BYTE, SHARED, Session};
use crate::time::ticks;

/// The number for an owner id or token that does not exist in the model.
pub(crate) const UNKNOWN: u8 = u8::MAX;

/// Index of a contender, the text of its response, and a flag that is true if the request could have granted the lease.
pub(crate) type ObservedResponse = (usize, String, bool);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Observed {
    /// If a contender sent a request in this step, its response is the first one.
    pub(crate) responses: Vec<ObservedResponse>,
    /// Two flags: the first is true if the operator request was applied, and the second if it ended the holder's
    /// session. None if the step is not an operator request.
    pub(crate) operator_result: Option<(bool, bool)>,
    pub(crate) rows: Rows,
}

/// The server's complete state of the action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rows {
    /// The row of `dlock_lock`, followed by those of `dlock_slot`.
    pub(crate) leases: Vec<LeaseRow>,
    /// Ticks until the pause ends; 0 if the action is not paused.
    pub(crate) paused: i64,
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeaseRow {
    /// Number of the slot. 0 in `dlock_lock`.
    pub(crate) number: u32,
    /// None in `dlock_lock`, or if nobody holds the slot.
    pub(crate) limit: Option<Limit>,
    pub(crate) owner_id: Option<u8>,
    pub(crate) token: u8,
    pub(crate) renewals: u64,
    /// True if the session had the queue lock or, in a slot, the holder lock.
    pub(crate) has_queue_lock: bool,
    /// The session in the row. None if the session has ended.
    pub(crate) session: Option<Session>,
    pub(crate) revoked: bool,
    /// Ticks until the lease expires; negative if the lease has expired. None if there is no lease in the row.
    pub(crate) expires_in: Option<i64>,
    /// Token in the note of a command's sessions. None if the row contains no note.
    pub(crate) note: Option<u8>,
    /// True if the row has the mark that slots may contain notes.
    pub(crate) may_have_noted_slots: bool,
}

/// The response of a contender that waits for the queue lock.
pub(crate) const WAITING: &str = "none yet";

/// Returns true if a row with `owner_id` contains a lease. The expiry of any other row has no meaning.
pub(crate) fn is_lease(owner_id: Option<u8>) -> bool {
    owner_id.is_some_and(|owner_id| owner_id != SHARED)
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

pub(crate) fn failed(kind: FailureKind) -> String {
    format!("failed: {kind:?}")
}

/// Returns the text of a response, with the model's numbers. `rank` converts a token.
pub(crate) fn response_text(
    outcome: &Result<Response, Failure>,
    rank: impl Fn(Token) -> u8,
) -> String {
    let record = |record: &LockRecord| record_text(record, &rank);
    match outcome {
        Err(failure) => failed(failure.kind),
        Ok(Response::Granted(token, slot, sessions)) => {
            let is_noted = *sessions == EarlierSessions::Noted;
            let token = rank(*token);
            format!("granted token {token} in slot {slot}, has earlier sessions: {is_noted}")
        }
        Ok(Response::AlreadyHeld(token, slot)) => {
            format!("already held with token {} in slot {slot}", rank(*token))
        }
        Ok(Response::NotAcquired(row, queue)) => {
            format!("not acquired: {}, {}", record(row), queue_text(queue))
        }
        Ok(Response::Enqueued(row, queue)) => {
            format!("enqueued: {}, {}", record(row), queue_text(queue))
        }
        Ok(Response::Renewed(look)) => {
            let note = look.as_ref().map(|look| match look.as_ref() {
                Ok(found) => found.note.is_some(),
                Err(_) => false,
            });
            format!("renewed, has noted sessions: {note:?}")
        }
        Ok(Response::Lost(row)) => format!("lost: {}", record(row)),
        Ok(Response::HandedOff) => "handed off".to_owned(),
        Ok(Response::WaitEnded | Response::WaitSliced) => "the wait has ended".to_owned(),
        Ok(Response::HasLetPass(_)) => "has let another one pass".to_owned(),
        Ok(Response::Released) => "released".to_owned(),
        Ok(Response::NotHolder(loss)) => format!("not the holder: {loss:?}"),
        Ok(_) => "no step of a sequence can cause this response".to_owned(),
    }
}

fn record_text(record: &LockRecord, rank: impl Fn(Token) -> u8) -> String {
    let slots = record.slots.iter().map(|slot| {
        let (number, limit, alive) = (slot.number, slot.limit, slot.lease.session_alive);
        let lease = lease_text(&slot.lease, &rank);
        format!("slot {number} with {limit:?}, session alive: {alive:?}, {lease}")
    });
    let slots: Vec<String> = slots.collect();
    let (lease, is_paused) = (lease_text(&record.lease, &rank), record.pause.is_some());
    format!("{lease}, paused: {is_paused}, {slots:?}")
}

fn lease_text(lease: &Lease, rank: impl Fn(Token) -> u8) -> String {
    let owner_id = lease.owner_id.map(number);
    let micros = |time: Duration| i64::try_from(time.as_micros()).expect("a short time");
    let left = match lease.expiry {
        _ if !is_lease(owner_id) => None,
        Expiry::In(time) => Some(ticks_left(micros(time))),
        Expiry::Ago(time) => Some(ticks_left(-micros(time))),
    };
    let (token, renewals) = (rank(lease.version.token), lease.version.renewals);
    let (has_lock, revoked) = (lease.had_queue_lock_here, lease.revoked_ago.is_some());
    format!(
        "owner {owner_id:?}, token {token}, renewals {renewals}, expires in {left:?}, has lock: {has_lock}, revoked: {revoked}"
    )
}

/// Returns the state of the queue. A contender that uses the queue lock only displays the number of waiters ahead, and the
/// server then leaves out waiters whose sessions have ended, which the model counts.
fn queue_text(queue: &QueueState) -> String {
    let ahead = match queue.lock_owner {
        QueueLockOwner::NotQueried => queue.ahead,
        _ => 0,
    };
    let (owner, is_behind_mark) = (queue.lock_owner, queue.is_behind_mark);
    format!("lock owner {owner:?}, ahead {ahead}, behind a mark: {is_behind_mark}")
}
