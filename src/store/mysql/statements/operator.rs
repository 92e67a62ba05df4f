//! Operator requests: revoke a lease, pause an action, resume an action.

use super::fence::{advance_fence, lock_fence};
use super::fragments::{HERE, REQUEST, SERVER_TIME, facts, hex, queue_lock_name};
use super::history::{OPERATOR_ACTION, entry, insert_run_from_row};
use crate::store::HistoryOutcome;
use crate::store::operator::{OperatorAction, OperatorRequest};

/// Changes the row of an action if the row still has the token that was shown to the operator. Records the change and
/// the operator in the same transaction. Returns 1 if the change is recorded.
///
/// The UPDATE revokes a lease by setting a new token and `revoked_at`, which the holder detects at its next renewal or
/// earlier. The row contains the owner id until the holder frees the row after the death of its command, or until
/// another contender takes over the expired lease. Until then, no other contender is granted the action, so no other
/// command starts. A lease that is held only for `--min-hold` is freed immediately.
///
/// The end of a pause changes nothing while a lease that is not revoked exists: after the server's clock was set back, the
/// end of an old pause may be in the future again, although a holder runs its command.
///
/// A release or a pause also advances the fence, unless a transaction of the command has locked the fence.
///
/// If `wakes` is true, the packet also returns the id of the session to kill, so that the holder reads its row
/// immediately. That session is the one in the row, if it is on this server and owns the queue lock.
pub(in crate::store::mysql) fn apply_operator_request(
    request: &OperatorRequest,
    wakes: bool,
) -> String {
    let OperatorRequest {
        action,
        token,
        by,
        kind,
    } = request;
    let action_hex = hex(action.as_str());
    let shown = format!("action={action_hex} AND token={token}");
    let present = match kind {
        OperatorAction::Resume => {
            format!("{shown} AND (owner_id IS NULL OR revoked_at IS NOT NULL)")
        }
        OperatorAction::Release | OperatorAction::Pause(_) => shown.clone(),
    };
    let facts = facts(by);
    let [label, host, pid, _, reason, ..] = &facts;
    let (outcome, paused) = match kind {
        OperatorAction::Release => (HistoryOutcome::Released, String::new()),
        OperatorAction::Pause(time) => {
            let time = time.as_micros();
            let until = format!(",paused_until=UTC_TIMESTAMP(6)+INTERVAL {time} MICROSECOND");
            (HistoryOutcome::Paused, until)
        }
        OperatorAction::Resume => (HistoryOutcome::Resumed, ",paused_until=NULL".to_owned()),
    };
    let (lock, record, revoked, advance) = match kind {
        OperatorAction::Resume => Default::default(),
        OperatorAction::Release | OperatorAction::Pause(_) => {
            let running = format!(
                "token={token} AND owner_id IS NOT NULL AND min_hold=0 AND revoked_at IS NULL"
            );
            (
                lock_fence(action),
                insert_run_from_row(
                    "dlock_lock",
                    HistoryOutcome::Revoked,
                    &format!("action={action_hex} AND {running}"),
                ),
                // The server evaluates the assignments from left to right.
                ",revoked_at=IF(owner_id IS NULL OR min_hold=1,NULL,COALESCE(revoked_at,UTC_TIMESTAMP(6))),\
                 owner_id=IF(min_hold=1,NULL,owner_id),min_hold=0",
                advance_fence(action, "TRUE"),
            )
        }
    };
    let session = match wakes {
        true => format!(
            "(SELECT session_id FROM dlock_lock WHERE action={action_hex} AND owner_id IS NOT NULL \
             AND server={HERE} AND has_queue_lock=1 AND session_id=IS_USED_LOCK({}))",
            queue_lock_name(&action_hex),
        ),
        false => "NULL".to_owned(),
    };
    let entry = entry(
        outcome,
        "kind,started_at",
        &format!(
            "action,token,{},{OPERATOR_ACTION},UTC_TIMESTAMP(6)",
            facts.join(",")
        ),
        &format!("dlock_lock WHERE {present} FOR UPDATE"),
    );
    format!(
        "BEGIN;{lock}{entry}{record}\
         UPDATE dlock_lock SET operator={label},reason={reason}{paused}{revoked},\
         token=GREATEST(token+1,{SERVER_TIME}) WHERE {present};{advance}COMMIT;\
         SELECT {REQUEST},COUNT(*) AS answer,{session} AS session FROM dlock_history \
         WHERE {shown} AND kind={OPERATOR_ACTION} AND outcome='{word}' AND host={host} AND pid={pid}",
        word = outcome.as_str(),
    )
}
