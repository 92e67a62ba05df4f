//! The list: a line an action. And what stands above and below it on every page.

use std::time::{Duration, UNIX_EPOCH};

use super::columns::{Column, Painted, Widths};
use super::frame::{Frame, Line, Paint, folded};
use super::state::{Order, State};
use crate::lease::instant::BootInstant;
use crate::report::escape::printable;
use crate::store::{Remainder, Sighting};

/// Where the texts begin: in front stands the mark of the selected line.
const INDENT: usize = 2;

/// How many lines the reason of a failure may take.
const TROUBLE_LINES: usize = 2;

const COLUMNS: [Column; 9] = [
    Column::cut("ACTION", 0, 12),
    Column::whole("STATE", 1),
    Column::cut("HOLDER", 2, 12),
    Column::whole("HELD FOR", 3),
    Column::whole("LAPSES IN", 4),
    Column::whole("WAITERS", 5),
    Column::whole("TOKEN", 6),
    Column::whole("LAST RUN", 8),
    Column::cut("NOTE", 7, 8),
];

/// The page.
pub(super) fn frame(state: &State, now: BootInstant) -> Frame {
    let rows = state.rows();
    let cells: Vec<[Painted; 9]> = rows.iter().map(|seen| cells(state, seen)).collect();
    let room = state.size.columns.saturating_sub(INDENT);
    let widths = Widths::new(&COLUMNS, cells.iter(), room);
    let selected = state.selected(&rows);
    let mut head = head(state, now);
    head.push(widths.headings(&COLUMNS, INDENT));
    let mut body: Vec<Line> = cells
        .iter()
        .enumerate()
        .skip(state.above())
        .take(self::room(state).max(1))
        .map(|(at, cells)| {
            let is_marked = selected == Some(at);
            let mark = if is_marked { ">" } else { "" };
            let line = Line::of(mark, Paint::Strong);
            let line = widths.line(line, cells, INDENT);
            Line { is_marked, ..line }
        })
        .collect();
    if body.is_empty() {
        let why = match (state.survey.sightings.is_empty(), state.filter.is_empty()) {
            (true, _) => "nobody holds or waits for anything",
            (false, _) => "nothing has that in its action, holder or host",
        };
        body.push(Line::default().with(INDENT, usize::MAX, why, Paint::Faint));
    }
    Frame::new(state.size, head, body, foot(state))
}

/// The page about the keys.
pub(super) fn help(state: &State, now: BootInstant) -> Frame {
    let keys = [
        ("up, k", "one action up"),
        ("down, j", "one action down"),
        ("PgUp, PgDn", "one page up, down"),
        ("Home, g", "to the first"),
        ("End, G", "to the last"),
        (
            "Enter",
            "open the action: its facts, its line, its last runs",
        ),
        ("Esc, q", "back to the list"),
        (
            "/",
            "show only what has a text in its action, holder or host",
        ),
        ("Esc", "show all again"),
        ("s", "sort by action, by time held, by length of the line"),
        ("Ctrl-L", "draw the screen anew"),
        ("Ctrl-Z", "back to the shell; fg comes back"),
        ("q, Ctrl-C", "end"),
    ];
    let line = |(key, meaning): (&str, &str)| {
        let line = Line::default().with(INDENT, usize::MAX, key, Paint::Strong);
        line.with(INDENT + 13, usize::MAX, meaning, Paint::Plain)
    };
    let body = keys.map(line).into();
    let foot = Line::of("any key: back", Paint::Faint);
    Frame::new(state.size, head(state, now), body, foot)
}

/// How many actions there is room for.
pub(super) fn room(state: &State) -> usize {
    // The headings stand between the head and the list.
    text_room(state).saturating_sub(1)
}

/// How many lines there are between head and foot.
pub(super) fn text_room(state: &State) -> usize {
    // Of the head only the number of lines matters, which no time changes.
    let head = head(state, BootInstant::new(Duration::ZERO));
    state.size.rows.saturating_sub(head.len() + 1)
}

/// What stands at the top of every page: server and time, counts, and what is wrong.
pub(super) fn head(state: &State, now: BootInstant) -> Vec<Line> {
    let columns = state.size.columns;
    let title = format!("dlock status  {}", state.title.server);
    let time = format!(
        "every {}  {} UTC",
        state.title.interval,
        time_of_day(state.survey.heard_at)
    );
    let first = Line::of(&title, Paint::Strong).ending(columns, &time, Paint::Plain);
    let mut head = vec![first, counts(state)];
    head.extend(trouble(state, now));
    head
}

