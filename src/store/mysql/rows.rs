//! Converts the rows of a response to [`LockRecord`]s, [`QueueState`]s and [`Waiter`]s, and checks that the response
//! belongs to the request. A column that is missing in the response counts as NULL.

use std::num::NonZeroU32;
use std::time::Duration;

use mysql::Row;

use super::columns::{
    elapsed, first_row, flag, malformed, non_negative, optional, required, text, time,
};
use super::schema::{self, TablesVersion};
use super::session_rows::session_note;
use crate::lease::action::Action;
use crate::lease::limit::Limit;
use crate::lease::{OwnerId, Token};
use crate::mutant::{self, Safeguard};
use crate::store::prune::Prunable;
use crate::store::read_back::{AttemptReadBack, NextGrant, ReleaseReadBack};
use crate::store::session::{SLOTS_MARK, SessionNote};
use crate::store::{
    DatabaseId, EarlierSessions, Expiry, Failure, FailureKind, History, HistoryEntry,
    HistoryOutcome, Holder, LastRun, Lease, LockRecord, Operator, Owner, Pause, QueueLockOwner,
    QueueState, Renewed, Response, ServerTime, Slot, Success, Version, Waiter,
};

/// The number of a slot, or 0 for the record, its owner, the note in it, and the text of the note.
pub(super) type SlotNote = (u32, Option<OwnerId>, SessionNote, String);

/// Result of a read of one action.
#[derive(Debug)]
pub(super) struct ReadResult {
    /// Record of the action. None if the action has no row.
    pub(super) row: Option<LockRecord>,
    queue: QueueState,
    /// Success that makes the run unnecessary. None if there is no such success, or if the request does not read it.
    pub(super) success: Option<Success>,
    /// True if the preceding statement changed a row.
    pub(super) changed: bool,
}

impl ReadResult {
    /// Returns this result with the record of an unused action if the action has no row. A database that a backup or an
    /// older replica has replaced may contain no row of an action that was granted before.
    pub(super) fn or_unknown(mut self, action: &Action) -> Self {
        let unknown = || LockRecord::unknown(action.clone());
        self.row.get_or_insert_with(unknown);
        self
    }

    /// Returns `AlreadyDone` if there is a success, otherwise the `response` for the record and the queue.
    pub(super) fn unless_done(
        self,
        response: impl FnOnce(LockRecord, QueueState) -> Response,
    ) -> Result<Response, Failure> {
        match (self.success, self.row) {
            (Some(success), _) => Ok(Response::AlreadyDone(success)),
            (None, Some(row)) => Ok(response(row, self.queue)),
            (None, None) => Err(row_missing()),
        }
    }
}

/// Checks that each row contains the `request_id`. Returns the server time, or None if the response does not contain
/// it.
pub(super) fn check(sets: &[Vec<Row>], request_id: [u8; 8]) -> Result<Option<ServerTime>, Failure> {
    let mut time = None;
    for row in sets.iter().flatten() {
        check_row(row, request_id)?;
        time = time.or(optional(row, "server_time")?.map(ServerTime));
    }
    Ok(time)
}

/// Checks that the row contains the `request_id`.
pub(super) fn check_row(row: &Row, request_id: [u8; 8]) -> Result<(), Failure> {
    let found: Option<Vec<u8>> = optional(row, "request")?;
    match found.as_deref() == Some(&request_id) || mutant::is_disabled(Safeguard::OwnReply) {
        true => Ok(()),
        false => Err(malformed("it belongs to another request")),
    }
}

/// Returns the version and the name of the server from the first row of a response. None if it contains no row.
pub(super) fn server_facts(sets: &[Vec<Row>]) -> Option<(String, String)> {
    let row = sets.first()?.first()?;
    let version: Option<Vec<u8>> = optional(row, "server_version").ok()?;
    let version = String::from_utf8_lossy(&version?).into_owned();
    Some((version, text(row, "server_name").ok()?))
}

/// Reads the row of a `select_record` statement.
///
/// # Errors
/// Returns `Unknown` if the response is malformed, and `Config` if this dlock does not work with the tables.
pub(super) fn read_result(sets: &[Vec<Row>]) -> Result<ReadResult, Failure> {
    let row = versioned(sets)?;
    let mut record = action(row)?.map(|action| record(row, action)).transpose()?;
    if let Some(record) = &mut record {
        record.slots = slots(sets.get(1..).unwrap_or_default())?;
    }
    Ok(ReadResult {
        row: record,
        queue: queue(row)?,
        success: success(row)?,
        changed: changed(row)?,
    })
}

