//! SELECTs that read records, waiters and ownership, with the columns that the response is checked by.

use super::super::schema::VERSION_COLUMNS;
use super::fragments::{CHANGED, HERE, REQUEST, SERVER_TIME, ago, hex, queue_lock_name};
use super::history::success;
use super::queue::{queue_columns, waiters};
use super::selection::Selection;
use crate::store::{Contender, QueueEntry, QueueLock};

/// Reads the owner of the contender's row and the `changed` flag of the preceding statement, with only the columns that
/// a grant needs, because all waiters behind it wait for the grant. Returns no row if the action has none.
pub(in crate::store::mysql) fn proof(contender: &Contender) -> String {
    let (success, join) = success(contender);
    format!(
        "SELECT {REQUEST},{SERVER_TIME} AS server_time,{CHANGED}>0 AS changed,l.token,l.owner_id,\
         l.revoked_at IS NOT NULL AS revoked{success} FROM dlock_lock AS l{join} WHERE l.action={}",
        hex(contender.action.as_str()),
    )
}

/// Reads the contender's row, the `changed` flag of the preceding statement, the success that makes a run unnecessary,
/// and with an `entry` the queue ahead of it.
pub(in crate::store::mysql) fn select_record(
    contender: &Contender,
    entry: Option<QueueEntry>,
) -> String {
    let action = hex(contender.action.as_str());
    let (success, join) = success(contender);
    let columns = entry.map_or_else(String::new, |entry| queue_columns(&action, entry));
    rows(
        &format!(",{CHANGED}>0 AS changed{success}{columns}"),
        &format!("dlock_lock AS l ON l.action={action}{join}"),
    )
}

/// Reads rows, each with the last completed run and, if named locks may be used, with the state of the holder's
/// session. Then reads the waiters.
///
/// A session has the queue lock until it ends. The state of a session without the queue lock is not read: merely naming
/// the list of sessions costs a third of a millisecond.
pub(in crate::store::mysql) fn select_snapshot(
    selection: Selection,
    queue_lock: QueueLock,
) -> String {
    let alive = match queue_lock {
        QueueLock::Available => format!(
            "CASE WHEN l.owner_id IS NULL OR l.min_hold=1 OR l.server<>{HERE} THEN NULL \
             WHEN l.has_queue_lock=1 THEN COALESCE(IS_USED_LOCK({})=l.session_id,0) ELSE NULL END",
            queue_lock_name("l.action")
        ),
        QueueLock::Unavailable => "NULL".to_owned(),
    };
    let ended = ago("r.ended_at");
    let selected = match selection {
        // Each part of the UNION uses an index. An OR of the conditions could not use one.
        Selection::Active => "(SELECT action FROM dlock_lock WHERE owner_id IS NOT NULL UNION \
             SELECT action FROM dlock_lock WHERE paused_until>UTC_TIMESTAMP(6) UNION \
             SELECT action FROM dlock_waiter) AS wanted ON TRUE \
             LEFT JOIN dlock_lock AS l ON l.action=wanted.action"
            .to_owned(),
        _ => format!("dlock_lock AS l ON {}", selection.includes("l.action")),
    };
    let locks = rows(
        &format!(",r.token AS last_token,r.outcome,r.code,{ended} AS ended_us,{alive} AS alive"),
        &format!(
            "{selected} LEFT JOIN dlock_history AS r ON r.action=l.action AND r.kind=0 AND r.token=(\
             SELECT MAX(m.token) FROM dlock_history AS m WHERE m.action=l.action AND m.kind=0)"
        ),
    );
    format!("{locks};{}", waiters(selection))
}

/// Reads the rows `l` of `from`, and `more` columns. Takes no lock. Returns at least one row, which has the request id,
/// the version and the server time. Its action is NULL if there is no row in `from`.
fn rows(more: &str, from: &str) -> String {
    format!(
        "SELECT {REQUEST},{VERSION_COLUMNS},{SERVER_TIME} AS server_time,l.*,\
         l.has_queue_lock=1 AND l.server={HERE} AS had_queue_lock_here,\
         {revoked} AS revoked_us,{held} AS held_us,{renewed} AS renewed_us,\
         TIMESTAMPDIFF(MICROSECOND,UTC_TIMESTAMP(6),l.paused_until) AS paused_us,\
         TIMESTAMPDIFF(MICROSECOND,UTC_TIMESTAMP(6),l.expires_at) AS left_us{more} \
         FROM (SELECT 1) AS one LEFT JOIN {from} ORDER BY l.action",
        revoked = ago("l.revoked_at"),
        held = ago("l.acquired_at"),
        renewed = ago("l.renewed_at"),
    )
}
