//! The list with one line per action, the help page, and the header of every page.

use std::time::{Duration, UNIX_EPOCH};

use super::frame::Frame;
use super::state::{ScreenState, SortOrder};
use crate::report::columns::Widths;
use crate::report::line::StyledLine;
use crate::report::messages;
use crate::report::status::{COLUMNS, cells, paint};
use crate::report::style::Style;
use crate::store::LockRecord;

/// Screen column at which the table begins. The columns to the left contain the mark of the selected line, and the mark
/// of an action that needs attention.
const INDENT: usize = 2;

/// Minimum number of screen rows at which the diagnosis of the selected action is shown below the list.
const MIN_ROWS_FOR_DIAGNOSIS: usize = 10;

/// Maximum number of lines for the result of a release.
const NOTICE_LINES: usize = 3;

/// Maximum number of lines for a host that is not used.
const HOST_LINES: usize = 2;

/// Number of lines for the diagnosis below the list.
const DIAGNOSIS_LINES: usize = 2;

/// Renders the page with the list.
pub(super) fn frame(state: &ScreenState) -> Frame {
    let rows = state.rows();
    let cells = |record: &&LockRecord| {
        let mut cells = cells(record, state.latest.waiting(&record.action), false);
        // A remaining time would seem to be current.
        for (column, (text, _)) in COLUMNS.iter().zip(&mut cells) {
            if column.heading == "EXPIRES IN" && state.is_stale() && record.is_leased() {
                "unknown".clone_into(text);
            }
        }
        cells
    };
    let cells: Vec<_> = rows.iter().map(cells).collect();
    let room = state.size.columns.saturating_sub(INDENT);
    let widths = Widths::new(&COLUMNS, cells.iter(), room);
    let selected = state.selected(&rows);
    let mut header = header(state);
    header.push(widths.headings(&COLUMNS, INDENT));
    let room = self::room(state).max(1);
    let mut body: Vec<StyledLine> = cells
        .iter()
        .enumerate()
        .skip(state.above())
        .take(room)
        .map(|(at, cells)| {
            let is_marked = selected == Some(at);
            let mark = if is_marked { ">" } else { "" };
            let attention = match state.latest.needs_attention(rows[at]) {
                true => "!",
                false => "",
            };
            let line = StyledLine::of(mark, Style::Strong).with(1, 1, attention, Style::Bad);
            let line = state.faded(widths.line(line, cells, INDENT));
            StyledLine { is_marked, ..line }
        })
        .collect();
    if body.is_empty() {
        let locks = &state.latest.snapshot.locks;
        let why = match locks.is_empty() {
            true => messages::NOTHING_HELD,
            false => "no action, holder or host matches the filter",
        };
        body.push(StyledLine::default().with(INDENT, usize::MAX, why, Style::Faint));
    }
    body.resize(room, StyledLine::default());
    if let Some(record) = selected.map(|at| rows[at]) {
        body.extend(diagnosis_lines(state, record));
    }
    Frame::new(state.size, header, body, with_notice(state, footer(state)))
}

/// Returns lines with the diagnosis of the selected action, because the DIAGNOSIS column may be too narrow for it.
fn diagnosis_lines(state: &ScreenState, record: &LockRecord) -> Vec<StyledLine> {
    let diagnosis = messages::diagnosis(record);
    let text = match state.is_stale() {
        true => format!("{} at {}: {diagnosis}", record.action, state.data_time()),
        false => format!("{}: {diagnosis}", record.action),
    };
    let lines = StyledLine::default().paragraph(0, state.size.columns, &text, paint(record));
    let lines = lines.into_iter().take(DIAGNOSIS_LINES);
    lines.map(|line| state.faded(line)).collect()
}

/// Renders the help page with all keys.
pub(super) fn help(state: &ScreenState) -> Frame {
    let keys = [
        ("up, k", "previous action"),
        ("down, j", "next action"),
        ("PgUp, PgDn", "previous page, next page"),
        ("Home, g", "first action"),
        ("End, G", "last action"),
        ("Enter", "show details: holder, waiters, last runs"),
        ("Esc, q", "back to the list"),
        ("/", "filter by action, holder or host"),
        ("Esc", "clear the filter"),
        ("s", "sort by action, diagnosis, time held or waiters"),
        ("r", "release the selected action, after a confirmation"),
        ("Ctrl-L", "redraw the screen"),
        ("Ctrl-Z", "suspend; the shell command fg resumes"),
        ("q, Ctrl-C", "quit"),
        ("!", "marks a problem, or a wait of 5 minutes or more"),
    ];
    let line = |(key, meaning): (&str, &str)| {
        let line = StyledLine::default().with(INDENT, usize::MAX, key, Style::Strong);
        line.with(INDENT + 13, usize::MAX, meaning, Style::Plain)
    };
    let body = keys.map(line).into();
    let footer = StyledLine::of("any key: back", Style::Faint);
    Frame::new(state.size, header(state), body, vec![footer])
}

