//! SELECT statements that read records, waiters and ownership, including the columns that identify the response.

use super::super::schema::VERSION_COLUMNS;
use super::database_id::{DATABASE, database, read_database};
use super::fragments::{
    CHANGED, HERE, REQUEST, SERVER_TIME, SESSIONS, ago, hex, holder_lock_name, queue_lock_name,
};
use super::history::success;
use super::queue::{has_old_entry, may_be_waiting, queue_columns, waiters};
use super::selection::Selection;
use super::session::NO_EFFECT;
use crate::lease::action::Action;
use crate::lease::once::Once;
use crate::store::{AcquireRequest, Contender, QueueEntry, QueueLock};

/// Variable of a session: the beginning of the statement that sets `wsrep_sync_wait`, or of a comment.
const SET_SYNC_WAIT: &str = "@dlock_set_sync_wait";

/// Reads the owner in the row of the contender's action, and a flag: `changed`, the number of rows that the attempt has
/// changed, is not 0. The statement reads only the columns that a grant needs, because all waiters behind the contender wait for the grant.
/// Returns no row if the action has no row.
///
/// After a grant, the statement also takes the holder lock, for which followers of the leader wait. Nothing else depends on
/// the holder lock of an exclusive lease.
pub(super) fn proof(contender: &Contender, changed: &str, request: &AcquireRequest) -> String {
    let (success, join) = success(contender);
    let is_granted = match request.queue_lock {
        QueueLock::Available => format!(
            "IF({changed}>0,COALESCE(GET_LOCK({},0),0)+1,0)>0",
            holder_lock_name(&hex(request.owner_id.bytes()))
        ),
        QueueLock::Unavailable => format!("{changed}>0"),
    };
    let old_entry = match request.prune_dead {
        true => has_old_entry(),
        false => "",
    };
    format!(
        "SELECT {REQUEST},{SERVER_TIME} AS server_time,{is_granted} AS changed,l.token,l.owner_id,\
         l.revoked_at IS NOT NULL AS revoked,l.sessions IS NOT NULL AS has_sessions{old_entry}{success} FROM dlock_lock AS l{join} WHERE l.action={}",
        hex(contender.action.as_str()),
    )
}

/// Reads the row of the contender's action, the `changed` flag of the preceding statement, and the success that makes a
/// run unnecessary. If there is an `entry`, also reads the state of the queue and the identity of the database.
pub(in crate::store::mysql) fn select_record(
    contender: &Contender,
    entry: Option<QueueEntry>,
) -> String {
    match entry {
        Some(entry) => {
            let queue = queue_columns(&hex(contender.action.as_str()), entry);
            let columns = format!("{queue},{DATABASE} AS dlock_database");
            format!("{}{}", read_database(), record_rows(contender, &columns))
        }
        None => record_rows(contender, ""),
    }
}

/// Reads the row of the contender's action and the success that makes a run unnecessary. For `--once` without a key, also
/// reads the keys under which other successes are recorded.
pub(in crate::store::mysql) fn select_success(contender: &Contender) -> String {
    let keys = match &contender.once {
        Some(Once::Ever(key)) if key.as_str().is_empty() => format!(
            ",(SELECT GROUP_CONCAT(k.once_key ORDER BY k.done_at DESC SEPARATOR '\n') FROM (\
             SELECT once_key,done_at FROM dlock_success WHERE action={} AND once_key<>'' \
             ORDER BY done_at DESC LIMIT 3) AS k) AS done_keys",
            hex(contender.action.as_str())
        ),
        _ => String::new(),
    };
    record_rows(contender, &keys)
}

/// Reads what [`select_record`] reads for the waiter with `entry`, with one statement, for a new session.
pub(in crate::store::mysql) fn glance(contender: &Contender, entry: QueueEntry) -> String {
    let queue = queue_columns(&hex(contender.action.as_str()), entry);
    let alive = holder_alive(entry.queue_lock);
    let (database, deadlock) = (database(), deadlock());
    record_rows(
        contender,
        &format!("{queue},{database} AS dlock_database,{alive} AS alive{deadlock}"),
    )
}

/// Reads the row of the contender's action, with the additional `columns`.
fn record_rows(contender: &Contender, columns: &str) -> String {
    let (success, join) = success(contender);
    rows(
        &format!(",{CHANGED}>0 AS changed{success}{columns}"),
        &format!(
            "dlock_lock AS l ON l.action={}{join}",
            hex(contender.action.as_str())
        ),
    )
}

/// Returns an expression for the state of the holder's session in the row `l`: 1 if it is alive, 0 if it has ended, NULL if
/// the row does not show it.
///
/// The session normally keeps the queue lock until the release, so the owner of the queue lock shows whether it is alive.
fn holder_alive(queue_lock: QueueLock) -> String {
    // Such a server may refuse the function too.
    if queue_lock == QueueLock::Unavailable {
        return "NULL".to_owned();
    }
    format!(
        "CASE WHEN l.owner_id IS NULL OR l.min_hold=1 OR l.server<>{HERE} THEN NULL \
         WHEN l.has_queue_lock=1 THEN COALESCE(IS_USED_LOCK({})=l.session_id,0) ELSE NULL END",
        queue_lock_name("l.action")
    )
}