/// Reads the rows of a `select_notes` statement: the number of each slot with a note, its owner, and the note. Leaves out
/// notes that this dlock cannot read.
pub(super) fn slot_notes(sets: &[Vec<Row>]) -> Result<Vec<SlotNote>, Failure> {
    let notes = each(sets.iter().flatten(), |row, _| {
        let (number, owner_id) = (required(row, "slot")?, owner_id(row)?);
        let text = text(row, "sessions")?;
        Ok(session_note(row)?.map(|note| (number, owner_id, note, text)))
    })?;
    Ok(notes.into_iter().flatten().collect())
}

/// Reads the rows of a `select_slots` statement about one action.
pub(super) fn slots(sets: &[Vec<Row>]) -> Result<Vec<Slot>, Failure> {
    each(sets.iter().flatten(), |row, _| slot(row))
}

/// Reads the rows of a `select_slots` statement, each with its action.
pub(super) fn slots_of_actions(sets: &[Vec<Row>]) -> Result<Vec<(Action, Slot)>, Failure> {
    each(sets.iter().flatten(), |row, action| {
        Ok((action, slot(row)?))
    })
}

/// Reads the first row of each SELECT of a snapshot: the server's time, and true if the server is read-only.
pub(super) fn snapshot_head(sets: &[Vec<Row>]) -> Result<(ServerTime, bool), Failure> {
    let server_time = ServerTime(required(versioned(sets)?, "server_time")?);
    match sets.len() {
        2 => Ok((server_time, is_read_only(sets)?)),
        _ => Err(malformed("it is not complete")),
    }
}

fn slot(row: &Row) -> Result<Slot, Failure> {
    Ok(Slot {
        number: required(row, "slot")?,
        limit: optional(row, "slots")?
            .and_then(NonZeroU32::new)
            .map_or(Limit::NONE, Limit::new),
        lease: lease(row)?,
        sessions: session_note(row)?.map(Box::new),
    })
}

/// Returns true if the server is read-only. False if the response does not show it.
pub(super) fn is_read_only(sets: &[Vec<Row>]) -> Result<bool, Failure> {
    flag(first_row(sets)?, "read_only")
}

/// Reads the row of the `CLUSTER` statement.
pub(super) fn cluster(sets: &[Vec<Row>]) -> Result<String, Failure> {
    text(first_row(sets)?, "cluster")
}

/// Reads the rows of a `select_names` statement.
pub(super) fn names(sets: &[Vec<Row>]) -> Result<Vec<Action>, Failure> {
    each(sets.iter().flatten(), |_, action| Ok(action))
}

/// Reads the rows of a `prunable` statement.
pub(super) fn prunable(sets: &[Vec<Row>]) -> Result<Vec<Prunable>, Failure> {
    versioned(sets)?;
    each(sets.iter().flatten(), |row, action| {
        Ok(Prunable {
            action,
            token: Token(required(row, "token")?),
            unused_for: optional(row, "used_us")?.map(non_negative),
            is_done: flag(row, "is_done")?,
        })
    })
}

/// Reads the rows of an `entries` statement.
pub(super) fn history(sets: &[Vec<Row>]) -> Result<History, Failure> {
    versioned(sets)?;
    let entries = each(sets.iter().flatten(), entry)?;
    Ok(History {
        entries: entries.into_iter().flatten().collect(),
        is_read_only: is_read_only(sets)?,
    })
}

/// Reads the row of a `proof` statement: the owner, and the success that makes the run unnecessary, if there is one.
/// Returns None if the action has no row.
pub(super) fn proof(
    sets: &[Vec<Row>],
) -> Result<Option<(AttemptReadBack, Option<Success>)>, Failure> {
    let Some(row) = sets.iter().flatten().next() else {
        return Ok(None);
    };
    let owner = Owner {
        owner_id: owner_id(row)?,
        token: Token(required(row, "token")?),
        is_revoked: flag(row, "revoked")?,
    };
    let read_back = AttemptReadBack {
        changed: changed(row)?,
        owner,
        slot: optional(row, "slot")?.unwrap_or(1),
        sessions: match flag(row, "has_sessions")? {
            true => EarlierSessions::Noted,
            false => EarlierSessions::None,
        },
        has_old_entry: flag(row, "has_old_entry")?,
    };
    Ok(Some((read_back, success(row)?)))
}