/// Returns the number of actions that fit on the screen.
pub(super) fn room(state: &ScreenState) -> usize {
    let diagnosis = if state.size.rows < MIN_ROWS_FOR_DIAGNOSIS {
        0
    } else {
        DIAGNOSIS_LINES
    };
    // The headings of the columns need one line between the header and the list.
    text_room(state).saturating_sub(1 + diagnosis)
}

/// Returns the number of lines between the header and the footer.
pub(super) fn text_room(state: &ScreenState) -> usize {
    let footer = notice_lines(state).len().max(1);
    state.size.rows.saturating_sub(header(state).len() + footer)
}

/// Returns the header of every page: the server and the time, the number of actions in each state, and problems.
pub(super) fn header(state: &ScreenState) -> Vec<StyledLine> {
    let columns = state.size.columns;
    let title = format!("dlock status  {}", state.title.server);
    let interval = humantime::format_duration(state.title.interval);
    let (time, style) = match state.is_stale() {
        true => (format!("every {interval}  stale"), Style::Bad),
        false => (
            format!("every {interval}  {}", state.data_time()),
            Style::Plain,
        ),
    };
    let first = StyledLine::of(&title, Style::Strong).ending(columns, &time, style);
    let mut header = vec![first, state.faded(counts(state))];
    // If the screen has too few rows, the last lines of the header are removed, so this message comes first.
    header.extend(state.stale_lines());
    for text in messages::skipped_hosts(&state.latest.snapshot) {
        let lines = StyledLine::default().paragraph(0, columns, &text, Style::Doubtful);
        header.extend(lines.into_iter().take(HOST_LINES));
    }
    if state.latest.snapshot.is_read_only {
        header.push(StyledLine::of(messages::READ_ONLY, Style::Doubtful));
    }
    if let Some(difference) = state.latest.clock_difference() {
        header.push(StyledLine::of(&difference, Style::Doubtful));
    }
    header
}

fn counts(state: &ScreenState) -> StyledLine {
    use crate::store::LockState::{Expired, Free, Held, Paused, Revoked};
    let snapshot = &state.latest;
    let actions = u32::try_from(snapshot.snapshot.locks.len()).unwrap_or(u32::MAX);
    let mut counts = vec![messages::count(actions, "action")];
    for kind in [Held, Expired, Revoked, Paused, Free] {
        match snapshot.count(kind) {
            0 => {}
            count => counts.push(format!("{count} {kind}")),
        }
    }
    counts.push(format!("{} waiting", snapshot.all_waiting()));
    let line = StyledLine::of(&counts.join(", "), Style::Plain);
    let mut order = match state.order {
        SortOrder::Action => String::new(),
        SortOrder::Severity => "sorted by diagnosis".to_owned(),
        SortOrder::HeldFor => "sorted by time held".to_owned(),
        SortOrder::Waiters => "sorted by waiters".to_owned(),
    };
    if !state.filter.is_empty() {
        let shown = state.rows().len();
        let gap = if order.is_empty() { "" } else { "; " };
        order = format!("{order}{gap}{shown} matching {:?}", state.filter);
    }
    line.ending(state.size.columns, &order, Style::Doubtful)
}

/// Returns the lines of the notice in place of `footer` if there is a notice.
pub(super) fn with_notice(state: &ScreenState, footer: StyledLine) -> Vec<StyledLine> {
    let lines = notice_lines(state);
    if lines.is_empty() {
        vec![footer]
    } else {
        lines
    }
}

fn notice_lines(state: &ScreenState) -> Vec<StyledLine> {
    let Some((text, style)) = &state.notice else {
        return Vec::new();
    };
    let mut lines = StyledLine::default().paragraph(0, state.size.columns, text, *style);
    lines.truncate(NOTICE_LINES);
    lines
}

fn footer(state: &ScreenState) -> StyledLine {
    if state.is_typing {
        let text = format!("/{}_", state.filter);
        return StyledLine::of(&text, Style::Strong).ending(
            state.size.columns,
            "Enter: apply  Esc: clear",
            Style::Faint,
        );
    }
    let rows = state.rows();
    let position = match state.selected(&rows) {
        Some(at) => format!("{}/{}", at + 1, rows.len()),
        None => String::new(),
    };
    let keys = "Enter: open  /: filter  s: sort  r: release  ?: keys  q: quit";
    StyledLine::of(keys, Style::Faint).ending(state.size.columns, &position, Style::Faint)
}

pub(super) fn time_of_day(since_1970: Duration) -> String {
    let time = humantime::format_rfc3339_seconds(UNIX_EPOCH + since_1970).to_string();
    let time = time.split_once('T').map_or("", |(_, time)| time);
    time.trim_end_matches('Z').to_owned()
}
