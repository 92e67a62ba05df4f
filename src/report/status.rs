//! The output formats of `dlock status`: tables and facts for users, and JSON for programs in `json`.

mod details;
mod json;

use super::escape::printable;
use super::format::rendered;
use super::messages::{self, duration};
use crate::lease::action::Action;
use crate::store::{Expiry, LastRun, LockRecord, Waiter};

pub use self::details::{details, facts};
pub use self::json::json;

/// Returns a table with one line per action, followed by a table of the waiters in the order of their
/// positions, if there are waiters. Lines are not wrapped here. A terminal that is too narrow wraps them;
/// such a line can still be read and copied, unlike a token that is split over two lines of its cell.
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

/// Returns the table of the waiters, in the order of their positions.
fn waiter_table(records: &[LockRecord], waiters: &[Waiter]) -> String {
    let heading = [
        "ACTION", "POSITION", "WAITER", "HOST", "PID", "USER", "WAITED", "SESSION", "NOTE",
    ];
    let rows = records.iter().flat_map(|record| {
        let waiting = waiters_of(waiters, &record.action);
        (1..)
            .zip(waiting)
            .map(|(position, waiter)| waiter_cells(position, waiter))
    });
    rendered(heading, rows)
}

fn waiters_of<'a>(waiters: &'a [Waiter], action: &'a Action) -> impl Iterator<Item = &'a Waiter> {
    waiters
        .iter()
        .filter(move |waiter| waiter.action == *action)
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

fn last_run(last: LastRun) -> String {
    format!("{}, {} ago", last.fate, duration(last.ago))
}

fn waiter_cells(position: usize, waiter: &Waiter) -> [String; 9] {
    let holder = &waiter.holder;
    [
        printable(waiter.action.as_str()).into_owned(),
        position.to_string(),
        printable(&holder.label).into_owned(),
        printable(&holder.host).into_owned(),
        holder.pid.to_string(),
        printable(&holder.user).into_owned(),
        duration(waiter.waiting_for),
        match waiter.alive {
            Some(true) => "alive",
            Some(false) => "gone",
            None => "-",
        }
        .to_owned(),
        printable(&holder.note).into_owned(),
    ]
}
