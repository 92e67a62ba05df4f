//! The two output formats of `dlock history`: a table for users and JSON for programs.
//!
//! The JSON format is documented in dlock-history(1) and is stable: fields may be added, but are never
//! renamed or removed. Times are from the server's clock. Durations are in whole milliseconds.

use std::time::Duration;

use serde::Serialize;

use super::columns::{Painted, TableColumn, Widths};
use super::escape::printable;
use super::format::{json_line, millis};
use super::layout::Layout;
use super::messages::{self, age, count, duration, processes};
use super::style::Style;
use crate::exit::Status;
use crate::store::{HistoryEntry, HistoryOutcome, LockRecord};
use crate::sys::signal_name;

/// The columns of the table.
const COLUMNS: [TableColumn; 11] = [
    TableColumn::cut("ACTION", 0, 12),
    TableColumn::cut("RESULT", 1, 16),
    TableColumn::whole("ENDED", 2),
    TableColumn::whole("HELD", 3),
    TableColumn::cut("HOLDER", 4, 12),
    TableColumn::cut("COMMAND", 5, 12),
    TableColumn::cut("KEY", 6, 6),
    TableColumn::cut("NOTE", 7, 8),
    TableColumn::whole("SLOT", 8),
    TableColumn::whole("TOKEN", 9),
    TableColumn::whole("STARTED", 10),
];

/// The times in the column ENDED.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndTime {
    /// The time since the end, which is correct only when it is printed.
    Ago,
    /// The server's time in UTC.
    At,
}

/// Formats a table with a heading and one line per run.
#[must_use]
pub fn table(entries: &[HistoryEntry], layout: Layout) -> String {
    let rows = rows(entries, layout, EndTime::Ago);
    let widths = layout.widths(&COLUMNS, &rows);
    layout.table(&COLUMNS, &widths, &rows)
}

fn rows(entries: &[HistoryEntry], layout: Layout, ended: EndTime) -> Vec<[Painted; 11]> {
    let cells = |entry| cells(entry, layout, ended);
    entries.iter().map(cells).collect()
}

/// A table that grows while runs end.
#[derive(Debug)]
pub struct Following {
    layout: Layout,
    /// The first rows, from which the widths are computed together with each batch.
    first_rows: Vec<[Painted; 11]>,
    /// The widths of the most recent batch. None before the first batch.
    widths: Option<Widths<11>>,
}

impl Following {
    /// Maximum number of rows that determine the widths of later batches.
    const MAX_ROWS: usize = 1000;

    /// Creates a table without rows.
    #[must_use]
    pub const fn new(layout: Layout) -> Self {
        Self {
            layout,
            first_rows: Vec::new(),
            widths: None,
        }
    }

    /// Formats more runs. Before the first batch, and when the widths of the columns change, the heading precedes the
    /// runs.
    pub fn batch(&mut self, entries: &[HistoryEntry]) -> String {
        let rows = rows(entries, self.layout, EndTime::At);
        let all: Vec<_> = self.first_rows.iter().chain(&rows).cloned().collect();
        let widths = self.layout.widths(&COLUMNS, &all);
        let text = match self.widths.as_ref() == Some(&widths) {
            true => self.layout.rows(&widths, &rows),
            false => self.layout.table(&COLUMNS, &widths, &rows),
        };
        self.widths = Some(widths);
        if all.len() <= Self::MAX_ROWS {
            self.first_rows = all;
        }
        text
    }
}

/// Describes why there is no entry, with one line for each of the named actions. `named` is empty if no action was
/// named. `is_filtered` is true if the user selected only some entries.
#[must_use]
pub fn no_runs(named: &[LockRecord], is_filtered: bool) -> String {
    let line = |record: &LockRecord| {
        let action = &record.action;
        let text = match record.is_known {
            false => messages::unknown(action),
            true if record.is_unused() => format!("{action} was never used"),
            true if is_filtered => format!("{action} has no matching runs"),
            true => format!("{action} has no recorded runs"),
        };
        printable(&text).into_owned() + "\n"
    };
    match named {
        [] if is_filtered => "no recorded run matches\n".to_owned(),
        [] => "no runs are recorded\n".to_owned(),
        _ => named.iter().map(line).collect(),
    }
}

fn cells(entry: &HistoryEntry, layout: Layout, ended: EndTime) -> [Painted; 11] {
    let plain = |text: &str| (text.to_owned(), Style::Plain);
    let (ended, lasted) = match (layout.is_full(), ended) {
        (true, _) => (entry.ended_at.clone(), duration(entry.duration)),
        (false, EndTime::Ago) => (format!("{} ago", age(entry.ago)), short(entry.duration)),
        (false, EndTime::At) => (to_seconds(&entry.ended_at), short(entry.duration)),
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
        plain(&entry.slot.map_or_else(String::new, |slot| slot.to_string())),
        (entry.token.to_string(), Style::Faint),
        plain(&entry.started_at),
    ]
}

