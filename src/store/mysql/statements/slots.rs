//! The leases in slots: the rows of `dlock_slot`.
//!
//! A lease with a limit above 1 is a row of `dlock_slot`. While such a lease exists, the record contains
//! [`OwnerId::SHARED`](crate::lease::OwnerId::SHARED), so no exclusive attempt finds the action free. Each grant of any
//! limit changes the record: it takes the next token there. So the row of the record is locked by one grant at a time,
//! the token of a lease is never used twice, and a cluster certifies grants on different nodes.
//!
//! The session of each holder has a named lock of its own, the holder lock. If that of a holder in a slot is free, the
//! session has ended, as with the queue lock of an exclusive holder.

use std::time::Duration;

use super::super::schema;
use super::attempt::{end_of_old_holder, lease, next_token, required, seen, take_or_pass};
use super::database_id::read_database;
use super::fence::{fence_transaction, passable};
use super::fragments::{
    CHANGED, HERE, NOT_PAUSED, REQUEST, SERVER_TIME, SLOTS, ago, hex, highest_slot_token,
    holder_lock_name, queue_lock_name, take_named_lock,
};
use super::handoff;
use super::history::{insert_run_from_row, is_unnecessary, success};
use super::select::proof;
use super::selection::Selection;
use crate::lease::action::Action;
use crate::lease::limit::Limit;
use crate::lease::{Grant, OwnerId};
use crate::store::session::SLOTS_MARK;
use crate::store::{
    AcquireMode, AcquireRequest, Contender, FenceMode, HistoryOutcome, NotePlace, Noted, QueueLock,
    RoomWait, Version, WaitRequest,
};

/// The token of the record while the transaction has locked it. NULL if it has not.
const LOCKED: &str = "@dlock_locked";

/// Returns the table that contains the leases of `contender`.
pub(super) fn table(contender: &Contender) -> &'static str {
    match contender.limit.is_exclusive() {
        true => "dlock_lock",
        false => SLOTS,
    }
}

/// Returns an SQL expression for the name of the lock that the session of `contender` keeps while it has a lease: the queue
/// lock, or the holder lock of `owner_id`.
pub(super) fn lease_lock_name(contender: &Contender, owner_id: OwnerId) -> String {
    match contender.limit.is_exclusive() {
        true => queue_lock_name(&hex(contender.action.as_str())),
        false => holder_lock_name(&hex(owner_id.bytes())),
    }
}

/// Locks the record, for a transaction that changes a slot. All transactions lock the record before slots.
pub(super) fn lock_record(action: &Action) -> String {
    format!(
        "SET {LOCKED}=NULL;SELECT token INTO {LOCKED} FROM dlock_lock WHERE action={} FOR UPDATE;",
        hex(action.as_str())
    )
}

/// Frees the record if no slot is held any more, and none contains a note of sessions, which the next holder has to end.
/// The transaction has locked the record, so no grant comes between. The record then has no ttl, which a contender would
/// otherwise take for that of a lease that the database may have lost, and the highest token.
pub(super) fn free_shared_record(action: &Action) -> String {
    format!(
        "UPDATE dlock_lock SET owner_id=NULL,ttl_us=0,token=GREATEST(token,{highest}),released_at=UTC_TIMESTAMP(6) \
         WHERE action={action} AND owner_id={shared} \
         AND NOT EXISTS(SELECT 1 FROM dlock_slot AS s WHERE s.action={action} \
         AND (s.owner_id IS NOT NULL OR s.sessions IS NOT NULL));",
        highest = highest_slot_token(action),
        action = hex(action.as_str()),
        shared = hex(OwnerId::SHARED.bytes())
    )
}

/// Returns the value of the column `slots` for `limit`.
fn slots(limit: Limit) -> String {
    limit
        .count()
        .map_or_else(|| "NULL".to_owned(), |count| count.to_string())
}

