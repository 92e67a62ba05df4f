//! One action: all facts of its holder, its line, and its last runs.

use super::columns::{Column, Painted, Widths};
use super::frame::{Frame, Line, Paint};
use super::list::{age, head, text_room};
use super::state::{Details, History, State};
use super::survey::Survey;
use crate::lease::instant::BootInstant;
use crate::report::words;
use crate::store::{Entry, Holder, Remainder, Sighting, Waiter};

/// Where the facts begin: the longest name and a space.
const FACTS: usize = 12;

/// Where the tables begin.
const INDENT: usize = 2;

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
pub(super) fn frame(state: &State, details: &Details, now: BootInstant) -> Frame {
    let lines = lines(&state.survey, details, state.size.columns);
    let room = text_room(state).max(1);
    let below = lines.len().saturating_sub(details.above + room);
    let place = match (details.above, below) {
        (0, 0) => String::new(),
        (_, 0) => "end".to_owned(),
        (_, below) => format!("{below} more"),
    };
    let foot = Line::of("up, down: scroll  Esc: back  Ctrl-C: quit", Paint::Faint);
    let foot = foot.ending(state.size.columns, &place, Paint::Faint);
    let body = lines.into_iter().skip(details.above).take(room).collect();
    Frame::new(state.size, head(state, now), body, foot)
}

/// How many lines may be above the screen, so that it is full.
pub(super) fn furthest(state: &State, details: &Details) -> usize {
    let lines = lines(&state.survey, details, state.size.columns);
    lines.len().saturating_sub(text_room(state).max(1))
}

/// All lines of the page, however many the screen has room for.
fn lines(survey: &Survey, details: &Details, columns: usize) -> Vec<Line> {
    let seen = &details.seen;
    let mut lines = vec![Line::default()];
    for (name, (text, paint)) in facts(details) {
        let line = Line::of(name, Paint::Faint);
        lines.push(line.with(FACTS, columns.saturating_sub(FACTS), &text, paint));
    }
    let room = columns.saturating_sub(INDENT);
    let waiters: Vec<_> = survey.line_of(&seen.action).map(waiter_cells).collect();
    let title = match waiters.len() {
        0 => "nobody waits".to_owned(),
        count => format!("{count} in line"),
    };
    section(&mut lines, &title, &LINE, &waiters, room);
    let runs: Vec<_> = details.history.entries().iter().map(run_cells).collect();
    let title = match (&details.history, runs.len()) {
        (History::Wanted(_), 0) => "asking for the last runs",
        (History::Known(_), 0) => "no run is recorded",
        _ => "last runs",
    };
    section(&mut lines, title, &RUNS, &runs, room);
    lines
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

fn facts(details: &Details) -> Vec<(&'static str, Painted)> {
    use crate::store::State::{Free, Held, Lapsed};
    let seen = &details.seen;
    let plain = |text: String| (text, Paint::Plain);
    let mut facts = vec![
        ("action", (seen.action.to_string(), Paint::Strong)),
        (
            "state",
            match (details.is_listed, seen.state()) {
                (false, _) => (
                    "free, and nobody waits for it any more".to_owned(),
                    Paint::Faint,
                ),
                (true, Free) => ("free".to_owned(), Paint::Faint),
                (true, Held) => ("held".to_owned(), Paint::Good),
                (true, Lapsed) => ("lapsed".to_owned(), Paint::Bad),
            },
        ),
    ];
    if details.is_listed && seen.state() != Free {
        let Holder {
            label,
            host,
            pid,
            user,
            note,
        } = &seen.holder;
        facts.push(("holder", plain(label.clone())));
        let process = format!("{pid} on {host}, of user {user}");
        facts.push(("process", plain(process)));
        if !note.is_empty() {
            facts.push(("note", plain(note.clone())));
        }
        facts.extend(lease(seen).map(|(name, text)| (name, plain(text))));
        if let Some(until) = &seen.kept_until {
            let text = format!("{until} by --min-hold; the run is over");
            facts.push(("kept until", plain(text)));
        }
    }
    facts.push(("token", plain(seen.version.token.to_string())));
    if seen.fenced {
        facts.push(("fence", plain("raised with each grant".to_owned())));
    }
    facts
}

/// What there is to say of a lease.
fn lease(seen: &Sighting) -> [(&'static str, String); 2] {
    let since = seen.acquired_at.as_deref().unwrap_or("-");
    let held_for = format!("{}, since {since}", age(seen.held_for));
    let lapses = match seen.remainder {
        Remainder::Left(left) => format!("lapses in {}", age(left)),
        Remainder::Lapsed(ago) => format!("lapsed {} ago", age(ago)),
    };
    let renewed = age(seen.renewed_ago);
    let times = seen.version.renewals;
    let ttl = words::duration(seen.ttl);
    let lease = format!("renewed {renewed} ago, {times} times; {lapses}; ttl {ttl}");
    [("held for", held_for), ("lease", lease)]
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
    let paint = match entry.fate.is_success() {
        true => Paint::Good,
        false => Paint::Bad,
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
