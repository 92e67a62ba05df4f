//! The JSON format of `dlock status`.
//!
//! The format is documented in dlock-status(1) and is stable: fields may be added, but are never
//! renamed or removed. Times are from the server's clock. Durations are in whole milliseconds.

use std::io::Write;
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::sessions::{SessionJson, sessions};
use super::waiters::Queues;
use crate::lease::limit::Limit;
use crate::report::format::{millis, write_json_line};
use crate::report::messages;
use crate::store::diagnosis::{Diagnosis, takeover_in};
use crate::store::session_states::SessionStates;
use crate::store::{Expiry, Lease, LockRecord, Snapshot};

/// What a document contains about the connections of dlock and of commands to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connections {
    /// The address of the server, the hosts that are not used, and the sessions of commands.
    Shown,
    /// Nothing. The fields are empty.
    Hidden,
}

/// A lock in the JSON document.
#[derive(Serialize)]
pub struct LockJson<'a> {
    action: &'a str,
    state: String,
    known: bool,
    token: u64,
    holder: Option<&'a str>,
    host: Option<&'a str>,
    pid: Option<u32>,
    user: Option<&'a str>,
    note: Option<&'a str>,
    pod: Option<&'a str>,
    namespace: Option<&'a str>,
    command: Option<&'a str>,
    diagnosis: &'static str,
    diagnosis_text: String,
    session_alive: Option<bool>,
    acquired_at: Option<&'a str>,
    held_ms: Option<u64>,
    renewed_ago_ms: Option<u64>,
    renewals: Option<u64>,
    ttl_ms: Option<u64>,
    expires_in_ms: Option<i64>,
    min_hold_until: Option<&'a str>,
    takeover_in_ms: Option<u64>,
    revoked_ago_ms: Option<u64>,
    paused_until: Option<&'a str>,
    paused_for_ms: Option<u64>,
    operator: Option<&'a str>,
    reason: Option<&'a str>,
    last_token: Option<u64>,
    last_outcome: Option<&'static str>,
    last_code: Option<u8>,
    last_dlock_status: Option<u8>,
    last_ended_ago_ms: Option<u64>,
    slots: Option<u32>,
    holders: Vec<HolderJson<'a>>,
    waiters: Vec<WaiterJson<'a>>,
    sessions: Vec<SessionJson<'a>>,
}

/// A holder in the JSON document.
#[derive(Serialize)]
struct HolderJson<'a> {
    slot: u32,
    slots: Option<u32>,
    token: u64,
    holder: &'a str,
    host: &'a str,
    pid: u32,
    user: &'a str,
    note: &'a str,
    command: &'a str,
    diagnosis: &'static str,
    session_alive: Option<bool>,
    acquired_at: Option<&'a str>,
    held_ms: u64,
    renewed_ago_ms: u64,
    ttl_ms: u64,
    expires_in_ms: i64,
    revoked_ago_ms: Option<u64>,
}

/// A waiter in the JSON document.
#[derive(Serialize)]
struct WaiterJson<'a> {
    position: usize,
    holder: &'a str,
    host: &'a str,
    pid: u32,
    user: &'a str,
    note: &'a str,
    waited_ms: u64,
    alive: Option<bool>,
}

/// A host that was not used, in the JSON document.
#[derive(Serialize)]
struct SkippedHostJson<'a> {
    address: String,
    reason: &'a str,
}

#[derive(Serialize)]
struct StatusDocument<'a> {
    server_time_ms: u64,
    clock_difference_ms: i64,
    read_only: bool,
    server: &'a str,
    skipped_hosts: Vec<SkippedHostJson<'a>>,
    sessions_error: Option<String>,
    locks: Locks<'a>,
}

/// The locks of a snapshot. Each part of the document is created when it is written, because all of them together need
/// several megabytes with 10 000 actions.
struct Locks<'a> {
    snapshot: &'a Snapshot,
    queues: Queues<'a>,
    connections: Connections,
}

impl Serialize for Locks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let locks = self.snapshot.locks.iter();
        serializer.collect_seq(
            locks.map(|record| lock(record, self.snapshot, &self.queues, self.connections)),
        )
    }
}

/// Returns the JSON document on one line. `local_time` is the time on this machine's clock, since 1970.
///
/// # Errors
/// Never fails for a [`Snapshot`]. The `Result` type comes from the serializer.
pub fn json(
    snapshot: &Snapshot,
    local_time: Duration,
    connections: Connections,
) -> serde_json::Result<String> {
    let mut line = Vec::new();
    write_json(snapshot, local_time, connections, &mut line)?;
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// Writes the same to `writer`, in small parts.
///
/// # Errors
/// Fails if `writer` fails.
pub fn write_json(
    snapshot: &Snapshot,
    local_time: Duration,
    connections: Connections,
    writer: &mut dyn Write,
) -> serde_json::Result<()> {
    let queues = Queues::new(&snapshot.waiters);
    let server_time_ms = snapshot.server_time.0 / 1000;
    let difference = i128::from(server_time_ms) - i128::from(millis(local_time));
    let document = StatusDocument {
        server_time_ms,
        clock_difference_ms: i64::try_from(difference).unwrap_or(i64::MAX),
        read_only: snapshot.is_read_only,
        server: match connections {
            Connections::Shown => &snapshot.server,
            Connections::Hidden => "",
        },
        skipped_hosts: snapshot
            .skipped
            .iter()
            .filter(|_| connections == Connections::Shown)
            .map(|host| SkippedHostJson {
                address: host.address.to_string(),
                reason: &host.reason,
            })
            .collect(),
        sessions_error: match &snapshot.sessions {
            SessionStates::Failed(failure) => Some(failure.to_string()),
            SessionStates::NotQueried | SessionStates::Known(_) => None,
        },
        locks: Locks {
            snapshot,
            queues,
            connections,
        },
    };
    write_json_line(&document, writer)
}

/// Returns the part of the JSON document about `record`.
#[must_use]
pub fn lock_document<'a>(
    record: &'a LockRecord,
    snapshot: &'a Snapshot,
    connections: Connections,
) -> LockJson<'a> {
    lock(
        record,
        snapshot,
        &Queues::new(&snapshot.waiters),
        connections,
    )
}

