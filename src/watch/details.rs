//! The details page of one action: all facts about its holder, its queue, and its most recent runs.

use super::detail_state::{DetailState, RunList};
use super::frame::Frame;
use super::list::{header, text_room, with_notice};
use super::state::ScreenState;
use crate::report::columns::{Painted, TableColumn, Widths};
use crate::report::history;
use crate::report::line::StyledLine;
use crate::report::messages::age;
use crate::report::status::paint;
use crate::report::style::Style;
use crate::report::{self, messages};
use crate::store::session_states::SessionStates;
use crate::store::{HistoryEntry, Waiter};

/// The keys in the footer.
const KEYS: &str = "up, down: scroll  r: release  Esc: back  Ctrl-C: quit";

/// Screen column at which the names of facts and the tables begin.
const INDENT: usize = 2;

/// Screen column at which the values of facts begin, to the right of the longest name.
const FACTS: usize = 16;

const QUEUE: [TableColumn; 7] = [
    TableColumn::whole("POSITION", 0),
    TableColumn::cut("WAITER", 1, 12),
    TableColumn::whole("WAITED", 2),
    TableColumn::whole("SESSION", 3),
    TableColumn::cut("HOST", 4, 8),
    TableColumn::cut("USER", 5, 6),
    TableColumn::cut("NOTE", 6, 8),
];

const RUNS: [TableColumn; 7] = [
    TableColumn::whole("RESULT", 0),
    TableColumn::cut("HOLDER", 1, 12),
    TableColumn::whole("HELD", 2),
    TableColumn::cut("NOTE", 3, 8),
    TableColumn::cut("KEY", 4, 6),
    TableColumn::whole("TOKEN", 5),
    TableColumn::whole("STARTED", 6),
];

/// Renders the details page.
pub(super) fn frame(state: &ScreenState, details: &DetailState) -> Frame {
    let lines = lines(state, details);
    let room = text_room(state).max(1);
    let below = lines.len().saturating_sub(details.above + room);
    let position = match (details.above, below) {
        (0, 0) => String::new(),
        (_, 0) => "end".to_owned(),
        (_, below) => format!("{below} more"),
    };
    let footer = StyledLine::of(KEYS, Style::Faint);
    let footer = footer.ending(state.size.columns, &position, Style::Faint);
    let body = lines.into_iter().skip(details.above).take(room).collect();
    Frame::new(state.size, header(state), body, with_notice(state, footer))
}

/// Returns the scroll position at which the page ends at the bottom of the screen. 0 if the whole page fits on the
/// screen.
pub(super) fn max_scroll(state: &ScreenState, details: &DetailState) -> usize {
    let lines = lines(state, details);
    lines.len().saturating_sub(text_room(state).max(1))
}

/// Returns all lines of the page, including those that do not fit on the screen.
fn lines(state: &ScreenState, details: &DetailState) -> Vec<StyledLine> {
    let record = &details.record;
    let mut lines = vec![StyledLine::default(), title(state, details)];
    for (name, text) in facts(state, details) {
        let paint = match name {
            "diagnosis" => paint(record),
            _ => Style::Plain,
        };
        lines.extend(fact_lines(state, name, &text, paint));
    }
    let room = state.size.columns.saturating_sub(INDENT);
    let waiters = state.latest.queue_of(&record.action);
    let waiters: Vec<_> = waiters.map(waiter_cells).collect();
    let waiting = state.latest.waiting(&record.action);
    let title = match waiting {
        0 => "no waiters".to_owned(),
        count => format!("{count} waiting"),
    };
    section(&mut lines, &title, &QUEUE, &waiters, room);
    if waiters.len() > waiting {
        let before = StyledLine::default();
        lines.extend(before.paragraph(INDENT, room, messages::ENDED_WAITERS, Style::Faint));
    }
    let runs: Vec<_> = details.history.entries().iter().map(run_cells).collect();
    let title = match (&details.history, &details.history_failure, runs.len()) {
        (_, Some(why), _) => format!("the last runs cannot be read: {why}"),
        (RunList::Outdated(_), None, 0) => "loading the last runs".to_owned(),
        (RunList::Current(_), None, 0) => "no recorded runs".to_owned(),
        _ => "last runs".to_owned(),
    };
    section(&mut lines, &title, &RUNS, &runs, room);
    lines.into_iter().map(|line| state.faded(line)).collect()
}