/// Returns the condition that the limits allow one more lease of `contender`, beside the leases in slots, and that
/// `owner_id` has none of them. An earlier attempt, whose response was lost, may have been granted one.
fn has_room(contender: &Contender, owner_id: OwnerId) -> String {
    let held = format!(
        "FROM dlock_slot AS s WHERE s.action={} AND s.owner_id IS NOT NULL",
        hex(contender.action.as_str())
    );
    // NULL is no limit.
    let own = contender.limit.count();
    let own = own.map_or_else(|| "~0".to_owned(), |count| count.to_string());
    format!(
        "(SELECT COUNT(*) {held})<LEAST({own},COALESCE((SELECT MIN(s.slots) {held}),~0)) \
         AND NOT EXISTS(SELECT 1 {held} AND s.owner_id={})",
        hex(owner_id.bytes())
    )
}

/// Acquires a lease among the leases in slots, as [`exclusive`](super::attempt::exclusive) acquires a lease of an action
/// without them.
///
/// The packet first locks the record with a statement of its own, so that the following statements count the leases
/// that exist then: a statement that waits for the lock counts those from before its wait. The lock has the conditions
/// of an exclusive grant that depend on the queue lock, the database and the queue. Without it, the packet changes
/// nothing, also not the slot of a holder whose renewals this database may have lost. Then the packet frees the slot of a
/// dead holder if the attempt says so, and changes the record if the limits allow one more lease. An exclusive lease is
/// in the record. Any other lease is then written to the free slot with the smallest number, which the packet creates
/// if there is none, the queue entry of the holder is deleted, and the queue lock is released for the next contender. Until the commit,
/// the lock of the record delays that contender's attempt.
pub(super) fn admission(
    contender: &Contender,
    request: &AcquireRequest,
    after_wait: Option<&WaitRequest>,
) -> String {
    let action = hex(contender.action.as_str());
    let name = queue_lock_name(&action);
    let read_database = match request.last_read.and_then(|last| last.database) {
        Some(_) if after_wait.is_none() => read_database(),
        _ => String::new(),
    };
    let take = take_or_pass(contender, request, after_wait, &name);
    let fence = match request.mode {
        AcquireMode::TakeOver { fenced: true, .. }
        | AcquireMode::AmongSlots { fenced: true, .. } => FenceMode::Advance,
        _ => contender.fence,
    };
    let is_exclusive = contender.limit.is_exclusive();
    let owner_id = match is_exclusive {
        true => request.owner_id,
        false => OwnerId::SHARED,
    };
    let (begin, commit) = match fence {
        FenceMode::Advance => fence_transaction(
            &contender.action,
            &format!("owner_id={} AND {CHANGED}>0", hex(owner_id.bytes())),
        ),
        FenceMode::Unchanged => ("BEGIN;".to_owned(), "COMMIT;".to_owned()),
    };
    let required = required(request, after_wait, &name);
    let lock = format!(
        "SET {LOCKED}=NULL;SELECT token INTO {LOCKED} FROM dlock_lock WHERE action={action}{required} FOR UPDATE;"
    );
    let conditions = format!("{NOT_PAUSED} AND {LOCKED} IS NOT NULL{}", passable(fence));
    let end_of_old = end_of_old_holder(contender, request.mode, &conditions);
    let free = match request.mode {
        AcquireMode::AmongSlots {
            dead: Some((slot, version)),
            ..
        } => free_dead_slot(contender, slot, version),
        _ => String::new(),
    };
    let update = update_record(contender, request, fence);
    let (take_holder_lock, write) = match is_exclusive {
        true => Default::default(),
        false => write_slot(contender, request, &name),
    };
    let proof = match is_exclusive {
        true => proof(contender, CHANGED, request),
        false => proof_of_slot(contender, request.owner_id),
    };
    format!(
        "{read_database}{take}{take_holder_lock}{begin}{lock}{end_of_old}{free}{update}\
         SET {CHANGED}=ROW_COUNT();{write}{commit}{proof}"
    )
}

