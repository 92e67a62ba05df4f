//! The JSON form of `dlock status`.
//!
//! It is documented in dlock-status(1) and stable: fields are added, never renamed or removed. Times
//! are the server's, durations are whole milliseconds.

use std::time::Duration;

use serde::Serialize;

use super::line_of;
use crate::report::form::{json_line, millis};
use crate::report::words;
use crate::store::diagnosis::{Diagnosis, takeable_in};
use crate::store::{Remainder, Sighting, Survey, Waiter};

/// One lock in JSON.
#[derive(Serialize)]
struct Lock<'a> {
    action: &'a str,
    state: String,
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
    held_for_ms: Option<u64>,
    renewed_ago_ms: Option<u64>,
    renewals: Option<u64>,
    ttl_ms: Option<u64>,
    lapses_in_ms: Option<i64>,
    kept_until: Option<&'a str>,
    takeable_in_ms: Option<u64>,
    broken_ago_ms: Option<u64>,
    closed_until: Option<&'a str>,
    closed_for_ms: Option<u64>,
    operator: Option<&'a str>,
    reason: Option<&'a str>,
    last_token: Option<u64>,
    last_ending: Option<&'static str>,
    last_number: Option<u8>,
    last_ended_ago_ms: Option<u64>,
    waiters: Vec<InLine<'a>>,
}

/// One waiter in JSON.
#[derive(Serialize)]
struct InLine<'a> {
    place: usize,
    holder: &'a str,
    host: &'a str,
    pid: u32,
    user: &'a str,
    note: &'a str,
    waiting_for_ms: u64,
    alive: Option<bool>,
}

#[derive(Serialize)]
struct Document<'a> {
    server_time_ms: u64,
    clock_difference_ms: i64,
    locks: Vec<Lock<'a>>,
}

/// The JSON document, one line.
///
/// # Errors
/// Never for what is in a [`Sighting`]; the serializer's type demands it.
pub fn json(survey: &Survey, ours: Duration) -> serde_json::Result<String> {
    let Survey { locks, waiters, .. } = survey;
    let server_time_ms = survey.server_time.0 / 1000;
    let apart = i128::from(server_time_ms) - i128::from(millis(ours));
    let document = Document {
        server_time_ms,
        clock_difference_ms: i64::try_from(apart).unwrap_or(i64::MAX),
        locks: locks.iter().map(|seen| lock(seen, waiters)).collect(),
    };
    json_line(&document)
}

fn lock<'a>(seen: &'a Sighting, waiters: &'a [Waiter]) -> Lock<'a> {
    let held = seen.is_leased();
    let holder = &seen.holder;
    let text = |text| Some(text).filter(|_| held);
    let acted = seen.closed.is_some() || seen.broken_ago.is_some();
    let operator = seen.operator.as_ref().filter(|_| acted);
    let signed = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    Lock {
        action: seen.action.as_str(),
        state: seen.state().to_string(),
        token: seen.version.token.0,
        holder: text(holder.label.as_str()),
        host: text(holder.host.as_str()),
        pid: held.then_some(holder.pid),
        user: text(holder.user.as_str()),
        note: text(holder.note.as_str()),
        pod: text(holder.pod.as_str()).filter(|pod| !pod.is_empty()),
        namespace: text(holder.namespace.as_str()).filter(|name| !name.is_empty()),
        command: text(holder.command.as_str()),
        diagnosis: Diagnosis::of(seen).word(),
        diagnosis_text: words::diagnosis(seen),
        session_alive: seen.session_alive.filter(|_| held),
        acquired_at: seen.acquired_at.as_deref().filter(|_| held),
        held_for_ms: held.then(|| millis(seen.held_for)),
        renewed_ago_ms: held.then(|| millis(seen.renewed_ago)),
        renewals: held.then_some(seen.version.renewals),
        ttl_ms: held.then(|| millis(seen.ttl)),
        lapses_in_ms: held.then(|| match seen.remainder {
            Remainder::Left(left) => signed(left),
            Remainder::Lapsed(ago) => -signed(ago),
        }),
        kept_until: seen.kept_until.as_deref().filter(|_| held),
        takeable_in_ms: held.then(|| millis(takeable_in(seen))),
        broken_ago_ms: seen.broken_ago.filter(|_| held).map(millis),
        closed_until: seen.closed.as_ref().map(|closed| closed.until.as_str()),
        closed_for_ms: seen.closed.as_ref().map(|closed| millis(closed.left)),
        operator: operator.map(|operator| operator.label.as_str()),
        reason: operator.map(|operator| operator.reason.as_str()),
        last_token: seen.last.map(|last| last.token.0),
        last_ending: seen.last.map(|last| last.fate.word()),
        last_number: seen.last.and_then(|last| last.fate.number()),
        last_ended_ago_ms: seen.last.map(|last| millis(last.ago)),
        waiters: (1..)
            .zip(line_of(waiters, &seen.action))
            .map(|(place, waiter)| InLine {
                place,
                holder: &waiter.holder.label,
                host: &waiter.holder.host,
                pid: waiter.holder.pid,
                user: &waiter.holder.user,
                note: &waiter.holder.note,
                waiting_for_ms: millis(waiter.waiting_for),
                alive: waiter.alive,
            })
            .collect(),
    }
}
