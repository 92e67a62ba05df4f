//! The two forms of `dlock history`: a table for people and JSON for programs.
//!
//! The JSON form is documented in dlock-history(1) and stable: fields are added, never renamed or
//! removed. Times are the server's, durations are whole milliseconds.

use serde::Serialize;

use super::escape::printable;
use super::form::{json_line, millis, rendered};
use super::words::duration;
use crate::store::Entry;

/// A heading, and a line a run.
#[must_use]
pub fn table(entries: &[Entry]) -> String {
    let heading = [
        "ACTION", "KEY", "TOKEN", "HOLDER", "BEGAN", "TOOK", "ENDED", "NOTE",
    ];
    let rows = entries.iter().map(|entry| {
        [
            printable(entry.action.as_str()).into_owned(),
            entry
                .key
                .as_deref()
                .filter(|key| !key.is_empty())
                .map_or_else(|| "-".to_owned(), |key| printable(key).into_owned()),
            entry.token.to_string(),
            printable(&entry.holder.label).into_owned(),
            entry.began_at.clone(),
            duration(entry.took),
            format!("{}, {} ago", entry.fate, duration(entry.ago)),
            printable(&entry.holder.note).into_owned(),
        ]
    });
    rendered(heading, rows)
}

/// One run in JSON.
#[derive(Serialize)]
struct Run<'a> {
    action: &'a str,
    once_key: Option<&'a str>,
    token: u64,
    holder: &'a str,
    host: &'a str,
    pid: u32,
    user: &'a str,
    note: &'a str,
    began_at: &'a str,
    ended_at: &'a str,
    took_ms: u64,
    ended_ago_ms: u64,
    ending: &'static str,
    number: Option<u8>,
}

#[derive(Serialize)]
struct Document<'a> {
    runs: Vec<Run<'a>>,
}

/// The JSON document, one line.
///
/// # Errors
/// Never for what is in an [`Entry`]; the serializer's type demands it.
pub fn json(entries: &[Entry]) -> serde_json::Result<String> {
    let runs = entries.iter().map(|entry| Run {
        action: entry.action.as_str(),
        once_key: entry.key.as_deref(),
        token: entry.token.0,
        holder: &entry.holder.label,
        host: &entry.holder.host,
        pid: entry.holder.pid,
        user: &entry.holder.user,
        note: &entry.holder.note,
        began_at: &entry.began_at,
        ended_at: &entry.ended_at,
        took_ms: millis(entry.took),
        ended_ago_ms: millis(entry.ago),
        ending: entry.fate.word(),
        number: entry.fate.number(),
    });
    json_line(&Document {
        runs: runs.collect(),
    })
}
