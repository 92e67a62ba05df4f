//! The queue: queue entries, the wait for the queue lock, and the list of waiters.

use super::database_id::read_database;
use super::fragments::{
    HAS_SMALL_POOL, HERE, REQUEST, SESSIONS, SESSIONS_LISTED, ago, assignments, hex,
    owns_queue_lock, queue_lock_name, take_named_lock,
};
use super::selection::Selection;
use super::sessions::STARTED;
use crate::lease::OwnerId;
use crate::lease::action::Action;
use crate::store::{AcquireMode, Contender, POLLER_TIMEOUT, QueueEntry, QueueLock, WaitRequest};

/// Longest wait for a named lock that dlock requests, in seconds: a year. Both MySQL and MariaDB accept it.
const LONGEST_WAIT: u64 = 31_536_000;

/// Inserts a queue entry. If the owner id already has an entry, only updates the session, `polls` and `last_seen_at` of
/// that entry, and `waits_again` if `update` contains it. Changes one row, which the owner id identifies.
///
/// The DELETE matches no row. If the account may not delete, the DELETE fails here. If the packet did not contain this
/// DELETE, the error would occur only after the command has run, when dlock removes the entry. The DELETE comes first,
/// because a statement between the INSERT and the wait for the queue lock would give a later waiter time to start its
/// wait first.
fn insert_entry(contender: &Contender, entry: QueueEntry, update: &str) -> String {
    let polls = u8::from(entry.queue_lock == QueueLock::Unavailable);
    let now = format!(
        "polls={polls},server={HERE},session_id=CONNECTION_ID(),account=CURRENT_USER(),\
         last_seen_at=UTC_TIMESTAMP(6)"
    );
    let inside = contender.inside.as_ref().map_or(String::new(), |outer| {
        let action = hex(outer.action.as_str());
        format!("inside_action={action},inside_token={},", outer.token)
    });
    format!(
        "DELETE FROM dlock_waiter WHERE position=0;\
         INSERT INTO dlock_waiter SET action={},owner_id={},{},{inside}enqueued_at=UTC_TIMESTAMP(6),{now} \
         ON DUPLICATE KEY UPDATE {update}{now};",
        hex(contender.action.as_str()),
        hex(entry.owner_id.bytes()),
        assignments(&contender.holder),
    )
}

/// Inserts or updates the queue entry of a contender that polls or already has the queue lock.
pub(in crate::store::mysql) fn enqueue(contender: &Contender, entry: QueueEntry) -> String {
    insert_entry(contender, entry, "")
}

/// Deletes the queue entry of `owner_id`.
pub(super) fn leave_queue(owner_id: OwnerId) -> String {
    format!(
        "DELETE FROM dlock_waiter WHERE owner_id={};",
        hex(owner_id.bytes())
    )
}

/// Inserts a queue entry and waits for the queue lock, up to the limit of `wait`, rounded up to the next second.
/// Returns 1 if the server reports that this session has the lock. Both statements are in one packet, so that the order
/// of the positions matches the server's own queue for the lock as far as possible. If the entry exists already, marks
/// it: an earlier wait of this waiter has ended, so its place in the server's own queue is later than its position. If
/// `wait` says so, then lets an earlier waiter with such a mark pass.
///
/// After the wait, the packet deletes the entries in `dead` (position and session) that still contain the session that was
/// found dead. A waiter that has lost its connection has a new session then. It would lose its position if its entry were
/// deleted before the wait.
pub(in crate::store::mysql) fn wait_turn(
    contender: &Contender,
    wait: &WaitRequest,
    dead: &[(u64, u64)],
) -> String {
    let seconds = wait.limit.map_or(LONGEST_WAIT, |limit| {
        (limit.as_secs() + 1).min(LONGEST_WAIT)
    });
    let entry = QueueEntry {
        owner_id: wait.owner_id,
        queue_lock: QueueLock::Available,
    };
    let action = hex(contender.action.as_str());
    let name = "@dlock_queue_lock";
    let pass = match wait.lets_pass {
        true => let_earlier_waiter_pass(&action, wait, name, seconds),
        false => String::new(),
    };
    format!(
        "{}SET {name}={};{}SELECT {REQUEST},{} AS answer,{HAS_SMALL_POOL} AS small_pool;{}{}",
        read_database(),
        queue_lock_name(&action),
        insert_entry(contender, entry, "waits_again=1,"),
        take_named_lock(name, seconds),
        delete_entries(dead),
        pass
    )
}