/// Returns the UPDATE that takes the next token in the record if the contender may be granted a lease.
fn update_record(contender: &Contender, request: &AcquireRequest, fence: FenceMode) -> String {
    let fenced = match fence {
        FenceMode::Advance => "fenced=1,",
        FenceMode::Unchanged => "",
    };
    let shared = hex(OwnerId::SHARED.bytes());
    // The success of a run is recorded after its hand-off.
    let handed_off = match request.queue_lock {
        QueueLock::Available if contender.once.is_none() => {
            format!(" OR {}", handoff::handoff_is_set())
        }
        _ => String::new(),
    };
    let expected = match request.mode {
        AcquireMode::TakeOver { version, .. } => seen(version),
        AcquireMode::AmongSlots { .. } if contender.limit.is_exclusive() => {
            format!("(owner_id IS NULL OR owner_id={shared})")
        }
        AcquireMode::First | AcquireMode::IfFree | AcquireMode::AmongSlots { .. } => {
            format!("(owner_id IS NULL OR owner_id={shared}{handed_off})")
        }
    };
    let lease = match contender.limit.is_exclusive() {
        true => format!(
            "{},{}",
            lease(
                contender,
                request.owner_id,
                request.queue_lock,
                "has_queue_lock=1",
            ),
            mark_noted_slots()
        ),
        false => format!("renewals=0,{}", shared_lease()),
    };
    let not_done = is_unnecessary(contender)
        .map_or_else(String::new, |condition| format!(" AND NOT {condition}"));
    format!(
        "UPDATE dlock_lock SET {fenced}token={next_token},{lease} \
         WHERE action={action} AND {LOCKED} IS NOT NULL AND {version} AND {expected} AND {NOT_PAUSED}{not_done}{passable} AND {has_room};",
        next_token = next_token(request, Some(&contender.action)),
        action = hex(contender.action.as_str()),
        version = schema::current().accepts_tables(),
        passable = passable(fence),
        has_room = has_room(contender, request.owner_id),
    )
}

/// Returns the assignments, except for the token and the renewals, that put the leases into slots.
fn shared_lease() -> String {
    // No rule for a take-over applies to the record, also not the rules of programs that know no slots.
    format!(
        "owner_id={},holder='shared',host='',pid=0,user='',note='',pod='',namespace='',command='',\
         server='',session_id=0,has_queue_lock=0,ttl_us={},min_hold=0,revoked_at=NULL,\
         acquired_at=UTC_TIMESTAMP(6),renewed_at=UTC_TIMESTAMP(6),\
         expires_at='9999-12-31',released_at=NULL",
        hex(OwnerId::SHARED.bytes()),
        365_u64 * 86_400 * 1_000_000
    )
}

/// Writes a lost grant to its slot again, with `lease` as the assignments. The condition is that of
/// [`can_reassert`](crate::store::lost_grant::can_reassert), and the token in the slot must be smaller than the token of
/// the grant, so that a packet that arrives late or twice changes nothing. The database may also have lost the rows of the
/// slots, whose numbers have no gap.
pub(super) fn reassert(contender: &Contender, grant: Grant, lease: &str) -> String {
    let action = hex(contender.action.as_str());
    let token = grant.token;
    let numbers = (1..=grant.slot).map(|number| format!("SELECT {number} AS slot"));
    format!(
        "BEGIN;SET {LOCKED}=NULL;SELECT token INTO {LOCKED} FROM dlock_lock WHERE action={action} AND {version} \
         AND token<{token} AND (owner_id IS NULL OR owner_id={shared} OR min_hold=1) AND {NOT_PAUSED}{unfenced} FOR UPDATE;\
         SET {LOCKED}=IF({has_room},{LOCKED},NULL);\
         INSERT INTO dlock_slot (action,slot) SELECT {action},n.slot FROM ({numbers}) AS n WHERE {LOCKED} IS NOT NULL \
         ON DUPLICATE KEY UPDATE action=dlock_slot.action;\
         UPDATE dlock_slot SET slots={slots},{lease} \
         WHERE action={action} AND slot={slot} AND owner_id IS NULL AND token<{token} AND {LOCKED} IS NOT NULL;\
         SET {CHANGED}=ROW_COUNT();\
         UPDATE dlock_lock SET renewals=renewals+1,{shared_lease} WHERE action={action} AND {CHANGED}>0;COMMIT;",
        version = schema::current().accepts_tables(),
        shared = hex(OwnerId::SHARED.bytes()),
        unfenced = passable(FenceMode::Unchanged),
        has_room = has_room(contender, grant.owner_id),
        numbers = numbers.collect::<Vec<_>>().join(" UNION ALL "),
        slots = slots(contender.limit),
        slot = grant.slot,
        shared_lease = shared_lease(),
    )
}

