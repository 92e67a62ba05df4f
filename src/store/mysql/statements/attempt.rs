//! Acquires the lease: the one statement that grants it to exactly one of any number of contenders.

use super::super::schema;
use super::fence::{PASSABLE, advance_fence, create_fence, lock_fence};
use super::fragments::{
    CHANGED, HERE, NOT_PAUSED, SERVER_TIME, assignments, hex, owns_queue_lock, queue_lock_name,
    take_queue_lock,
};
use super::handoff;
use super::history::{insert_run_from_row, needless};
use crate::mutant::{self, Safeguard};
use crate::store::{
    AcquireMode, AcquireRequest, Contender, FenceMode, HistoryOutcome, QueueLock, Version,
};

/// Acquires the lease as `request` specifies. With a queue lock it first takes that lock, unless the attempt is a
/// take-over or follows a wait for the queue lock (`after_wait`).
///
/// Changes at most the row of `action`, with one UPDATE, so exactly one of any number of contenders wins. [`CHANGED`]
/// contains the number of changed rows. "No row changed" alone has no meaning: another contender may hold the lease, or
/// this process already holds it because this packet is a repetition. With a queue lock, only the session that owns it
/// changes the row, so a new contender cannot overtake the waiters. The UPDATE also requires that the row is free, or
/// for a take-over that it still has the observed version: then it was not renewed since.
///
/// The run whose lease is taken over is recorded as lost in the same transaction. The INSERT locks the row, so that the
/// INSERT and the UPDATE read the same row.
///
/// If the action has a fence, a grant advances it in the same transaction. It does not wait for the fence: while a
/// command's transaction has locked it, the UPDATE matches no row.
///
/// A take-over also deletes the queue entry of the old holder's owner id.
///
/// With the queue lock, the UPDATE also matches a row that was handed off. It does not if a success of that run could
/// make this run unnecessary (`--once`), because only the released row contains the success.
///
/// A success that makes the run unnecessary prevents the UPDATE, but the statement reads the success as of its own
/// start. A contender that is granted the lease has to read it again. After a wait, a contender that finds such a
/// success releases the queue lock at once, so that the next waiter can continue.
///
/// The token is at least the server time, so that it keeps growing after a restored backup and after a fail-over that
/// lost the last grants.
pub(in crate::store::mysql) fn attempt(
    contender: &Contender,
    request: &AcquireRequest,
    after_wait: bool,
) -> String {
    let Contender { action, ttl, .. } = contender;
    let ttl_us = ttl.as_micros();
    let (action_hex, owner_id) = (hex(action.as_str()), hex(request.owner_id.bytes()));
    let name = queue_lock_name(&action_hex);
    let needless = needless(contender);
    let take = match &needless {
        Some(needless) if after_wait => format!(
            "DO IF(EXISTS(SELECT 1 FROM dlock_lock WHERE action={action_hex} AND {needless}),\
             RELEASE_LOCK({name}),0);"
        ),
        _ if after_wait
            || request.is_take_over()
            || request.queue_lock == QueueLock::Unavailable =>
        {
            String::new()
        }
        _ => format!("DO {};", take_queue_lock(&name, 0)),
    };
    let (has_queue_lock, have_queue_lock) = match request.queue_lock {
        QueueLock::Available if mutant::is_disabled(Safeguard::OwnClock) => ("1", String::new()),
        QueueLock::Available => ("1", format!(" AND {}", owns_queue_lock(&name))),
        QueueLock::Unavailable => ("0", String::new()),
    };
    let fence = match request.mode {
        AcquireMode::TakeOver { fenced: true, .. } => FenceMode::Advance,
        _ => contender.fence,
    };
    let passable = match fence {
        FenceMode::Advance => PASSABLE,
        // A grant that does not advance the fence requires that there is none.
        FenceMode::Unchanged => " AND fenced=0",
    };
    let (record, expected) = match request.mode {
        AcquireMode::TakeOver { version, .. } => {
            let Version { token, renewals } = version;
            let seen = format!("token={token} AND renewals={renewals}");
            let taken_over = format!(
                "owner_id IS NOT NULL AND {seen} AND {NOT_PAUSED}{have_queue_lock}{passable}"
            );
            // The end of a revoked lease is already recorded.
            let unrecorded = format!("min_hold=0 AND revoked_at IS NULL AND {taken_over}");
            let record = match contender.history {
                0 => String::new(),
                _ => insert_run_from_row(action, HistoryOutcome::Lost, &unrecorded),
            };
            let clear = format!(
                "DELETE FROM dlock_waiter WHERE owner_id=(SELECT owner_id FROM dlock_lock \
                 WHERE action={action_hex} AND {taken_over});"
            );
            (format!("{record}{clear}"), seen)
        }
        AcquireMode::First | AcquireMode::IfFree => {
            let expected =
                match request.queue_lock == QueueLock::Available && contender.once.is_none() {
                    true => format!("(owner_id IS NULL OR {})", handoff::handoff_is_set()),
                    false => "owner_id IS NULL".to_owned(),
                };
            (String::new(), expected)
        }
    };
    let (begin, fenced, commit) = match fence {
        FenceMode::Advance => (
            format!("{}BEGIN;{}", create_fence(action), lock_fence(action)),
            "fenced=1,",
            format!(
                "{}COMMIT;",
                advance_fence(action, &format!("owner_id={owner_id}"))
            ),
        ),
        FenceMode::Unchanged if record.is_empty() => (String::new(), "", String::new()),
        FenceMode::Unchanged => ("BEGIN;".to_owned(), "", "COMMIT;".to_owned()),
    };
    let not_done = needless.map_or_else(String::new, |needless| format!(" AND NOT {needless}"));
    // Also after a wait: the tables may have been upgraded since the first attempt.
    let version = schema::current().accepts_tables();
    format!(
        "{take}{begin}{record}UPDATE dlock_lock SET {fenced}\
         token=GREATEST(token+1,{SERVER_TIME}),\
         owner_id={owner_id},{facts},\
         server={HERE},session_id=CONNECTION_ID(),has_queue_lock={has_queue_lock},\
         ttl_us={ttl_us},renewals=0,min_hold=0,revoked_at=NULL,\
         acquired_at=UTC_TIMESTAMP(6),renewed_at=UTC_TIMESTAMP(6),\
         expires_at=UTC_TIMESTAMP(6)+INTERVAL {ttl_us} MICROSECOND,released_at=NULL \
         WHERE action={action_hex} AND {version}{have_queue_lock} AND {expected} AND {NOT_PAUSED}{not_done}{passable};\
         SET {CHANGED}=ROW_COUNT();{commit}",
        facts = assignments(&contender.holder),
    )
}
