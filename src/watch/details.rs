//! One action: all facts of its holder, its line, and its last runs.

use super::columns::{Column, Painted, Widths};
use super::frame::{Frame, Line, Paint, folded};
use super::list::{age, head, paint, text_room};
use super::opened::{History, Opened};
use super::state::State;
use crate::lease::instant::BootInstant;
use crate::report::escape::printable;
use crate::report::{self, words};
use crate::store::{Entry, Fate, Waiter};

/// Where names of facts and tables begin.
const INDENT: usize = 2;

/// Where the facts begin: after the longest name.
const FACTS: usize = 16;

const LINE: [Column; 7] = [
    Column::whole("PLACE", 0),
    Column::cut("WAITER", 1, 12),
    Column::whole("WAITING FOR", 2),
    Column::whole("SESSION", 3),
    Column::cut("HOST", 4, 8),
    Column::cut("USER", 5, 6),
    Column::cut("NOTE", 6, 8),
];

const RUNS: [Column; 7] = [
    Column::whole("ENDED", 0),
    Column::cut("HOLDER", 1, 12),
    Column::whole("TOOK", 2),
    Column::cut("NOTE", 3, 8),
    Column::cut("KEY", 4, 6),
    Column::whole("TOKEN", 5),
    Column::whole("BEGAN", 6),
];

/// The page.
pub(super) fn frame(state: &State, opened: &Opened, now: BootInstant) -> Frame {
    let lines = lines(state, opened);
    let room = text_room(state).max(1);
    let below = lines.len().saturating_sub(opened.above + room);
    let place = match (opened.above, below) {
        (0, 0) => String::new(),
        (_, 0) => "end".to_owned(),
        (_, below) => format!("{below} more"),
    };
    let foot = Line::of("up, down: scroll  Esc: back  Ctrl-C: quit", Paint::Faint);
    let foot = foot.ending(state.size.columns, &place, Paint::Faint);
    let body = lines.into_iter().skip(opened.above).take(room).collect();
    Frame::new(state.size, head(state, now), body, foot)
}

/// How many lines may be above the screen, so that it is full.
pub(super) fn furthest(state: &State, opened: &Opened) -> usize {
    let lines = lines(state, opened);
    lines.len().saturating_sub(text_room(state).max(1))
}

/// All lines of the page, however many the screen has room for.
fn lines(state: &State, opened: &Opened) -> Vec<Line> {
    let seen = &opened.seen;
    let mut lines = vec![Line::default(), title(opened)];
    for (name, text) in facts(opened) {
        let room = state.size.columns.saturating_sub(FACTS).max(1);
        let paint = match name {
            "diagnosis" => paint(seen),
            _ => Paint::Plain,
        };
        let mut name = Some(name);
        for text in folded(&printable(&text), room) {
            let line = Line::default().with(INDENT, FACTS, name.take().unwrap_or(""), Paint::Faint);
            lines.push(line.with(FACTS, room, &text, paint));
        }
    }
    let room = state.size.columns.saturating_sub(INDENT);
    let waiters = state.heard.line_of(&seen.action);
    let waiters: Vec<_> = waiters.map(waiter_cells).collect();
    let title = match waiters.len() {
        0 => "nobody waits".to_owned(),
        count => format!("{count} in line"),
    };
    section(&mut lines, &title, &LINE, &waiters, room);
    let runs: Vec<_> = opened.history.entries().iter().map(run_cells).collect();
    let title = match (&opened.history, runs.len()) {
        (History::Wanted(_), 0) => "asking for the last runs",
        (History::Known(_), 0) => "no run is recorded",
        _ => "last runs",
    };
    section(&mut lines, title, &RUNS, &runs, room);
    lines
}

fn title(opened: &Opened) -> Line {
    let Opened {
        seen, is_listed, ..
    } = opened;
    let name = Line::of(&format!("{}:", seen.action), Paint::Strong);
    let column = name.end() + 1;
    let (state, paint) = match is_listed {
        true => (seen.state().to_string(), paint(seen)),
        false => (
            "free, and nobody waits for it any more".to_owned(),
            Paint::Faint,
        ),
    };
    name.with(column, usize::MAX, &state, paint)
}

/// What is known of it now. The last run is the first of the history.
fn facts(opened: &Opened) -> Vec<(&'static str, String)> {
    let mut facts = report::status::facts(&opened.seen);
    facts.retain(|(name, _)| match opened.is_listed {
        true => *name != "last run",
        false => *name == "token",
    });
    facts
}

/// A title, and below it a table if it has rows.
fn section<const N: usize>(
    lines: &mut Vec<Line>,
    title: &str,
    columns: &[Column; N],
    rows: &[[Painted; N]],
    room: usize,
) {
    lines.push(Line::default());
    lines.push(Line::of(title, Paint::Strong));
    if !rows.is_empty() {
        let widths = Widths::new(columns, rows.iter(), room);
        lines.push(widths.headings(columns, INDENT));
        let line = |cells| widths.line(Line::default(), cells, INDENT);
        lines.extend(rows.iter().map(line));
    }
}

fn waiter_cells((place, waiter): (usize, &Waiter)) -> [Painted; 7] {
    let holder = &waiter.holder;
    let plain = |text: &str| (text.to_owned(), Paint::Plain);
    [
        (place.to_string(), Paint::Plain),
        plain(&holder.label),
        (age(waiter.waiting_for), Paint::Plain),
        match waiter.alive {
            Some(true) => ("alive".to_owned(), Paint::Good),
            Some(false) => ("gone".to_owned(), Paint::Bad),
            None => ("-".to_owned(), Paint::Faint),
        },
        plain(&holder.host),
        plain(&holder.user),
        plain(&holder.note),
    ]
}

fn run_cells(entry: &Entry) -> [Painted; 7] {
    let plain = |text: &str| (text.to_owned(), Paint::Plain);
    let paint = match entry.fate {
        Fate::Exited(0) => Paint::Good,
        Fate::Exited(_) | Fate::Killed(_) | Fate::Lost | Fate::Broken => Paint::Bad,
        // Not how a run ended, but what somebody did by hand.
        Fate::Forgotten | Fate::Released | Fate::Closed | Fate::Reopened => Paint::Doubtful,
    };
    [
        (format!("{}, {} ago", entry.fate, age(entry.ago)), paint),
        plain(&entry.holder.label),
        (words::duration(entry.took), Paint::Plain),
        plain(&entry.holder.note),
        plain(entry.key.as_deref().unwrap_or("")),
        (entry.token.to_string(), Paint::Faint),
        plain(&entry.began_at),
    ]
}
