//! Reads artificial histories for the tests of the checkers.
//!
//! A history is a text like `1000 launched 1, 1100 started 1 10, 2000 ended 1 0`. Each event has its time in milliseconds,
//! its name, the number of its run, and what [`event`] reads. The other forms are:
//!
//! - `1000 launched 1 exit=3 limit=0` starts a run whose plan differs from [`plan`] in these fields.
//! - `1000-2000 run 1 10` is a complete run without a fault, with the token 10.
//! - `1000-2000 kill-parent 1` is a fault that affects run 1, `1000-2000 kill-server` one that affects the site, and
//!   `1000-2000 kill-server @restarts` one that affects another site.

use crate::check::PROPERTIES;
use crate::history::{Event, Line};
use crate::schedule::{ContenderKind, Plan};
use crate::timeline::Timeline;

/// Returns the timeline of a history of the first action of a site with a single server.
pub(crate) fn timeline(history: &str) -> Timeline {
    timeline_at("processes", history)
}

/// Returns the timeline of a history of the first action of `site`.
pub(crate) fn timeline_at(site: &str, history: &str) -> Timeline {
    let mut lines = Vec::new();
    let mut events: Vec<String> = Vec::new();
    for text in history.split(", ") {
        match events.last_mut() {
            // The comma is part of a message.
            Some(last) if !text.starts_with(|first: char| first.is_ascii_digit()) => {
                *last = format!("{last}, {text}");
            }
            _ => events.push(text.to_owned()),
        }
    }
    for (text, fault) in events.iter().zip(1..) {
        add(&mut lines, site, text, fault);
    }
    lines.sort_by_key(|line| line.at);
    Timeline::of(lines)
}

/// Returns the properties that a history violates.
pub(crate) fn violations(history: &str) -> Vec<&'static str> {
    violations_at("processes", history)
}

/// Returns the properties that a history of the first action of `site` violates.
pub(crate) fn violations_at(site: &str, history: &str) -> Vec<&'static str> {
    let timeline = timeline_at(site, history);
    let mut violated = PROPERTIES.to_vec();
    violated.retain(|(_, checker)| !checker(&timeline).is_empty());
    violated.into_iter().map(|(property, _)| property).collect()
}

/// Asserts that the history `base` violates exactly the properties `expected` if these events are added to it.
#[track_caller]
pub(crate) fn assert_with<const N: usize>(base: &str, more: &str, expected: [&str; N]) {
    let found = violations(&format!("{base}, {more}"));
    assert_eq!(found, expected, "{more}");
}

/// Adds one event, or the events of a run or a fault. A fault gets the number `fault`.
fn add(lines: &mut Vec<Line>, site: &str, text: &str, fault: u64) {
    let (time, words) = text.split_once(' ').expect("an event has a time");
    let (from, to) = time.split_once('-').unwrap_or((time, time));
    let [from, to]: [u64; 2] = [from, to].map(|time| time.parse().expect("a time"));
    let (name, rest) = words.split_once(' ').unwrap_or((words, ""));
    let (first, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let run = first.parse().ok();
    let mut push = |millis: u64, run, action: bool, event| {
        lines.push(Line {
            at: millis * 1_000,
            run,
            action: action.then(|| format!("{site}-1")),
            event,
        });
    };
    if let Ok(kind) = name.parse() {
        let site = first.strip_prefix('@').unwrap_or(site).to_owned();
        let pid = None;
        let event = Event::Fault {
            fault,
            kind,
            site,
            pid,
        };
        push(from, run, run.is_some(), event);
        push(to, None, false, Event::Healed { fault, hit: true });
    } else if name == "run" {
        for (millis, name, rest) in [
            (from, "launched", ""),
            (from + 10, "started", rest),
            (to - 10, "finished", ""),
            (to - 5, "dead", ""),
            (to, "ended", "0"),
        ] {
            push(millis, run, true, event(name, first, rest));
        }
    } else {
        push(from, run, true, event(name, first, rest));
    }
}

/// Returns the event `name`. `first` is the number of its run, or the first word of an event without a run.
fn event(name: &str, first: &str, rest: &str) -> Event {
    let word = |index: usize| rest.split(' ').nth(index).unwrap_or_default();
    let number = |index: usize| word(index).parse().expect("a number");
    let micros = |text: &str| text.parse::<u64>().expect("a number") * 1_000;
    match name {
        "launched" => Event::Launched {
            parent: 1_000,
            plan: plan(rest),
        },
        "started" => Event::Started {
            token: number(0),
            pid: 2_000,
            parent: 1_000,
            alone: word(1) != "beside-another",
        },
        "counting" => Event::Counting { count: number(0) },
        "counted" => Event::Counted { count: number(0) },
        "refused" => Event::Refused {
            token: number(0),
            highest: number(1),
        },
        "finished" => Event::Finished,
        "dead" => Event::Dead,
        "revoked" => Event::Revoked,
        "ended" | "killed" => {
            let (code, stderr) = rest.split_once(' ').unwrap_or((rest, ""));
            let code: i32 = code.parse().expect("a number");
            Event::Ended {
                status: (name == "ended").then_some(code),
                signal: (name == "killed").then_some(code),
                stderr: stderr.to_owned(),
            }
        }
        "session" => Event::Session {
            is_alive: rest == "alive",
        },
        "counter" => Event::Counter {
            count: first.parse().expect("a number"),
        },
        "stalled" => Event::Stalled {
            site: (!rest.is_empty()).then(|| rest.to_owned()),
            micros: micros(first),
        },
        "orphan" => Event::Orphan {
            pid: 4_711,
            words: first.to_owned(),
        },
        "quiet" => Event::Quiet,
        "overdue" => Event::Overdue,
        _ => panic!("{name}: no such event"),
    }
}

/// Returns a plan with a ttl of 2 s and the values in `fields`, like `exit=3 option=once`.
fn plan(fields: &str) -> Plan {
    let plan = Plan {
        hold: 1_000,
        ..Plan::plain(ContenderKind::Exec, 2_000)
    };
    let mut plan = serde_json::to_value(plan).expect("a plan is plain data");
    for field in fields.split_whitespace() {
        let (name, value) = field.split_once('=').expect("a field has a value");
        // A word is the name of a variant.
        plan[name] = serde_json::from_str(value).unwrap_or_else(|_| value.into());
    }
    serde_json::from_value(plan).expect("the fields are those of a plan")
}
