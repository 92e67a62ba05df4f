//! Operator requests: revoke a lease, pause an action, resume an action.

use super::fence::{advance_fence, lock_fence};
use super::fragments::{
    HERE, REQUEST, SERVER_TIME, facts, hex, highest_slot_token, holder_lock_name, queue_lock_name,
};
use super::history::{OPERATOR_ACTION, entry, insert_run_from_row};
use crate::lease::{OwnerId, Token};
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
        slots,
        by,
        kind,
    } = request;
    if !slots.is_empty() {
        return apply_to_slots(request, wakes);
    }
    let action_hex = hex(action.as_str());
    let shown = format!("action={action_hex} AND token={token}");
    let shared = hex(OwnerId::SHARED.bytes());
    let present = match kind {
        OperatorAction::Resume => format!(
            "{shown} AND (owner_id IS NULL OR revoked_at IS NOT NULL OR owner_id={shared} \
             AND NOT EXISTS(SELECT 1 FROM dlock_slot AS s WHERE s.action=dlock_lock.action \
             AND s.owner_id IS NOT NULL AND s.revoked_at IS NULL))"
        ),
        OperatorAction::Release | OperatorAction::Pause(_) => shown.clone(),
    };
    let facts = facts(by);
    let [label, _, _, _, reason, ..] = &facts;
    let (outcome, paused) = outcome_and_pause(*kind);
    let (lock, record, revoked, advance) = match kind {
        OperatorAction::Resume => Default::default(),
        OperatorAction::Release | OperatorAction::Pause(_) => {
            let running = format!(
                "token={token} AND owner_id IS NOT NULL AND owner_id<>{shared} AND min_hold=0 AND revoked_at IS NULL"
            );
            (
                lock_fence(action),
                insert_run_from_row(
                    "dlock_lock",
                    HistoryOutcome::Revoked,
                    &format!("action={action_hex} AND {running}"),
                ),
                // The server evaluates the assignments from left to right.
                format!(
                    ",revoked_at=IF(COALESCE(owner_id={shared},TRUE) OR min_hold=1,NULL,COALESCE(revoked_at,UTC_TIMESTAMP(6))),\
                     owner_id=IF(min_hold=1,NULL,owner_id),min_hold=0"
                ),
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
         SELECT {REQUEST},{recorded} AS answer,{session} AS session",
        recorded = is_recorded(request, &format!("={token}")),
    )
}

/// Returns the outcome of an entry about the request, and the assignment, after a comma, that changes the pause.
fn outcome_and_pause(kind: OperatorAction) -> (HistoryOutcome, String) {
    match kind {
        OperatorAction::Release => (HistoryOutcome::Released, String::new()),
        OperatorAction::Pause(time) => {
            let time = time.as_micros();
            let until = format!(",paused_until=UTC_TIMESTAMP(6)+INTERVAL {time} MICROSECOND");
            (HistoryOutcome::Paused, until)
        }
        OperatorAction::Resume => (HistoryOutcome::Resumed, ",paused_until=NULL".to_owned()),
    }
}

/// Returns the condition that an entry about the request exists. `tokens` is the end of a condition on their tokens.
fn is_recorded(request: &OperatorRequest, tokens: &str) -> String {
    let [_, host, pid, ..] = &facts(&request.by);
    format!(
        "EXISTS(SELECT 1 FROM dlock_history WHERE action={} AND token{tokens} AND kind={OPERATOR_ACTION} \
         AND outcome='{}' AND host={host} AND pid={pid})",
        hex(request.action.as_str()),
        outcome_and_pause(request.kind).0.as_str(),
    )
}

/// Revokes the leases in slots that the request names, as far as they still exist, and records each of them with the
/// operator. A pause also applies to the action, if no other lease exists. The lock of the record comes first, as in an
/// attempt. The revoked leases get the new token of the record.
fn apply_to_slots(request: &OperatorRequest, wakes: bool) -> String {
    let OperatorRequest {
        action,
        slots,
        by,
        kind,
        ..
    } = request;
    let action_hex = hex(action.as_str());
    let facts = facts(by);
    let [label, _, _, _, reason, ..] = &facts;
    let (outcome, paused) = outcome_and_pause(*kind);
    let each = |text: fn(&(u32, Token)) -> String| slots.iter().map(text).collect::<Vec<_>>();
    let named = each(|(number, token)| format!("({number},{token})")).join(",");
    let tokens = each(|(_, token)| token.to_string()).join(",");
    let is_complete = match kind {
        OperatorAction::Pause(_) => format!(
            " AND NOT EXISTS(SELECT 1 FROM dlock_slot AS s WHERE s.action={action_hex} \
             AND s.owner_id IS NOT NULL AND (s.slot,s.token) NOT IN ({named}))"
        ),
        OperatorAction::Release | OperatorAction::Resume => String::new(),
    };
    let shown = format!(
        "action={action_hex} AND (slot,token) IN ({named}) AND owner_id IS NOT NULL AND @dlock_locked IS NOT NULL"
    );
    let entries = entry(
        outcome,
        "kind,started_at,slot",
        &format!(
            "action,token,{},{OPERATOR_ACTION},UTC_TIMESTAMP(6),slot",
            facts.join(",")
        ),
        &format!("dlock_slot WHERE {shown} FOR UPDATE"),
    );
    let runs = insert_run_from_row(
        "dlock_slot",
        HistoryOutcome::Revoked,
        &format!("{shown} AND min_hold=0 AND revoked_at IS NULL"),
    );
    let session = match wakes {
        true => format!(
            "s.has_queue_lock=1 AND s.server={HERE} AND s.session_id=IS_USED_LOCK({})",
            holder_lock_name("s.owner_id")
        ),
        false => "FALSE".to_owned(),
    };
    let numbers = each(|(number, _)| number.to_string()).join(",");
    format!(
        "SET @dlock_locked=NULL;BEGIN;\
         SELECT token INTO @dlock_locked FROM dlock_lock WHERE action={action_hex} AND owner_id={shared}{is_complete} FOR UPDATE;\
         {entries}{runs}\
         UPDATE dlock_lock SET operator={label},reason={reason}{paused},token=GREATEST(token+1,{SERVER_TIME},{highest}+1) \
         WHERE action={action_hex} AND @dlock_locked IS NOT NULL;\
         UPDATE dlock_slot SET revoked_at=IF(min_hold=1,NULL,COALESCE(revoked_at,UTC_TIMESTAMP(6))),\
         owner_id=IF(min_hold=1,NULL,owner_id),min_hold=0,token=(SELECT token FROM dlock_lock WHERE action={action_hex}) \
         WHERE {shown};COMMIT;\
         SELECT {REQUEST},{recorded} AS answer,s.session_id AS session FROM (SELECT 1) AS one \
         LEFT JOIN dlock_slot AS s ON s.action={action_hex} AND s.slot IN ({numbers}) AND s.revoked_at IS NOT NULL AND {session}",
        shared = hex(OwnerId::SHARED.bytes()),
        highest = highest_slot_token(action),
        recorded = is_recorded(request, &format!(" IN ({tokens})")),
    )
}
