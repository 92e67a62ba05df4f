//! Reads artificial histories for the tests of the checkers.
//!
//! A history is a text like `1000 asked 1, 1100 started 1 token=10, 2000 ended 1 status=0`. Each event has its time in
//! milliseconds, its name, the number of its run if it has one, and its fields. The other forms are:
//!
//! - `1000 asked 1 exit=3 limit=0` launches a run whose plan has these fields.
//! - `1000-2000 run 1 token=10` is a complete run without a fault.
//! - `1000-2000 kill-parent 1` is a fault that affects run 1, `1000-2000 kill-server` one that affects the site, and
//!   `1000-2000 kill-server @restarts` one that affects another site.

use serde_json::{Value, json};

use crate::check::PROPERTIES;
use crate::fault_kind::FaultKind;
use crate::history::{Event, Line};
use crate::schedule::{ContenderKind, Plan};
use crate::timeline::Timeline;

/// Returns the timeline of a history of the first action of a site with a single server.
pub(crate) fn timeline(history: &str) -> Timeline {
    timeline_at("processes", history)
}

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
    let (first, fields) = rest.split_once(' ').unwrap_or((rest, ""));
    let run: Option<u64> = first.parse().ok();
    let fields = if run.is_some() { fields } else { rest };
    let kind = name.parse::<FaultKind>().ok();
    let action = (kind.is_none() || run.is_some()).then(|| format!("{site}-1"));
    let mut push = |millis: u64, event| {
        lines.push(Line {
            at: millis * 1_000,
            run,
            action: action.clone(),
            event,
        });
    };
    if let Some(kind) = kind {
        let event = Event::Fault {
            fault,
            kind,
            site: rest.strip_prefix('@').unwrap_or(site).to_owned(),
            pid: None,
        };
        push(from, event);
        push(to, Event::Healed { fault, hit: true });
    } else if name == "run" {
        push(from, event("asked", ""));
        push(from + 10, event("started", fields));
        push(to - 10, Event::Finished);
        push(to - 5, Event::Dead);
        push(to, event("ended", "status=0"));
    } else {
        push(from, event(name, fields));
    }
}

/// Returns the event `name` with the values in `fields`, like `status=76 stderr=some words`. Other fields have the values of
/// most events.
fn event(name: &str, fields: &str) -> Event {
    let plan = Plan {
        hold: 1_000,
        ..Plan::plain(ContenderKind::Exec, 2_000)
    };
    let plan = with_fields(serde_json::to_value(plan).expect("plain data"), fields);
    let event = json!({
        "event": name, "plan": plan, "parent": 1_000, "pid": 2_000, "alone": true, "status": null, "signal": null,
        "stderr": "", "site": null,
    });
    let event = serde_json::from_value(with_fields(event, fields));
    event.unwrap_or_else(|error| panic!("{name} {fields}: {error}"))
}

fn with_fields(mut object: Value, fields: &str) -> Value {
    let (fields, stderr) = fields.split_once("stderr=").unwrap_or((fields, ""));
    for field in fields.split_whitespace() {
        let (name, value) = field.split_once('=').expect("a field has a value");
        // A word is the name of a variant.
        object[name] = serde_json::from_str(value).unwrap_or_else(|_| value.into());
    }
    object["stderr"] = stderr.into();
    object
}