/// Deletes the entries in `dead` (position and session) that still contain this session, and returns 1.
pub(in crate::store::mysql) fn remove_entries(dead: &[(u64, u64)]) -> String {
    format!("{}SELECT {REQUEST},1 AS answer", delete_entries(dead))
}

fn delete_entries(dead: &[(u64, u64)]) -> String {
    let delete = |(position, session): &(u64, u64)| {
        format!("DELETE FROM dlock_waiter WHERE position={position} AND session_id={session};")
    };
    dead.iter().map(delete).collect()
}

/// Returns the column, after a comma, that is true if the action in the row `l` has a queue entry that is older than a
/// second. While nobody waits, only a dead waiter can have such an entry.
pub(super) fn has_old_entry() -> &'static str {
    ",EXISTS(SELECT 1 FROM dlock_waiter AS w WHERE w.action=l.action \
     AND w.enqueued_at<UTC_TIMESTAMP(6)-INTERVAL 1 SECOND) AS has_old_entry"
}

/// Reads the waiters of the actions in `selection`, ordered by position, with the state of each waiter's session. The
/// state is NULL if it is unknown. If the account lacks the PROCESS privilege, the server hides the sessions of other
/// accounts. Sessions on other servers are never visible. Returns at least one row, as `select_record` does.
pub(super) fn waiters(selection: Selection) -> String {
    format!(
        "SELECT {REQUEST},w.*,{waiting} AS waiting_us,\
         CASE WHEN w.polls=1 THEN NOT {is_poller_expired} \
         WHEN w.server<>{HERE} THEN NULL WHEN {is_before_start} THEN 0 WHEN p.id IS NOT NULL THEN 1 \
         WHEN w.account=CURRENT_USER() AND {SESSIONS_LISTED} THEN 0 ELSE NULL END AS alive \
         FROM (SELECT 1) AS one LEFT JOIN (dlock_waiter AS w \
         LEFT JOIN {SESSIONS} AS p ON p.id=w.session_id AND w.server={HERE}) \
         ON {selected} AND NOT EXISTS(\
         SELECT 1 FROM dlock_lock AS h WHERE h.action=w.action AND h.owner_id=w.owner_id) \
         ORDER BY w.position",
        waiting = ago("w.enqueued_at"),
        is_poller_expired = is_poller_expired(),
        is_before_start = is_before_start(),
        selected = selection.includes("w.action"),
    )
}

/// Returns the columns about the queue of `action`: the owner of the queue lock, the number of waiters ahead of `entry`
/// (0 if this process holds the lease), and the time since the first waiter entered the queue.
pub(super) fn queue_columns(action: &str, entry: QueueEntry) -> String {
    let lock_owner = match entry.queue_lock {
        QueueLock::Available => {
            let name = queue_lock_name(action);
            let [behind_other, behind_mark] = [Marks::Ignored, Marks::Only]
                .map(|marks| is_behind("l", entry.owner_id, AcquireMode::IfFree, marks));
            format!(
                "{behind_other} AS behind_other,{behind_mark} AS behind_mark,\
                 IS_USED_LOCK({name}) AS lock_owner,CONNECTION_ID() AS session,\
                 (IS_USED_LOCK({name})=l.session_id AND l.has_queue_lock=1 AND l.server={HERE}) OR EXISTS(\
                 SELECT 1 FROM dlock_waiter AS w WHERE w.action=l.action \
                 AND w.session_id=IS_USED_LOCK({name}) AND w.server={HERE}) AS owner_known,"
            )
        }
        QueueLock::Unavailable => String::new(),
    };
    let owner_id = hex(entry.owner_id.bytes());
    let waits = "w.action=l.action AND NOT w.owner_id<=>l.owner_id";
    let count = |sessions: &str, is_dead: &str| {
        format!(
            "(SELECT COUNT(*) FROM dlock_waiter AS w{sessions} WHERE {waits} AND w.owner_id<>{owner_id} \
             AND NOT {is_dead} AND w.position<COALESCE(\
             (SELECT m.position FROM dlock_waiter AS m WHERE m.owner_id={owner_id}),~0))"
        )
    };
    let counted = count("", &is_poller_expired());
    let ahead = match entry.queue_lock {
        // Pollers decide by this number, so it must not depend on the list of sessions. With the queue lock, it is only
        // displayed. The list is read only for entries that are older than a second, so that contenders that start
        // together do not read it.
        QueueLock::Unavailable => counted,
        QueueLock::Available => format!(
            "IF((SELECT MIN(w.enqueued_at) FROM dlock_waiter AS w WHERE {waits})\
             <UTC_TIMESTAMP(6)-INTERVAL 1 SECOND,{},{counted})",
            count(
                &format!(" LEFT JOIN {SESSIONS} AS p ON p.id=w.session_id"),
                &format!("({})", is_dead())
            )
        ),
    };
    format!(
        ",{lock_owner}IF(l.owner_id={owner_id},0,{ahead}) AS ahead,\
         (SELECT {first} FROM dlock_waiter AS w WHERE {waits}) AS first_us",
        first = ago("MIN(w.enqueued_at)"),
    )
}