/// Returns the lines of one fact: its name, and its value, wrapped to the width of the screen.
pub(super) fn fact_lines(
    state: &ScreenState,
    name: &str,
    text: &str,
    paint: Style,
) -> Vec<StyledLine> {
    let room = state.size.columns.saturating_sub(FACTS);
    let name = StyledLine::default().with(INDENT, FACTS, name, Style::Faint);
    name.paragraph(FACTS, room, text, paint)
}

fn title(page: &ScreenState, details: &DetailState) -> StyledLine {
    let DetailState {
        record, is_listed, ..
    } = details;
    let name = StyledLine::of(&format!("{}:", record.action), Style::Strong);
    let column = name.end() + 1;
    let (state, paint) = match is_listed {
        true => (record.state().to_string(), paint(record)),
        false => ("free, no waiters".to_owned(), Style::Faint),
    };
    let state = match page.is_stale() {
        true => format!("{state} at {}", page.data_time()),
        false => state,
    };
    name.with(column, usize::MAX, &state, paint)
}

/// Returns the facts about the action. If the action is not listed, returns only its token. Omits the fact `last run`,
/// because the table of runs contains that run. If the data is stale, the remaining time of the lease is unknown.
fn facts(state: &ScreenState, details: &DetailState) -> Vec<(&'static str, String)> {
    let mut facts = report::status::facts(&details.record, &SessionStates::NotQueried);
    facts.retain(|(name, _)| match details.is_listed {
        true => *name != "last run",
        false => *name == "token",
    });
    state.without_remaining_time(&details.record, facts)
}

/// Adds a title to `lines`. If there are rows, also adds a table.
fn section<const N: usize>(
    lines: &mut Vec<StyledLine>,
    title: &str,
    columns: &[TableColumn; N],
    rows: &[[Painted; N]],
    room: usize,
) {
    lines.push(StyledLine::default());
    lines.push(StyledLine::of(title, Style::Strong));
    if !rows.is_empty() {
        let widths = Widths::new(columns, rows.iter(), room);
        lines.push(widths.headings(columns, INDENT));
        let line = |cells| widths.line(StyledLine::default(), cells, INDENT);
        lines.extend(rows.iter().map(line));
    }
}

fn waiter_cells((position, waiter): (usize, &Waiter)) -> [Painted; 7] {
    let holder = &waiter.holder;
    let plain = |text: &str| (text.to_owned(), Style::Plain);
    [
        (position.to_string(), Style::Plain),
        plain(&holder.label),
        (age(waiter.waiting_for), Style::Plain),
        match waiter.alive {
            Some(true) => ("alive".to_owned(), Style::Good),
            Some(false) => ("gone".to_owned(), Style::Bad),
            None => ("-".to_owned(), Style::Faint),
        },
        plain(&holder.host),
        plain(&holder.user),
        plain(&holder.note),
    ]
}

fn run_cells(entry: &HistoryEntry) -> [Painted; 7] {
    let plain = |text: &str| (text.to_owned(), Style::Plain);
    [
        (
            format!("{}, {} ago", history::result(entry), age(entry.ago)),
            history::paint(entry.outcome),
        ),
        plain(&entry.holder.label),
        (messages::duration(entry.duration), Style::Plain),
        plain(&entry.holder.note),
        plain(entry.key.as_deref().unwrap_or("")),
        (entry.token.to_string(), Style::Faint),
        plain(&entry.started_at),
    ]
}