/// Reads the column `answer` of a packet that returns no other data. Returns true if the column is 1.
pub(super) fn is_confirmed(sets: &[Vec<Row>]) -> Result<bool, Failure> {
    flag(first_row(sets)?, "answer")
}

/// Reads the rows of a `wait_turn` packet. Returns None if this session has the queue lock.
pub(super) fn wait_result(sets: &[Vec<Row>]) -> Result<Option<Response>, Failure> {
    let (answer, passed) = match sets {
        [answer] => (answer, None),
        [answer, passed] => (answer, Some(passed)),
        _ => return Err(malformed("it does not have one or two parts")),
    };
    let answer = first_row(std::slice::from_ref(answer))?;
    if !flag(answer, "answer")? {
        return Ok(Some(match flag(answer, "small_pool")? {
            true => Response::WaitSliced,
            false => Response::WaitEnded,
        }));
    }
    let Some(passed) = passed else {
        return Ok(None);
    };
    let position = optional(first_row(std::slice::from_ref(passed))?, "position")?;
    Ok(position.map(Response::HasLetPass))
}

/// Reads the row of a `release` packet.
pub(super) fn release_result(sets: &[Vec<Row>]) -> Result<ReleaseReadBack, Failure> {
    let row = first_row(sets)?;
    Ok(ReleaseReadBack {
        changed: flag(row, "changed")?,
        is_named: required::<u64>(row, "named")? > 0,
        next: match (flag(row, "granted_again")?, flag(row, "passed_on")?) {
            (false, _) => NextGrant::None,
            (true, true) => NextGrant::HandedOff,
            (true, false) => NextGrant::Other,
        },
        revoked: optional(row, "revoked")?.map(Token),
        is_recorded: optional(row, "recorded")?,
        outcome: HistoryOutcome::read(&text(row, "outcome")?, Some(0)),
    })
}

/// Reads the rows of an operator request. Returns true if the change is recorded, and the ids of the sessions to kill so
/// that the holders detect the change immediately.
pub(super) fn operator_result(sets: &[Vec<Row>]) -> Result<(bool, Vec<u64>), Failure> {
    let is_recorded = flag(first_row(sets)?, "answer")?;
    let sessions = sets.iter().flatten().map(|row| optional(row, "session"));
    let sessions: Vec<Option<u64>> = sessions.collect::<Result<_, _>>()?;
    Ok((is_recorded, sessions.into_iter().flatten().collect()))
}

/// Reads the rows of `dead_entries`: position and session of each queue entry.
pub(super) fn dead_entries(sets: &[Vec<Row>]) -> Result<Vec<(u64, u64)>, Failure> {
    let entry = |row| Ok((required(row, "position")?, required(row, "session_id")?));
    sets.iter().flatten().map(entry).collect()
}

/// Returns the first row of a response if this dlock works with the tables, and a failure otherwise.
fn versioned(sets: &[Vec<Row>]) -> Result<&Row, Failure> {
    schema::current().check(tables_version(sets)?)?;
    first_row(sets)
}

/// Reads the version of the tables from the first row. Returns None if no version is recorded.
pub(super) fn tables_version(sets: &[Vec<Row>]) -> Result<Option<TablesVersion>, Failure> {
    let row = first_row(sets)?;
    let (version, min_version) = (optional(row, "version")?, optional(row, "min_version")?);
    let recorded = version.zip(min_version);
    Ok(recorded.map(|(version, min_version)| TablesVersion {
        version,
        min_version,
    }))
}

/// Returns the result of `read` for each row that has an action.
fn each<'a, T>(
    rows: impl IntoIterator<Item = &'a Row>,
    read: impl Fn(&Row, Action) -> Result<T, Failure>,
) -> Result<Vec<T>, Failure> {
    let rows = rows.into_iter();
    let mut found = Vec::with_capacity(rows.size_hint().0);
    for row in rows {
        add(&mut found, row, &read)?;
    }
    Ok(found)
}

/// Adds the result of `read` for the row to `found`, if the row has an action.
pub(super) fn add<T>(
    found: &mut Vec<T>,
    row: &Row,
    read: impl Fn(&Row, Action) -> Result<T, Failure>,
) -> Result<(), Failure> {
    if let Some(action) = action(row)? {
        found.push(read(row, action)?);
    }
    Ok(())
}

/// Returns the action of the row. Returns None if the row is a placeholder for an empty result, or if the name is not
/// valid. dlock never acquires an action with an invalid name, and such a row must not prevent dlock from reading the
/// other rows.
fn action(row: &Row) -> Result<Option<Action>, Failure> {
    name(row, "action")
}

