//! The two output formats of `dlock history`: a table for users and JSON for programs.
//!
//! The JSON format is documented in dlock-history(1) and is stable: fields may be added, but are never
//! renamed or removed. Times are from the server's clock. Durations are in whole milliseconds.

use std::time::Duration;

use serde::Serialize;

use super::columns::{Painted, TableColumn};
use super::escape::printable;
use super::format::{json_line, millis};
use super::layout::Layout;
use super::messages::{self, age, count, duration};
use super::style::Style;
use crate::store::{HistoryEntry, HistoryOutcome, LockRecord};

/// The columns of the table.
const COLUMNS: [TableColumn; 10] = [
    TableColumn::cut("ACTION", 0, 12),
    TableColumn::cut("RESULT", 1, 16),
    TableColumn::whole("ENDED", 2),
    TableColumn::whole("DURATION", 3),
    TableColumn::cut("HOLDER", 4, 12),
    TableColumn::cut("COMMAND", 5, 12),
    TableColumn::cut("KEY", 6, 6),
    TableColumn::cut("NOTE", 7, 8),
    TableColumn::whole("TOKEN", 8),
    TableColumn::whole("STARTED", 9),
];

/// Formats a table with a heading and one line per run.
#[must_use]
pub fn table(entries: &[HistoryEntry], layout: Layout) -> String {
    let rows: Vec<_> = entries.iter().map(|entry| cells(entry, layout)).collect();
    let widths = layout.widths(&COLUMNS, &rows);
    layout.table(&COLUMNS, &widths, &rows)
}

/// Describes why there is no entry, with one line for each of the named actions. `named` is empty if no action was
/// named.
#[must_use]
pub fn no_runs(named: &[LockRecord]) -> String {
    let line = |record: &LockRecord| {
        let action = &record.action;
        let text = match record.is_known {
            false => messages::unknown(action),
            true if record.is_unused() => format!("{action} was never used"),
            true => format!("{action} has no recorded runs"),
        };
        printable(&text).into_owned() + "\n"
    };
    match named {
        [] => "no runs are recorded\n".to_owned(),
        _ => named.iter().map(line).collect(),
    }
}

fn cells(entry: &HistoryEntry, layout: Layout) -> [Painted; 10] {
    let plain = |text: &str| (text.to_owned(), Style::Plain);
    let (ended, lasted) = match layout.is_full() {
        true => (entry.ended_at.clone(), duration(entry.duration)),
        false => (format!("{} ago", age(entry.ago)), short(entry.duration)),
    };
    [
        plain(entry.action.as_str()),
        (result(entry), paint(entry.outcome)),
        plain(&ended),
        plain(&lasted),
        plain(&entry.holder.label),
        plain(&entry.holder.command),
        plain(entry.key.as_deref().unwrap_or_default()),
        plain(&entry.holder.note),
        (entry.token.to_string(), Style::Faint),
        plain(&entry.started_at),
    ]
}

/// Formats the duration of a run: in milliseconds if it is below one second, otherwise in at most two units.
fn short(lasted: Duration) -> String {
    match lasted < Duration::from_secs(1) {
        true => duration(lasted),
        false => age(lasted),
    }
}

/// Returns the style in which an outcome is shown.
#[must_use]
pub const fn paint(outcome: HistoryOutcome) -> Style {
    match outcome {
        HistoryOutcome::Exited(0) => Style::Good,
        HistoryOutcome::Exited(_)
        | HistoryOutcome::Killed(_)
        | HistoryOutcome::Lost
        | HistoryOutcome::Revoked => Style::Bad,
        // These entries record an operation by an operator and not the result of a run.
        HistoryOutcome::Forgotten
        | HistoryOutcome::Released
        | HistoryOutcome::Paused
        | HistoryOutcome::Resumed => Style::Doubtful,
    }
}

/// Returns the outcome of a run and the number of sessions that dlock ended.
fn result(entry: &HistoryEntry) -> String {
    let ended = match entry.sessions_ended {
        0 => String::new(),
        number => format!(", ended {}", count(number, "session")),
    };
    format!("{}{ended}", entry.outcome)
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
