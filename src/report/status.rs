//! The forms of `dlock status`: tables and facts for people here, JSON for programs in `document`.

mod document;
mod facts;
#[cfg(test)]
mod tests;

use super::escape::printable;
use super::form::rendered;
use super::words::{self, duration};
use crate::lease::action::Action;
use crate::store::{LastRun, Remainder, Sighting, Waiter};

pub use self::document::json;
pub use self::facts::{details, facts};

/// The tables: a line an action, and below, if anybody waits, a line a waiter in the order
/// of their places. Lines are never folded: a terminal that is too narrow wraps them, which can
/// still be read and copied, unlike a token broken over two lines of its cell.
#[must_use]
pub fn table(sightings: &[Sighting], waiters: &[Waiter]) -> String {
    let heading = [
        "ACTION",
        "STATE",
        "HOLDER",
        "HOST",
        "PID",
        "USER",
        "TOKEN",
        "HELD FOR",
        "LAPSES IN",
        "WAITERS",
        "LAST RUN",
        "NOTE",
        "DIAGNOSIS",
    ];
    let rows = sightings.iter().map(|seen| {
        let line = line_of(waiters, &seen.action);
        let there = line.filter(|waiter| waiter.alive != Some(false));
        holder_cells(seen, there.count())
    });
    let mut text = rendered(heading, rows);
    if !waiters.is_empty() {
        text.push('\n');
        text.push_str(&line(sightings, waiters));
    }
    text
}

/// The table of the waiters, in the order of their places.
fn line(sightings: &[Sighting], waiters: &[Waiter]) -> String {
    let heading = [
        "ACTION",
        "PLACE",
        "WAITER",
        "HOST",
        "PID",
        "USER",
        "WAITING FOR",
        "SESSION",
        "NOTE",
    ];
    let rows = sightings.iter().flat_map(|seen| {
        let line = line_of(waiters, &seen.action);
        (1..)
            .zip(line)
            .map(|(place, waiter)| waiter_cells(place, waiter))
    });
    rendered(heading, rows)
}

fn line_of<'a>(waiters: &'a [Waiter], action: &'a Action) -> impl Iterator<Item = &'a Waiter> {
    waiters
        .iter()
        .filter(move |waiter| waiter.action == *action)
}

fn holder_cells(seen: &Sighting, waiters: usize) -> [String; 13] {
    let held = seen.is_leased();
    let when_held = |text: String| if held { text } else { "-".to_owned() };
    let lapses = match seen.remainder {
        Remainder::Left(left) => duration(left),
        Remainder::Lapsed(ago) => format!("{} ago", duration(ago)),
    };
    let holder = &seen.holder;
    [
        printable(seen.action.as_str()).into_owned(),
        seen.state().to_string(),
        when_held(printable(&holder.label).into_owned()),
        when_held(printable(&holder.host).into_owned()),
        when_held(holder.pid.to_string()),
        when_held(printable(&holder.user).into_owned()),
        seen.version.token.to_string(),
        when_held(duration(seen.held_for)),
        when_held(lapses),
        waiters.to_string(),
        seen.last.map_or_else(|| "-".to_owned(), last_run),
        when_held(printable(&holder.note).into_owned()),
        printable(&words::diagnosis(seen)).into_owned(),
    ]
}

fn last_run(last: LastRun) -> String {
    format!("{}, {} ago", last.fate, duration(last.ago))
}

fn waiter_cells(place: usize, waiter: &Waiter) -> [String; 9] {
    let holder = &waiter.holder;
    [
        printable(waiter.action.as_str()).into_owned(),
        place.to_string(),
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