/// Returns the assignment that marks the record of an exclusive holder if slots contain notes, which each later holder has
/// to read until they are removed. The packets of exclusive holders do not read the slots.
fn mark_noted_slots() -> String {
    format!(
        "sessions=IF(COALESCE(LEFT(sessions,{length}),'')<>'{SLOTS_MARK}' AND EXISTS(SELECT 1 FROM dlock_slot AS n \
         WHERE n.action=dlock_lock.action AND n.sessions IS NOT NULL),\
         CONCAT('{SLOTS_MARK}',COALESCE(sessions,'')),sessions)",
        length = SLOTS_MARK.len(),
    )
}

/// Returns the statement that takes the holder lock, and the statements that write the lease to a slot if the record was
/// changed.
fn write_slot(contender: &Contender, request: &AcquireRequest, name: &str) -> (String, String) {
    let action = hex(contender.action.as_str());
    let holder_lock = holder_lock_name(&hex(request.owner_id.bytes()));
    let owns = format!("has_queue_lock=COALESCE(IS_USED_LOCK({holder_lock})=CONNECTION_ID(),0)");
    let (take, pass) = match request.queue_lock {
        QueueLock::Available => (
            format!("DO {};", take_named_lock(&holder_lock, 0)),
            format!("SET @dlock_passed=IF({CHANGED}>0,RELEASE_LOCK({name}),0);"),
        ),
        QueueLock::Unavailable => Default::default(),
    };
    let write = format!(
        "INSERT INTO dlock_slot (action,slot) SELECT {action},COUNT(*)+1 FROM dlock_slot AS s \
         WHERE s.action={action} HAVING {CHANGED}>0 AND COUNT(*)=COUNT(s.owner_id) \
         ON DUPLICATE KEY UPDATE action=dlock_slot.action;\
         UPDATE dlock_slot SET token=(SELECT token FROM dlock_lock WHERE action={action}),slots={slots},{lease} \
         WHERE action={action} AND owner_id IS NULL AND {CHANGED}>0 ORDER BY slot LIMIT 1;\
         SET {CHANGED}=ROW_COUNT();DELETE FROM dlock_waiter WHERE owner_id={owner_id} AND EXISTS(SELECT 1 FROM dlock_slot AS s \
         WHERE s.action={action} AND s.owner_id={owner_id});{pass}",
        slots = slots(contender.limit),
        lease = lease(contender, request.owner_id, request.queue_lock, &owns),
        owner_id = hex(request.owner_id.bytes()),
    );
    (take, write)
}

/// Frees the slot of a dead holder if its lease still has `version`, and records its run as lost. A lease whose holder lock
/// is owned by its session is never freed.
fn free_dead_slot(contender: &Contender, slot: u32, version: Version) -> String {
    let action = &contender.action;
    let is_alive = format!(
        "(has_queue_lock=1 AND server={HERE} AND session_id<=>IS_USED_LOCK({}))",
        holder_lock_name("owner_id")
    );
    let condition = format!(
        "action={} AND slot={slot} AND owner_id IS NOT NULL AND {} AND NOT {is_alive} \
         AND {LOCKED} IS NOT NULL AND {}",
        hex(action.as_str()),
        seen(version),
        schema::current().accepts_tables(),
    );
    let record = match contender.history {
        0 => String::new(),
        _ => insert_run_from_row(
            SLOTS,
            HistoryOutcome::Lost,
            &format!("{condition} AND min_hold=0 AND revoked_at IS NULL"),
        ),
    };
    format!(
        "{record}UPDATE dlock_slot SET owner_id=NULL,released_at=UTC_TIMESTAMP(6) WHERE {condition};"
    )
}