/// Returns the column, after a comma, with the action that the holder's command in the row `l` waits for, and whose
/// holder's command waits for this action. The entries of both waiters show under which lease they run. Their sessions are
/// read only if a waiter of this action runs under a lease.
fn deadlock() -> String {
    format!(
        ",IF(l.owner_id IS NOT NULL AND EXISTS(SELECT 1 FROM dlock_waiter AS w \
         WHERE w.action=l.action AND w.inside_action IS NOT NULL),\
         (SELECT MIN(o.action) FROM dlock_waiter AS theirs JOIN dlock_lock AS o ON o.owner_id IS NOT NULL \
         AND o.action=theirs.inside_action AND o.token=theirs.inside_token JOIN dlock_waiter AS ours \
         ON ours.action=o.action AND ours.inside_action=l.action AND ours.inside_token=l.token \
         WHERE theirs.action=l.action AND {} AND {}),NULL) AS deadlock_with",
        may_be_waiting("theirs"),
        may_be_waiting("ours")
    )
}

/// Returns a table of the leases under which a process waits for another action, with the first of these actions. The
/// table is small, and the server creates it once for a statement.
fn waits_inside() -> String {
    format!(
        "(SELECT t.inside_action,t.inside_token,MIN(t.action) AS waits_for FROM dlock_waiter AS t \
         WHERE t.inside_action IS NOT NULL AND {} GROUP BY t.inside_action,t.inside_token)",
        may_be_waiting("t")
    )
}

/// Returns 1 if the holder of `action` has no queue lock, but a session that is alive on this server.
pub(in crate::store::mysql) fn has_session_without_queue_lock(action: &Action) -> String {
    format!(
        "SELECT {REQUEST},EXISTS(SELECT 1 FROM dlock_lock AS l JOIN {SESSIONS} AS p ON p.id=l.session_id \
         WHERE l.action={} AND l.owner_id IS NOT NULL AND l.has_queue_lock=0 AND l.server={HERE} \
         AND p.command<>'Killed') AS answer",
        hex(action.as_str())
    )
}

/// Reads the rows of the actions in `selection`, each with the most recent completed run. If named locks are available,
/// also reads the state of each holder's session. Then reads the waiters.
///
/// The state of a session without the queue lock is not read, because every query that contains the list of sessions takes
/// a third of a millisecond longer.
pub(in crate::store::mysql) fn select_snapshot(
    selection: Selection,
    queue_lock: QueueLock,
) -> String {
    let alive = holder_alive(queue_lock);
    let ended = ago("r.ended_at");
    let selected = match selection {
        // Each part of the UNION uses an index. If the conditions were combined with OR, the server could not use an
        // index.
        Selection::Active => "(SELECT action FROM dlock_lock WHERE owner_id IS NOT NULL UNION \
             SELECT action FROM dlock_lock WHERE paused_until>UTC_TIMESTAMP(6) UNION \
             SELECT action FROM dlock_waiter) AS wanted ON TRUE \
             LEFT JOIN dlock_lock AS l ON l.action=wanted.action"
            .to_owned(),
        _ => format!("dlock_lock AS l ON {}", selection.includes("l.action")),
    };
    let locks = rows(
        &format!(
            ",r.token AS last_token,r.outcome,r.code,r.dlock_status,{ended} AS ended_us,{alive} AS alive,i.waits_for{}",
            deadlock()
        ),
        &format!(
            "{selected} LEFT JOIN {} AS i ON i.inside_action=l.action AND i.inside_token=l.token LEFT JOIN dlock_history AS r ON r.action=l.action AND r.kind=0 AND r.token=(\
             SELECT MAX(m.token) FROM dlock_history AS m WHERE m.action=l.action AND m.kind=0)",
            waits_inside(),
        ),
    );
    format!("{locks};{}", waiters(selection))
}

/// Reads the rows `l` from `from`, with the additional columns `more`. The statement takes no lock, and returns at
/// least one row. Each row contains the request id, the version and the server time. If `from` has no row, the action
/// in the returned row is NULL.
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

/// Makes the statements `select` wait, on a node of a Galera cluster, until the node has applied all writes that the
/// cluster had committed before (`wsrep_sync_wait`). Otherwise a node that lags returns old rows. If the node applies no
/// writes, the request fails after its time limit. A node outside the primary part, which returns old rows if
/// `wsrep_dirty_reads` is on, then refuses the statements. Changes nothing on other servers. Some builds of MariaDB do not
/// have these variables, so the statement that sets them is a text.
pub(in crate::store::mysql) fn synchronized(select: &str) -> String {
    let set = |value: &str| {
        format!("/*M! EXECUTE IMMEDIATE CONCAT({SET_SYNC_WAIT},'{value}')*//*!80000 {NO_EFFECT}*/;")
    };
    format!(
        "SET {SET_SYNC_WAIT}=COALESCE({SET_SYNC_WAIT},/*M! (SELECT \
         IF(COUNT(*)>0,'SET SESSION wsrep_dirty_reads=OFF,wsrep_sync_wait=','DO 0#') \
         FROM information_schema.global_variables \
         WHERE variable_name='WSREP_ON' AND variable_value='ON'),*/'');{}{select};{}",
        set("1"),
        set("DEFAULT")
    )
}

/// Reads the names of at most `limit` actions whose names begin with `prefix`, in byte order. The condition is a range
/// of the primary key, so the server reads only these rows.
pub(in crate::store::mysql) fn select_names(prefix: &str, limit: u32) -> String {
    let mut end = prefix.as_bytes().to_vec();
    let range = match end.last_mut() {
        None => String::new(),
        Some(last) => {
            // No byte of UTF-8 is 0xff, so the byte cannot overflow.
            *last += 1;
            format!(" WHERE action>={} AND action<{}", hex(prefix), hex(end))
        }
    };
    format!("SELECT {REQUEST},action FROM dlock_lock{range} ORDER BY action LIMIT {limit}")
}