fn lock<'a>(
    record: &'a LockRecord,
    snapshot: &'a Snapshot,
    queues: &Queues<'a>,
    connections: Connections,
) -> LockJson<'a> {
    let is_held = record.is_leased();
    let lease = record.main_lease();
    let holder = &lease.holder;
    let text = |text| Some(text).filter(|_| is_held);
    let is_operated = record.pause.is_some() || lease.revoked_ago.is_some();
    let operator = record.operator.as_ref().filter(|_| is_operated);
    LockJson {
        action: record.action.as_str(),
        state: record.state().to_string(),
        known: record.is_known,
        token: lease.version.token.0,
        holder: text(holder.label.as_str()),
        host: text(holder.host.as_str()),
        pid: is_held.then_some(holder.pid),
        user: text(holder.user.as_str()),
        note: text(holder.note.as_str()),
        pod: text(holder.pod.as_str()).filter(|pod| !pod.is_empty()),
        namespace: text(holder.namespace.as_str()).filter(|name| !name.is_empty()),
        command: text(holder.command.as_str()),
        diagnosis: Diagnosis::of(record).as_str(),
        diagnosis_text: messages::diagnosis(record),
        session_alive: lease.session_alive.filter(|_| is_held),
        acquired_at: lease.acquired_at.as_deref().filter(|_| is_held),
        held_ms: is_held.then(|| millis(lease.held_for)),
        renewed_ago_ms: is_held.then(|| millis(lease.renewed_ago())),
        renewals: is_held.then_some(lease.version.renewals),
        ttl_ms: is_held.then(|| millis(lease.ttl)),
        expires_in_ms: is_held.then(|| expires_in(lease)),
        min_hold_until: lease.min_hold_until.as_deref().filter(|_| is_held),
        takeover_in_ms: is_held.then(|| millis(takeover_in(record))),
        revoked_ago_ms: lease.revoked_ago.filter(|_| is_held).map(millis),
        paused_until: record.pause.as_ref().map(|paused| paused.until.as_str()),
        paused_for_ms: record.pause.as_ref().map(|paused| millis(paused.left)),
        operator: operator.map(|operator| operator.label.as_str()),
        reason: operator.map(|operator| operator.reason.as_str()),
        last_token: record.last.map(|last| last.token.0),
        last_outcome: record.last.map(|last| last.outcome.as_str()),
        last_code: record.last.and_then(|last| last.outcome.code()),
        last_dlock_status: record.last.and_then(|last| last.dlock_status),
        last_ended_ago_ms: record.last.map(|last| millis(last.ago)),
        slots: match record.slots.is_empty() {
            true => is_held.then_some(1),
            false => record.smallest_limit().and_then(Limit::count),
        },
        holders: holders(record),
        waiters: queues
            .of(&record.action)
            .map(|(position, waiter)| WaiterJson {
                position,
                holder: &waiter.holder.label,
                host: &waiter.holder.host,
                pid: waiter.holder.pid,
                user: &waiter.holder.user,
                note: &waiter.holder.note,
                waited_ms: millis(waiter.waiting_for),
                alive: waiter.alive,
            })
            .collect(),
        sessions: match connections {
            Connections::Shown => sessions(record, &snapshot.sessions),
            Connections::Hidden => Vec::new(),
        },
    }
}

/// Returns the time until the lease expires in milliseconds, which is negative if it has expired.
fn expires_in(lease: &Lease) -> i64 {
    let signed = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    match lease.expiry {
        Expiry::In(left) => signed(left),
        Expiry::Ago(ago) => -signed(ago),
    }
}

/// Returns the holders of an action, in the order of their slots. The only slot of an exclusive holder is 1.
fn holders(record: &LockRecord) -> Vec<HolderJson<'_>> {
    let in_record = record.is_leased() && record.slots.is_empty();
    let in_record = in_record.then(|| {
        let diagnosis = Diagnosis::of(record);
        holder(1, Limit::ONE, &record.lease, diagnosis)
    });
    let in_slots = record.each_slot().map(|(slot, alone)| {
        let diagnosis = Diagnosis::of(&alone);
        holder(slot.number, slot.limit, &slot.lease, diagnosis)
    });
    in_record.into_iter().chain(in_slots).collect()
}

fn holder(slot: u32, limit: Limit, lease: &Lease, diagnosis: Diagnosis) -> HolderJson<'_> {
    let holder = &lease.holder;
    HolderJson {
        slot,
        slots: limit.count(),
        token: lease.version.token.0,
        holder: &holder.label,
        host: &holder.host,
        pid: holder.pid,
        user: &holder.user,
        note: &holder.note,
        command: &holder.command,
        diagnosis: diagnosis.as_str(),
        session_alive: lease.session_alive,
        acquired_at: lease.acquired_at.as_deref(),
        held_ms: millis(lease.held_for),
        renewed_ago_ms: millis(lease.renewed_ago()),
        ttl_ms: millis(lease.ttl),
        expires_in_ms: expires_in(lease),
        revoked_ago_ms: lease.revoked_ago.map(millis),
    }
}