/// Reads the lease in a slot of the contender after an attempt, as [`proof`] does for an exclusive one. Returns no row if the
/// action has no row.
fn proof_of_slot(contender: &Contender, owner_id: OwnerId) -> String {
    let (success, join) = success(contender);
    format!(
        "SELECT {REQUEST},{SERVER_TIME} AS server_time,{CHANGED}>0 AS changed,\
         COALESCE(s.token,l.token) AS token,s.owner_id,s.revoked_at IS NOT NULL AS revoked,s.slot,\
         l.sessions IS NOT NULL OR EXISTS(SELECT 1 FROM dlock_slot AS n WHERE n.action=l.action \
         AND n.sessions IS NOT NULL AND (n.owner_id IS NULL OR n.owner_id={owner_id})) AS has_sessions{success} \
         FROM dlock_lock AS l{join} LEFT JOIN dlock_slot AS s ON s.action=l.action AND s.owner_id={owner_id} \
         WHERE l.action={action}",
        owner_id = hex(owner_id.bytes()),
        action = hex(contender.action.as_str()),
    )
}

/// Waits for room among the leases in slots, for at most `limit`, and returns 1.
///
/// For one holder, the statement waits for its holder lock. For several, it looks at their holder locks again and again, with
/// growing pauses, and ends when so many are released that the limits allow one more lease. It reads the rows only once, at
/// its beginning, but each look reads the locks. Nothing else shows a release within a statement. The argument of the lock
/// depends on the number of the look, because a server may otherwise look only once. The session reads the identity of the
/// database first, as before a wait for the queue lock.
pub(in crate::store::mysql) fn wait_room(
    contender: &Contender,
    room: &RoomWait,
    limit: Option<Duration>,
) -> String {
    let limit = limit.map_or(room.longest, |limit| limit.min(room.longest));
    let database = read_database();
    // MySQL rounds the limit of a named lock to whole seconds.
    if let Some(holder) = room.holder
        && limit >= Duration::from_secs(1)
    {
        let name = holder_lock_name(&hex(holder.bytes()));
        return format!(
            "{database}SET @dlock_left=GET_LOCK({name},{seconds});DO IF(@dlock_left=1,RELEASE_LOCK({name}),0);\
             SELECT {REQUEST},1 AS answer",
            seconds = limit.as_secs(),
        );
    }
    let digits = (0..10).map(|digit| format!("SELECT {digit} AS d"));
    let digits = digits.collect::<Vec<_>>().join(" UNION ALL ");
    let of_time = (room.held_for.as_secs_f64() * LOOK_PAUSE_PER_TIME).min(LONGEST_FIRST_LOOK_PAUSE);
    let of_holders = LOOK_PAUSE_PER_HOLDER * f64::from(room.holders);
    let first = FIRST_LOOK_PAUSE.max(of_holders).max(of_time);
    format!(
        "{database}SELECT {REQUEST},1 AS answer FROM (SELECT 1) AS one LEFT JOIN (SELECT look FROM (\
         SELECT a.d*1000+b.d*100+c.d*10+e.d AS look FROM (SELECT 0 AS d UNION ALL SELECT 1) AS a CROSS JOIN ({digits}) AS b \
         CROSS JOIN ({digits}) AS c CROSS JOIN ({digits}) AS e ORDER BY look LIMIT {looks}) AS looks \
         WHERE IF((SELECT COUNT(*)+{without_lock}<LEAST({own},COALESCE(MIN(s.slots),~0)) \
         FROM dlock_slot AS s WHERE s.action={action} AND s.owner_id IS NOT NULL \
         AND s.session_id=IS_USED_LOCK(CONCAT({lock},LEFT(look,0)))),TRUE,SLEEP({first}*POW({LOOK_PAUSE_GROWTH},look))) \
         LIMIT 1) AS looked ON TRUE",
        looks = looks(limit, first),
        without_lock = room.without_lock,
        own = room
            .limit
            .count()
            .map_or_else(|| "~0".to_owned(), |it| it.to_string()),
        action = hex(contender.action.as_str()),
        lock = holder_lock_name("s.owner_id"),
    )
}

/// Pause after the first look at the holder locks, in seconds. Half of a pause delays a grant on average.
const FIRST_LOOK_PAUSE: f64 = 0.0005;

/// Minimum of this pause for each holder. A look takes the server a few microseconds for each of them.
const LOOK_PAUSE_PER_HOLDER: f64 = 0.00001;

/// Minimum of this pause as a part of the time since the latest grant. Without it, each new statement of a head that waits for
/// long would begin with short pauses.
const LOOK_PAUSE_PER_TIME: f64 = 0.0005;