/// Returns the valid name of an action in `column`. None if there is none.
fn name(row: &Row, column: &str) -> Result<Option<Action>, Failure> {
    let name: Option<Vec<u8>> = optional(row, column)?;
    Ok(name
        .and_then(|name| String::from_utf8(name).ok())
        .and_then(|name| name.parse().ok()))
}

pub(super) fn record(row: &Row, action: Action) -> Result<LockRecord, Failure> {
    let lease = lease(row)?;
    // With `--history 0`, the latest run is not in the history. An operator who frees a lease runs no command.
    let is_latest = |last: &LastRun| {
        let is_without_run = lease.holder.command.is_empty();
        lease.owner_id.is_some() || is_without_run || last.ago <= lease.held_for
    };
    let last = last(row)?.filter(is_latest);
    Ok(LockRecord {
        action,
        is_known: true,
        odd: None,
        lease,
        slots: Vec::new(),
        fenced: flag(row, "fenced")?,
        last,
        pause: paused(row)?.map(Box::new),
        operator: operator(row)?.map(Box::new),
        sessions: session_note(row)?.map(Box::new),
        may_have_noted_slots: text(row, "sessions")?.starts_with(SLOTS_MARK),
        done_keys: optional::<Vec<u8>>(row, "done_keys")?
            .and_then(|keys| String::from_utf8(keys).ok())
            .map(|keys| keys.lines().filter_map(|key| key.parse().ok()).collect())
            .unwrap_or_default(),
        waits_for: name(row, "waits_for")?,
        deadlock_with: name(row, "deadlock_with")?,
    })
}

/// Reads the columns of a lease in the record or in a slot.
fn lease(row: &Row) -> Result<Lease, Failure> {
    let left: i64 = optional(row, "left_us")?.unwrap_or(0);
    let renewed: i64 = optional(row, "renewed_us")?.unwrap_or(0);
    let is_min_hold = flag(row, "min_hold")?;
    Ok(Lease {
        owner_id: owner_id(row)?,
        version: Version {
            token: Token(required(row, "token")?),
            renewals: required(row, "renewals")?,
        },
        ttl: Duration::from_micros(required(row, "ttl_us")?),
        acquired_at: time(row, "acquired_at")?,
        held_for: elapsed(row, "held_us")?,
        renewed: match renewed {
            0.. => Renewed::Ago(non_negative(renewed)),
            _ => Renewed::Ahead(non_negative(renewed.saturating_neg())),
        },
        expiry: match left {
            1.. => Expiry::In(Duration::from_micros(left.unsigned_abs())),
            _ => Expiry::Ago(Duration::from_micros(left.unsigned_abs())),
        },
        min_hold_until: time(row, "expires_at")?.filter(|_| is_min_hold),
        had_queue_lock_here: flag(row, "had_queue_lock_here")?,
        session_alive: optional(row, "alive")?,
        revoked_ago: optional(row, "revoked_us")?.map(non_negative),
        holder: holder(row)?,
    })
}

pub(super) fn waiter(row: &Row, action: Action) -> Result<Waiter, Failure> {
    Ok(Waiter {
        action,
        holder: holder(row)?,
        waiting_for: elapsed(row, "waiting_us")?,
        alive: optional(row, "alive")?,
    })
}

/// Returns a history entry, or None if a newer dlock wrote the entry with an outcome that this dlock does not support.
fn entry(row: &Row, action: Action) -> Result<Option<HistoryEntry>, Failure> {
    let Some(outcome) = outcome(row)? else {
        return Ok(None);
    };
    Ok(Some(HistoryEntry {
        action,
        key: optional::<Vec<u8>>(row, "once_key")?
            .map(|key| String::from_utf8_lossy(&key).into_owned()),
        token: Token(required(row, "token")?),
        slot: optional(row, "slot")?,
        holder: holder(row)?,
        started_at: time(row, "started_at")?.unwrap_or_default(),
        ended_at: time(row, "ended_at")?.unwrap_or_default(),
        waited: optional(row, "waited_us")?.map(Duration::from_micros),
        duration: elapsed(row, "took_us")?,
        ago: elapsed(row, "ended_us")?,
        outcome,
        sessions_ended: optional(row, "sessions_ended")?.unwrap_or(0),
        processes_killed: optional(row, "processes_killed")?.unwrap_or(0),
        dlock_status: optional(row, "dlock_status")?,
        revoked_by: Some(text(row, "revoked_by")?).filter(|operator| !operator.is_empty()),
    }))
}

