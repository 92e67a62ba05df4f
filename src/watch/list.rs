//! The list: a line an action. And what stands above and below it on every page.

use std::time::{Duration, UNIX_EPOCH};

use super::columns::{Column, Painted, Widths};
use super::frame::{Frame, Line, Paint, folded};
use super::state::{Order, State};
use crate::lease::instant::BootInstant;
use crate::report::escape::printable;
use crate::report::words;
use crate::store::diagnosis::Diagnosis;
use crate::store::{Remainder, Sighting};

/// Where the texts begin: in front stands the mark of the selected line.
const INDENT: usize = 2;

/// How many lines the reason of a failure may take.
const TROUBLE_LINES: usize = 2;

/// From how many rows on the diagnosis of the selected action stands below the list.
const TALL: usize = 10;

/// How many lines it has there.
const SENTENCE: usize = 2;

const COLUMNS: [Column; 10] = [
    Column::cut("ACTION", 0, 12),
    Column::whole("STATE", 1),
    Column::cut("HOLDER", 2, 12),
    Column::whole("HELD FOR", 3),
    Column::whole("LAPSES IN", 4),
    Column::whole("WAITERS", 5),
    Column::whole("TOKEN", 7),
    Column::whole("LAST RUN", 9),
    Column::cut("NOTE", 8, 8),
    Column::cut("DIAGNOSIS", 6, 50),
];

/// The page.
pub(super) fn frame(state: &State, now: BootInstant) -> Frame {
    let rows = state.rows();
    let cells: Vec<[Painted; 10]> = rows.iter().map(|seen| cells(state, seen)).collect();
    let room = state.size.columns.saturating_sub(INDENT);
    let widths = Widths::new(&COLUMNS, cells.iter(), room);
    let selected = state.selected(&rows);
    let mut head = head(state, now);
    head.push(widths.headings(&COLUMNS, INDENT));
    let room = self::room(state).max(1);
    let mut body: Vec<Line> = cells
        .iter()
        .enumerate()
        .skip(state.above())
        .take(room)
        .map(|(at, cells)| {
            let is_marked = selected == Some(at);
            let mark = if is_marked { ">" } else { "" };
            let line = Line::of(mark, Paint::Strong);
            let line = widths.line(line, cells, INDENT);
            Line { is_marked, ..line }
        })
        .collect();
    if body.is_empty() {
        let locks = &state.heard.survey.locks;
        let why = match locks.is_empty() {
            true => "nobody holds or waits for anything",
            false => "nothing has that in its action, holder or host",
        };
        body.push(Line::default().with(INDENT, usize::MAX, why, Paint::Faint));
    }
    body.resize(room, Line::default());
    if let Some(seen) = selected.map(|at| rows[at]) {
        body.extend(sentence(state, seen));
    }
    Frame::new(state.size, head, body, foot(state))
}

/// What is the matter with the selected action, which a column may have no room for.
fn sentence(state: &State, seen: &Sighting) -> Vec<Line> {
    let text = format!("{}: {}", seen.action, words::diagnosis(seen));
    let mut lines = folded(&printable(&text), state.size.columns);
    lines.truncate(SENTENCE);
    let lines = lines.iter().map(|text| Line::of(text, paint(seen)));
    lines.collect()
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
        (
            "s",
            "sort by action, diagnosis, time held, length of the line",
        ),
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
    let sentence = if state.size.rows < TALL { 0 } else { SENTENCE };
    // The headings stand between the head and the list.
    text_room(state).saturating_sub(1 + sentence)
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
        time_of_day(state.heard.server_time())
    );
    let first = Line::of(&title, Paint::Strong).ending(columns, &time, Paint::Plain);
    let mut head = vec![first, counts(state)];
    if let Some(difference) = state.heard.clock_difference() {
        head.push(Line::of(&difference, Paint::Doubtful));
    }
    head.extend(trouble(state, now));
    head
}

fn counts(state: &State) -> Line {
    use crate::store::State::{Broken, Closed, Free, Held, Lapsed};
    let heard = &state.heard;
    let mut counts = vec![format!("{} actions", heard.survey.locks.len())];
    for kind in [Held, Lapsed, Broken, Closed, Free] {
        match heard.count(kind) {
            0 => {}
            count => counts.push(format!("{count} {kind}")),
        }
    }
    counts.push(format!("{} waiting", heard.all_waiting()));
    let line = Line::of(&counts.join(", "), Paint::Plain);
    let mut order = match state.order {
        Order::Action => String::new(),
        Order::Trouble => "sorted by diagnosis".to_owned(),
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
        age(now.since(state.heard.at)),
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

fn cells(state: &State, seen: &Sighting) -> [Painted; 10] {
    let when_held = |text: String| match seen.is_leased() {
        true => (text, Paint::Plain),
        false => (String::new(), Paint::Plain),
    };
    let lapses = match seen.remainder {
        Remainder::Left(left) => when_held(age(left)),
        Remainder::Lapsed(ago) => when_held(format!("{} ago", age(ago))),
    };
    let waiting = match state.heard.waiting(&seen.action) {
        0 => String::new(),
        count => count.to_string(),
    };
    let last = seen.last.map_or_else(String::new, |last| {
        format!("{}, {} ago", last.fate, age(last.ago))
    });
    let paint = paint(seen);
    [
        (seen.action.to_string(), Paint::Plain),
        (seen.state().to_string(), paint),
        when_held(seen.holder.label.clone()),
        when_held(age(seen.held_for)),
        lapses,
        (waiting, Paint::Doubtful),
        (seen.version.token.to_string(), Paint::Faint),
        (last, Paint::Plain),
        when_held(seen.holder.note.clone()),
        (words::diagnosis(seen), paint),
    ]
}

/// How a state is shown: by what is the matter with it.
pub(super) fn paint(seen: &Sighting) -> Paint {
    match Diagnosis::of(seen) {
        Diagnosis::Free => Paint::Faint,
        Diagnosis::Renewing => Paint::Good,
        Diagnosis::Closed | Diagnosis::Kept => Paint::Doubtful,
        Diagnosis::Broken
        | Diagnosis::ClockSetBack
        | Diagnosis::Silent
        | Diagnosis::Gone
        | Diagnosis::Lapsed => Paint::Bad,
    }
}

/// The lower, the earlier somebody has to look at it.
pub(super) fn severity(seen: &Sighting) -> u8 {
    match paint(seen) {
        Paint::Bad => 0,
        Paint::Doubtful => 1,
        Paint::Good => 2,
        Paint::Plain | Paint::Strong | Paint::Faint => 3,
    }
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