/// Maximum of this minimum, in seconds. A head then looks about 40 times a second.
const LONGEST_FIRST_LOOK_PAUSE: f64 = 0.02;

/// Factor between two pauses. So a pause is about a five hundredth of the time since the first look, and 20 ms after 10 s.
const LOOK_PAUSE_GROWTH: f64 = 1.002;

/// Maximum number of looks in a statement.
const MAX_LOOKS: u32 = 2000;

/// Returns the number of looks whose pauses together are not longer than `limit`, at least 1.
fn looks(limit: Duration, first: f64) -> u32 {
    let sum = limit.as_secs_f64() / first * (LOOK_PAUSE_GROWTH - 1.0) + 1.0;
    let looks = sum.log(LOOK_PAUSE_GROWTH).floor();
    // The number has no sign and few digits.
    (1..MAX_LOOKS)
        .rev()
        .find(|count| f64::from(*count) <= looks)
        .unwrap_or(1)
}

/// Reads the slots of `action` that contain a note of sessions, and the record as slot 0 if it contains one. Returns at
/// least one row.
pub(in crate::store::mysql) fn select_notes(action: &Action) -> String {
    let action = hex(action.as_str());
    format!(
        "SELECT {REQUEST},s.action,s.slot,s.owner_id,s.sessions FROM (SELECT 1) AS one LEFT JOIN (\
         SELECT action,0 AS slot,owner_id,sessions FROM dlock_lock WHERE action={action} UNION ALL \
         SELECT action,slot,owner_id,sessions FROM dlock_slot WHERE action={action}) AS s \
         ON s.sessions IS NOT NULL ORDER BY s.slot"
    )
}

/// Removes a note of sessions from a row that nobody holds, if the row still contains it, and returns 1.
pub(in crate::store::mysql) fn remove_note(action: &Action, noted: &Noted) -> String {
    let action = hex(action.as_str());
    let row = match noted.place {
        NotePlace::Own => String::new(),
        NotePlace::Record => format!(
            "dlock_lock SET sessions=NULL WHERE action={action} AND owner_id={}",
            hex(OwnerId::SHARED.bytes())
        ),
        NotePlace::Slot(number) => format!(
            "dlock_slot SET sessions=NULL WHERE action={action} AND slot={number} AND owner_id IS NULL"
        ),
    };
    let remove = match row.is_empty() {
        true => row,
        false => format!("UPDATE {row} AND sessions={};", hex(&noted.text)),
    };
    format!("{remove}SELECT {REQUEST},1 AS answer")
}

/// Reads the leases in slots of the actions in `selection`, or only that of the owner id `only`. The statement takes no
/// lock, and returns at least one row.
pub(in crate::store::mysql) fn select_slots(
    selection: Selection,
    queue_lock: QueueLock,
    only: Option<OwnerId>,
) -> String {
    // Such a server may refuse the function too.
    let alive = match queue_lock {
        QueueLock::Available => format!(
            "IF(s.has_queue_lock=1 AND s.server={HERE},\
             COALESCE(IS_USED_LOCK({})=s.session_id,0),NULL)",
            holder_lock_name("s.owner_id")
        ),
        QueueLock::Unavailable => "NULL".to_owned(),
    };
    let only = only.map_or_else(String::new, |owner_id| {
        format!(" AND s.owner_id={}", hex(owner_id.bytes()))
    });
    format!(
        "SELECT {REQUEST},s.*,s.has_queue_lock=1 AND s.server={HERE} AS had_queue_lock_here,{alive} AS alive,\
         {revoked} AS revoked_us,{held} AS held_us,{renewed} AS renewed_us,\
         TIMESTAMPDIFF(MICROSECOND,UTC_TIMESTAMP(6),s.expires_at) AS left_us \
         FROM (SELECT 1) AS one LEFT JOIN dlock_slot AS s ON {selected} AND s.owner_id IS NOT NULL{only} \
         ORDER BY s.action,s.slot",
        revoked = ago("s.revoked_at"),
        held = ago("s.acquired_at"),
        renewed = ago("s.renewed_at"),
        selected = selection.includes("s.action"),
    )
}