fn counts(state: &State) -> Line {
    use crate::store::State::{Free, Held, Lapsed};
    let survey = &state.survey;
    let mut counts = vec![format!("{} actions", survey.sightings.len())];
    for (kind, word) in [(Held, "held"), (Lapsed, "lapsed"), (Free, "free")] {
        match survey.count(kind) {
            0 => {}
            count => counts.push(format!("{count} {word}")),
        }
    }
    counts.push(format!("{} waiting", survey.all_waiting()));
    let line = Line::of(&counts.join(", "), Paint::Plain);
    let mut order = match state.order {
        Order::Action => String::new(),
        Order::HeldFor => "sorted by time held".to_owned(),
        Order::Waiters => "sorted by waiters".to_owned(),
    };
    if !state.filter.is_empty() {
        let shown = state.rows().len();
        let gap = if order.is_empty() { "" } else { "; " };
        order = format!("{order}{gap}{shown} with {:?}", state.filter);
    }
    line.ending(state.size.columns, &order, Paint::Doubtful)
}

/// How old what is shown is, and why.
fn trouble(state: &State, now: BootInstant) -> Vec<Line> {
    let Some(trouble) = &state.trouble else {
        return Vec::new();
    };
    let age = format!(
        "no answer for {}, shown is what was {} ago",
        age(now.since(trouble.since)),
        age(now.since(state.survey.heard)),
    );
    let mut why = folded(&printable(&trouble.why), state.size.columns);
    why.truncate(TROUBLE_LINES);
    let bad = |text: &String| Line::of(text, Paint::Bad);
    std::iter::once(&age).chain(&why).map(bad).collect()
}

fn foot(state: &State) -> Line {
    if state.is_typing {
        let text = format!("/{}_", state.filter);
        return Line::of(&text, Paint::Strong).ending(
            state.size.columns,
            "Enter: keep  Esc: show all",
            Paint::Faint,
        );
    }
    let rows = state.rows();
    let place = match state.selected(&rows) {
        Some(at) => format!("{}/{}", at + 1, rows.len()),
        None => String::new(),
    };
    let keys = "Enter: open  /: filter  s: sort  ?: keys  q: quit";
    Line::of(keys, Paint::Faint).ending(state.size.columns, &place, Paint::Faint)
}

fn cells(state: &State, seen: &Sighting) -> [Painted; 9] {
    use crate::store::State::{Free, Held, Lapsed};
    let kind = seen.state();
    let paint = match kind {
        Held => Paint::Good,
        Lapsed => Paint::Bad,
        Free => Paint::Faint,
    };
    let when_held = |text: String| match kind {
        Free => (String::new(), Paint::Plain),
        Held | Lapsed => (text, Paint::Plain),
    };
    let lapses = match seen.remainder {
        Remainder::Left(left) => age(left),
        Remainder::Lapsed(ago) => format!("{} ago", age(ago)),
    };
    let waiting = match state.survey.waiting(&seen.action) {
        0 => (String::new(), Paint::Plain),
        count => (count.to_string(), Paint::Doubtful),
    };
    let last = seen.last.map_or_else(String::new, |last| {
        format!("{}, {} ago", last.fate, age(last.ago))
    });
    [
        (seen.action.to_string(), Paint::Plain),
        (kind.to_string(), paint),
        when_held(seen.holder.label.clone()),
        when_held(age(seen.held_for)),
        (
            when_held(lapses).0,
            if kind == Lapsed {
                Paint::Bad
            } else {
                Paint::Plain
            },
        ),
        waiting,
        (seen.version.token.to_string(), Paint::Faint),
        (last, Paint::Plain),
        when_held(seen.holder.note.clone()),
    ]
}

/// A duration in at most two units: a column has no room for more.
pub(super) fn age(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let two = |big: u64, big_unit, small: u64, small_unit| match small {
        0 => format!("{big}{big_unit}"),
        _ => format!("{big}{big_unit} {small}{small_unit}"),
    };
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => two(seconds / 60, "m", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds / 60 % 60, "m"),
        _ => two(seconds / 86_400, "d", seconds / 3_600 % 24, "h"),
    }
}

fn time_of_day(since_1970: Duration) -> String {
    let time = humantime::format_rfc3339_seconds(UNIX_EPOCH + since_1970).to_string();
    let time = time.split_once('T').map_or("", |(_, time)| time);
    time.trim_end_matches('Z').to_owned()
}
