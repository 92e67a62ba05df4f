//! The table of locks.

use super::waiters::{waiter_table, waiters_of};
use crate::report::escape::printable;
use crate::report::format::rendered;
use crate::report::messages::{self, duration};
use crate::store::{Expiry, LastRun, LockRecord, Waiter};

/// Formats a table with one line per action. If there are waiters, a table of the waiters follows, in the
/// order of their positions.
///
/// Does not wrap lines. A narrow terminal wraps the lines, but users can still read and copy them. If a
/// cell were wrapped, a token could be split over two lines of the cell.
#[must_use]
pub fn table(records: &[LockRecord], waiters: &[Waiter]) -> String {
    let heading = [
        "ACTION",
        "STATE",
        "HOLDER",
        "HOST",
        "PID",
        "USER",
        "TOKEN",
        "HELD FOR",
        "EXPIRES IN",
        "WAITERS",
        "LAST RUN",
        "NOTE",
        "DIAGNOSIS",
    ];
    let rows = records.iter().map(|record| {
        let waiting = waiters_of(waiters, &record.action);
        let alive = waiting.filter(|waiter| waiter.alive != Some(false));
        holder_cells(record, alive.count())
    });
    let mut text = rendered(heading, rows);
    if !waiters.is_empty() {
        text.push('\n');
        text.push_str(&waiter_table(records, waiters));
    }
    text
}

fn holder_cells(record: &LockRecord, waiters: usize) -> [String; 13] {
    let is_held = record.is_leased();
    let unless_free = |text: String| if is_held { text } else { "-".to_owned() };
    let expires = match record.expiry {
        Expiry::In(left) => duration(left),
        Expiry::Ago(ago) => format!("{} ago", duration(ago)),
    };
    let holder = &record.holder;
    [
        printable(record.action.as_str()).into_owned(),
        record.state().to_string(),
        unless_free(printable(&holder.label).into_owned()),
        unless_free(printable(&holder.host).into_owned()),
        unless_free(holder.pid.to_string()),
        unless_free(printable(&holder.user).into_owned()),
        record.version.token.to_string(),
        unless_free(duration(record.held_for)),
        unless_free(expires),
        waiters.to_string(),
        record.last.map_or_else(|| "-".to_owned(), last_run),
        unless_free(printable(&holder.note).into_owned()),
        printable(&messages::diagnosis(record)).into_owned(),
    ]
}

/// Formats the outcome and the age of the last run.
pub(super) fn last_run(last: LastRun) -> String {
    format!("{}, {} ago", last.outcome, duration(last.ago))
}