/// Entries of waiters that wait for the queue lock of this server, and have waited for it before, in [`is_behind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marks {
    /// They do not count.
    Ignored,
    /// They count if their position is later than this one.
    After(u64),
    /// Only they count.
    Only,
}

/// Returns the condition that a waiter of the action in `row`, a row of `dlock_lock`, came before `owner_id`, and that the
/// order of the queue lock of this server does not contain this waiter, or contains it too late. The first kind of waiter
/// polls, or its session is on another node of the cluster. It counts only while it is alive: it updates `last_seen_at` if
/// it is the first one on its node. The second kind has a mark and [came earlier](came_earlier), and counts as `marks` says.
/// In the first attempt, `owner_id` has no queue entry yet.
pub(super) fn is_behind(row: &str, owner_id: OwnerId, mode: AcquireMode, marks: Marks) -> String {
    let came_earlier = came_earlier(owner_id);
    let owner_id = hex(owner_id.bytes());
    let before = match mode {
        AcquireMode::First => String::new(),
        _ => format!(
            " AND w.owner_id<>{owner_id} AND w.position<COALESCE(\
             (SELECT m.position FROM dlock_waiter AS m WHERE m.owner_id={owner_id}),~0)"
        ),
    };
    let is_elsewhere = format!("(w.polls=1 OR w.server<>{HERE})");
    let is_alive = format!("NOT {}", is_silent());
    let counts = match marks {
        Marks::Ignored => format!("{is_elsewhere} AND {is_alive}"),
        Marks::After(position) => {
            format!(
                "IF({is_elsewhere},{is_alive},w.waits_again=1 AND w.position>{position} AND {came_earlier})"
            )
        }
        Marks::Only => format!("w.waits_again=1 AND NOT {is_elsewhere} AND {came_earlier}"),
    };
    format!(
        "EXISTS(SELECT 1 FROM dlock_waiter AS w WHERE w.action={row}.action AND NOT w.owner_id<=>{row}.owner_id \
         AND {counts}{before})"
    )
}

/// Returns the condition that the waiter `w` entered the queue more than a second before `owner_id`, so that a user notices
/// their order. The server can start the waits of contenders that come together in another order than that of their
/// positions. If they let each other pass, each of a hundred of them would wait for the queue lock up to a hundred times.
fn came_earlier(owner_id: OwnerId) -> String {
    format!(
        "w.enqueued_at<(SELECT m.enqueued_at FROM dlock_waiter AS m WHERE m.owner_id={})-INTERVAL 1 SECOND",
        hex(owner_id.bytes())
    )
}

