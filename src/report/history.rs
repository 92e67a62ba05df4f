//! The two output formats of `dlock history`: a table for users and JSON for programs.
//!
//! The JSON format is documented in dlock-history(1) and is stable: fields may be added, but are never
//! renamed or removed. Times are from the server's clock. Durations are in whole milliseconds.

use serde::Serialize;

use super::escape::printable;
use super::format::{json_line, millis, rendered};
use super::messages::{count, duration};
use crate::store::HistoryEntry;

/// Formats a table with a heading and one line per run.
#[must_use]
pub fn table(entries: &[HistoryEntry]) -> String {
    let heading = [
        "ACTION", "KEY", "TOKEN", "HOLDER", "STARTED", "DURATION", "RESULT", "NOTE",
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
            entry.started_at.clone(),
            duration(entry.duration),
            result(entry),
            printable(&entry.holder.note).into_owned(),
        ]
    });
    rendered(heading, rows)
}

/// Returns the outcome of a run, the number of sessions that dlock ended, and the age of the run.
fn result(entry: &HistoryEntry) -> String {
    let ended = match entry.sessions_ended {
        0 => String::new(),
        number => format!(", ended {}", count(number, "session")),
    };
    format!("{}{ended}, {} ago", entry.outcome, duration(entry.ago))
}

/// A run in the JSON document.
#[derive(Serialize)]
struct RunJson<'a> {
    action: &'a str,
    once_key: Option<&'a str>,
    token: u64,
    holder: &'a str,
    host: &'a str,
    pid: u32,
    user: &'a str,
    note: &'a str,
    started_at: &'a str,
    ended_at: &'a str,
    took_ms: u64,
    ended_ago_ms: u64,
    outcome: &'static str,
    code: Option<u8>,
    sessions_ended: u32,
}

#[derive(Serialize)]
struct HistoryDocument<'a> {
    runs: Vec<RunJson<'a>>,
}

/// Returns the JSON document on one line.
///
/// # Errors
/// Never fails for a [`HistoryEntry`]. The `Result` type comes from the serializer.
pub fn json(entries: &[HistoryEntry]) -> serde_json::Result<String> {
    let runs = entries.iter().map(|entry| RunJson {
        action: entry.action.as_str(),
        once_key: entry.key.as_deref(),
        token: entry.token.0,
        holder: &entry.holder.label,
        host: &entry.holder.host,
        pid: entry.holder.pid,
        user: &entry.holder.user,
        note: &entry.holder.note,
        started_at: &entry.started_at,
        ended_at: &entry.ended_at,
        took_ms: millis(entry.duration),
        ended_ago_ms: millis(entry.ago),
        outcome: entry.outcome.as_str(),
        code: entry.outcome.code(),
        sessions_ended: entry.sessions_ended,
    });
    json_line(&HistoryDocument {
        runs: runs.collect(),
    })
}