/// Returns a time in the format of RFC 3339 without the fraction of the second.
fn to_seconds(time: &str) -> String {
    match time.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => time.to_owned(),
    }
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

/// Returns the outcome of a run, and the numbers of sessions that dlock ended and of processes that it killed.
#[must_use]
pub fn result(entry: &HistoryEntry) -> String {
    let ended = match entry.sessions_ended {
        0 => String::new(),
        number => format!(", ended {}", count(number, "session")),
    };
    let killed = match entry.processes_killed {
        0 => String::new(),
        number => format!(", killed {}", processes(number)),
    };
    let result = outcome_text(
        entry.outcome,
        entry.dlock_status,
        entry.revoked_by.as_deref(),
    );
    format!("{result}{ended}{killed}")
}

/// Describes the end of a run, or an operator request. The description shows whether dlock chose the exit status
/// `dlock_status`: `exit 124` is the command's own status, and `timed out (124)` is dlock's. After a command that was
/// killed, `dlock_status` is that of a dlock that was killed before, or that has lost another lease.
#[must_use]
pub fn outcome_text(
    outcome: HistoryOutcome,
    dlock_status: Option<u8>,
    revoked_by: Option<&str>,
) -> String {
    let chosen = |code| {
        let status = Status::from_code(code);
        format!("{} ({status})", status.run_end())
    };
    let is_lost = dlock_status == Some(Status::LOST.code());
    match (outcome, dlock_status) {
        (HistoryOutcome::Exited(_) | HistoryOutcome::Killed(_), Some(code)) if is_lost => {
            let end = outcome_text(outcome, None, None);
            format!("{end}, another {}", chosen(code))
        }
        (HistoryOutcome::Exited(_) | HistoryOutcome::Lost, Some(code)) => chosen(code),
        (HistoryOutcome::Exited(code), None) => format!("exit {code}"),
        (HistoryOutcome::Killed(signal), None) => signal_name::name(signal.into()),
        (HistoryOutcome::Killed(signal), Some(_)) => {
            format!("{}, dlock was killed", signal_name::name(signal.into()))
        }
        (HistoryOutcome::Lost, None) => "lease lost".to_owned(),
        (HistoryOutcome::Revoked, _) => match revoked_by {
            Some(operator) => format!("revoked by {operator}"),
            None => "revoked".to_owned(),
        },
        (
            HistoryOutcome::Forgotten
            | HistoryOutcome::Released
            | HistoryOutcome::Paused
            | HistoryOutcome::Resumed,
            _,
        ) => outcome.as_str().to_owned(),
    }
}

/// A run in the JSON document.
#[derive(Serialize)]
pub struct RunJson<'a> {
    action: &'a str,
    once_key: Option<&'a str>,
    token: u64,
    slot: Option<u32>,
    holder: &'a str,
    host: &'a str,
    pid: u32,
    user: &'a str,
    note: &'a str,
    started_at: &'a str,
    ended_at: &'a str,
    waited_ms: Option<u64>,
    held_ms: u64,
    /// Time since the end of the run.
    pub ended_ago_ms: u64,
    outcome: &'static str,
    code: Option<u8>,
    sessions_ended: u32,
    processes_killed: u32,
    dlock_status: Option<u8>,
    revoked_by: Option<&'a str>,
    command: &'a str,
}

#[derive(Serialize)]
struct HistoryDocument<'a> {
    runs: Vec<RunJson<'a>>,
    more: bool,
}

/// Returns the JSON document on one line. `more` is true if there are older entries.
///
/// # Errors
/// Never fails for a [`HistoryEntry`]. The `Result` type comes from the serializer.
pub fn json(entries: &[HistoryEntry], more: bool) -> serde_json::Result<String> {
    json_line(&HistoryDocument {
        runs: runs(entries).collect(),
        more,
    })
}

/// Returns the part of the JSON document about each entry.
pub fn runs(entries: &[HistoryEntry]) -> impl Iterator<Item = RunJson<'_>> {
    entries.iter().map(|entry| RunJson {
        action: entry.action.as_str(),
        once_key: entry.key.as_deref(),
        token: entry.token.0,
        slot: entry.slot,
        holder: &entry.holder.label,
        host: &entry.holder.host,
        pid: entry.holder.pid,
        user: &entry.holder.user,
        note: &entry.holder.note,
        started_at: &entry.started_at,
        ended_at: &entry.ended_at,
        waited_ms: entry.waited.map(millis),
        held_ms: millis(entry.duration),
        ended_ago_ms: millis(entry.ago),
        outcome: match (entry.outcome, entry.dlock_status.map(Status::from_code)) {
            (HistoryOutcome::Exited(_), Some(status)) if status.is_time_out() => "timed-out",
            _ => entry.outcome.as_str(),
        },
        code: entry.outcome.code(),
        sessions_ended: entry.sessions_ended,
        processes_killed: entry.processes_killed,
        dlock_status: entry.dlock_status,
        revoked_by: entry.revoked_by.as_deref(),
        command: &entry.holder.command,
    })
}