/// If this session has the queue lock `name` of `action`, and an earlier waiter of this server is alive and waits again,
/// releases the queue lock and waits for it again, up to `seconds` seconds. Such a waiter has lost its connection, or waits
/// in slices, or has let another waiter pass. The server grants a named lock in the order in which the waits have started,
/// so its present wait is too late in that order. Returns the position of that waiter, or NULL. This session waits again in
/// the same packet, so it is in the server's line before another waiter can let it pass.
///
/// A waiter whose first wait continues has no mark, so the server alone decides when it is granted the queue lock. A
/// statement that contains the list of sessions takes half a millisecond longer, so this one is sent only if there is an
/// earlier entry with a mark. An entry that is older than the server's start does not count, because its session has ended.
///
/// A contender lets only waiters pass that [came earlier](came_earlier), with later and later positions. So it cannot
/// wait for ever for waiters that do not use the queue lock.
fn let_earlier_waiter_pass(action: &str, wait: &WaitRequest, name: &str, seconds: u64) -> String {
    format!(
        "SET @dlock_let_pass=IF({owns},(SELECT MIN(w.position) FROM dlock_waiter AS w \
         WHERE w.action={action} AND w.position>{let_pass} \
         AND w.position<(SELECT m.position FROM dlock_waiter AS m WHERE m.owner_id={owner_id}) \
         AND w.waits_again=1 AND {came_earlier} AND w.polls=0 AND w.server={HERE} \
         AND NOT w.owner_id<=>(SELECT l.owner_id FROM dlock_lock AS l WHERE l.action={action}) \
         AND (SELECT COUNT(*) FROM {SESSIONS} AS p WHERE p.id=w.session_id AND p.command<>'Killed' \
         AND NOT {before_start})>0),NULL);\
         DO IF(@dlock_let_pass IS NULL,0,RELEASE_LOCK({name}));\
         SELECT {REQUEST},@dlock_let_pass AS position,IF(@dlock_let_pass IS NULL,0,{take}) AS answer",
        owns = owns_queue_lock(name),
        let_pass = wait.let_pass,
        came_earlier = came_earlier(wait.owner_id),
        owner_id = hex(wait.owner_id.bytes()),
        before_start = is_before_start(),
        take = take_named_lock(name, seconds),
    )
}

/// Reads the queue entries of dead waiters of `action`: waiters whose session has ended, and waiters that have stopped
/// polling. dlock can check only sessions of this account on this server, and sessions before the start of this server.
/// An entry of a session on another server counts as dead a day after its latest update. Only the first 20 entries are
/// checked, because with a thousand waiters each new waiter would otherwise compare a thousand entries with a thousand
/// sessions.
pub(in crate::store::mysql) fn dead_entries(action: &Action) -> String {
    format!(
        "SELECT {REQUEST},w.position,w.session_id \
         FROM (SELECT * FROM dlock_waiter WHERE action={} ORDER BY position LIMIT 20) AS w \
         LEFT JOIN {SESSIONS} AS p ON p.id=w.session_id \
         WHERE {}",
        hex(action.as_str()),
        is_dead()
    )
}

/// Returns the condition that the waiter `w` is dead, for a row that is joined with its session `p` in the list of
/// sessions.
fn is_dead() -> String {
    format!(
        "{} OR (w.polls=0 AND IF(w.server={HERE},\
         {} OR w.account=CURRENT_USER() AND p.id IS NULL AND {SESSIONS_LISTED},\
         w.last_seen_at<UTC_TIMESTAMP(6)-INTERVAL 1 DAY))",
        is_poller_expired(),
        is_before_start()
    )
}

/// Returns the condition that the waiter in `entry`, a row of `dlock_waiter`, is not known to be dead.
pub(super) fn may_be_waiting(entry: &str) -> String {
    format!(
        "EXISTS(SELECT 1 FROM dlock_waiter AS w LEFT JOIN {SESSIONS} AS p ON p.id=w.session_id \
         WHERE w.position={entry}.position AND NOT ({}))",
        is_dead()
    )
}

/// Returns the condition that the waiter `w` of this server has not updated its queue entry since the start of the server.
/// The session in the entry has ended then, and another session may have its id, because a server numbers its sessions
/// from its start. False if the server's clock was set to a time before the start.
fn is_before_start() -> String {
    format!(
        "(TIMESTAMPDIFF(SECOND,'1970-01-01',w.last_seen_at)<{STARTED} AND {STARTED}<=UNIX_TIMESTAMP())"
    )
}

/// Returns the condition that the waiter `w` polls, and that more than [`POLLER_TIMEOUT`] has passed since its latest
/// poll.
fn is_poller_expired() -> String {
    format!("(w.polls=1 AND {})", is_silent())
}

/// Returns the condition that the waiter `w` has not updated its queue entry for more than [`POLLER_TIMEOUT`].
fn is_silent() -> String {
    format!(
        "w.last_seen_at<UTC_TIMESTAMP(6)-INTERVAL {} MICROSECOND",
        POLLER_TIMEOUT.as_micros()
    )
}