fn last(row: &Row) -> Result<Option<LastRun>, Failure> {
    let token = optional(row, "last_token")?.map(Token);
    let ago = elapsed(row, "ended_us")?;
    let last = token.zip(outcome(row)?);
    let dlock_status = optional(row, "dlock_status")?;
    Ok(last.map(|(token, outcome)| LastRun {
        token,
        outcome,
        dlock_status,
        ago,
    }))
}

/// Returns the outcome of a run. Returns None if there is no run, or if a newer dlock wrote an outcome that this dlock
/// does not support.
fn outcome(row: &Row) -> Result<Option<HistoryOutcome>, Failure> {
    Ok(HistoryOutcome::read(
        &text(row, "outcome")?,
        optional(row, "code")?,
    ))
}

fn success(row: &Row) -> Result<Option<Success>, Failure> {
    let Some(token) = optional(row, "done_token")? else {
        return Ok(None);
    };
    Ok(Some(Success {
        token: Token(token),
        holder: text(row, "done_holder")?,
        at: time(row, "done_at")?.unwrap_or_default(),
        ago: elapsed(row, "done_us")?,
    }))
}

fn queue(row: &Row) -> Result<QueueState, Failure> {
    let lock_owner: Option<u64> = optional(row, "lock_owner")?;
    let session: Option<u64> = optional(row, "session")?;
    let known = flag(row, "owner_known")?;
    Ok(QueueState {
        lock_owner: match (session, lock_owner) {
            (None, _) => QueueLockOwner::NotQueried,
            (Some(_), None) => QueueLockOwner::Free,
            (Some(session), Some(lock_owner)) if session == lock_owner => QueueLockOwner::Own,
            (Some(_), Some(_)) if known => QueueLockOwner::Known,
            (Some(_), Some(_)) => QueueLockOwner::Foreign,
        },
        ahead: optional(row, "ahead")?.unwrap_or(0),
        is_behind_other: flag(row, "behind_other")?,
        is_behind_mark: flag(row, "behind_mark")?,
        head_waiting_for: optional(row, "first_us")?.map(non_negative),
        database: optional(row, "dlock_database")?.map(DatabaseId),
    })
}

/// Returns true if the preceding statement changed the row.
fn changed(row: &Row) -> Result<bool, Failure> {
    Ok(flag(row, "changed")? || mutant::is_disabled(Safeguard::ReadBack))
}

fn owner_id(row: &Row) -> Result<Option<OwnerId>, Failure> {
    let bytes: Option<Vec<u8>> = optional(row, "owner_id")?;
    let owner_id = bytes.map(|bytes| bytes.try_into().map(OwnerId::new));
    owner_id
        .transpose()
        .map_err(|_| malformed("an owner id is not 16 bytes long"))
}

/// Returns the pause, or None if the action is not paused, or if the pause has ended. A pause revokes a lease, so a pause
/// beside a lease that is not revoked has ended: since then, the server's clock was set back.
fn paused(row: &Row) -> Result<Option<Pause>, Failure> {
    let left = elapsed(row, "paused_us")?;
    let has_lease = owner_id(row)?.is_some_and(|owner_id| owner_id != OwnerId::SHARED);
    let is_live = has_lease && optional::<i64>(row, "revoked_us")?.is_none();
    let until = time(row, "paused_until")?.filter(|_| !left.is_zero() && !is_live);
    Ok(until.map(|until| Pause { until, left }))
}

fn operator(row: &Row) -> Result<Option<Operator>, Failure> {
    let label = text(row, "operator")?;
    let reason = text(row, "reason")?;
    Ok(Some(Operator { label, reason }).filter(|operator| !operator.label.is_empty()))
}

fn holder(row: &Row) -> Result<Holder, Failure> {
    Ok(Holder {
        label: text(row, "holder")?,
        host: text(row, "host")?,
        pid: required(row, "pid")?,
        user: text(row, "user")?,
        note: text(row, "note")?,
        pod: text(row, "pod")?,
        namespace: text(row, "namespace")?,
        command: text(row, "command")?,
    })
}

/// Returns the failure for a missing row, which a client has deleted while this dlock used the lock. `dlock prune` deletes
/// only rows of locks that nobody has used for a long time.
pub(super) fn row_missing() -> Failure {
    let why = "dlock_lock has no row for the lock: another client has deleted it";
    Failure::new(FailureKind::Unknown, why)
}
