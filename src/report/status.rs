//! The two forms of `dlock status`: tables for people and JSON for programs.
//!
//! The JSON form is documented in dlock-status(1) and stable: fields are added, never renamed or
//! removed. Times are the server's, durations are whole milliseconds.

use std::time::Duration;

use comfy_table::{Table, presets};
use serde::Serialize;

use super::escape::printable;
use super::form::json_line;
use super::words::duration;
use crate::lease::action::Action;
use crate::store::{Remainder, Sighting, State, Waiter};

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
        "NOTE",
    ];
    let rows = sightings.iter().map(|seen| {
        let line = line_of(waiters, &seen.action);
        let there = line.filter(|waiter| waiter.alive != Some(false));
        holder_cells(seen, there.count())
    });
    let mut text = rendered(heading, rows);
    if !waiters.is_empty() {
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
        text.push('\n');
        text.push_str(&rendered(heading, rows));
    }
    text
}

fn rendered<const N: usize>(heading: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(heading);
    for row in rows {
        table.add_row(row);
    }
    let lines: Vec<String> = table
        .lines()
        .map(|line| {
            line.strip_prefix(' ')
                .unwrap_or(&line)
                .trim_end()
                .to_owned()
        })
        .collect();
    lines.join("\n") + "\n"
}

fn line_of<'a>(waiters: &'a [Waiter], action: &'a Action) -> impl Iterator<Item = &'a Waiter> {
    waiters
        .iter()
        .filter(move |waiter| waiter.action == *action)
}

fn holder_cells(seen: &Sighting, waiters: usize) -> [String; 11] {
    let held = seen.state() != State::Free;
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
        when_held(printable(&holder.note).into_owned()),
    ]
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

/// One lock in JSON.
#[derive(Serialize)]
struct Lock<'a> {
    action: &'a str,
    state: String,
    token: u64,
    holder: Option<&'a str>,
    host: Option<&'a str>,
    pid: Option<u32>,
    user: Option<&'a str>,
    note: Option<&'a str>,
    acquired_at: Option<&'a str>,
    held_for_ms: Option<u64>,
    renewed_ago_ms: Option<u64>,
    renewals: Option<u64>,
    ttl_ms: Option<u64>,
    lapses_in_ms: Option<i64>,
    waiters: Vec<InLine<'a>>,
}

/// One waiter in JSON.
#[derive(Serialize)]
struct InLine<'a> {
    place: usize,
    holder: &'a str,
    host: &'a str,
    pid: u32,
    user: &'a str,
    note: &'a str,
    waiting_for_ms: u64,
    alive: Option<bool>,
}

#[derive(Serialize)]
struct Document<'a> {
    locks: Vec<Lock<'a>>,
}

/// The JSON document, one line.
///
/// # Errors
/// Never for what is in a [`Sighting`]; the serializer's type demands it.
pub fn json(sightings: &[Sighting], waiters: &[Waiter]) -> serde_json::Result<String> {
    let document = Document {
        locks: sightings.iter().map(|seen| lock(seen, waiters)).collect(),
    };
    json_line(&document)
}

fn lock<'a>(seen: &'a Sighting, waiters: &'a [Waiter]) -> Lock<'a> {
    let held = seen.state() != State::Free;
    let holder = &seen.holder;
    let text = |text| Some(text).filter(|_| held);
    let signed = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    Lock {
        action: seen.action.as_str(),
        state: seen.state().to_string(),
        token: seen.version.token.0,
        holder: text(holder.label.as_str()),
        host: text(holder.host.as_str()),
        pid: held.then_some(holder.pid),
        user: text(holder.user.as_str()),
        note: text(holder.note.as_str()),
        acquired_at: seen.acquired_at.as_deref().filter(|_| held),
        held_for_ms: held.then(|| millis(seen.held_for)),
        renewed_ago_ms: held.then(|| millis(seen.renewed_ago)),
        renewals: held.then_some(seen.version.renewals),
        ttl_ms: held.then(|| millis(seen.ttl)),
        lapses_in_ms: held.then(|| match seen.remainder {
            Remainder::Left(left) => signed(left),
            Remainder::Lapsed(ago) => -signed(ago),
        }),
        waiters: (1..)
            .zip(line_of(waiters, &seen.action))
            .map(|(place, waiter)| InLine {
                place,
                holder: &waiter.holder.label,
                host: &waiter.holder.host,
                pid: waiter.holder.pid,
                user: &waiter.holder.user,
                note: &waiter.holder.note,
                waiting_for_ms: millis(waiter.waiting_for),
                alive: waiter.alive,
            })
            .collect(),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::{json, table};
    use crate::lease::{Claim, Token};
    use crate::report::escape::is_harmful;
    use crate::store::{Holder, Remainder, Sighting, Version, Waiter};

    fn holder(label: &str, note: &str) -> Holder {
        Holder {
            label: label.to_owned(),
            host: "web-1".to_owned(),
            pid: 4711,
            user: "deploy".to_owned(),
            note: note.to_owned(),
        }
    }

    fn sighting(label: &str, note: &str) -> Sighting {
        Sighting {
            claim: Some(Claim::new([1; 16])),
            version: Version {
                token: Token(17),
                renewals: 3,
            },
            holder: holder(label, note),
            ttl: Duration::from_secs(30),
            acquired_at: Some("2026-11-20T09:30:00.000000Z".to_owned()),
            held_for: Duration::from_secs(123),
            renewed_ago: Duration::from_secs(4),
            remainder: Remainder::Left(Duration::from_secs(12)),
            ..Sighting::never_held("init".parse().expect("a name"))
        }
    }

    fn waiter(label: &str, note: &str) -> Waiter {
        Waiter {
            action: "init".parse().expect("a name"),
            holder: holder(label, note),
            waiting_for: Duration::from_secs(70),
            alive: Some(true),
        }
    }

    fn words(text: &str) -> Vec<Vec<&str>> {
        text.lines()
            .map(|line| line.split_whitespace().collect())
            .collect()
    }

    #[test]
    fn the_table_has_a_heading_and_a_line_an_action() {
        let text = table(&[sighting("web-1/4711", "v42")], &[]);
        let lines = words(&text);
        assert_eq!(lines.len(), 2, "{text}");
        assert_eq!(lines[0][..2], ["ACTION", "STATE"]);
        assert_eq!(
            lines[1],
            [
                "init",
                "held",
                "web-1/4711",
                "web-1",
                "4711",
                "deploy",
                "17",
                "2m",
                "3s",
                "12s",
                "0",
                "v42"
            ]
        );
    }

    #[test]
    fn the_line_stands_below_in_order() {
        let line = [waiter("web-2/1", ""), waiter("web-3/1", "")];
        let text = table(&[sighting("web-1/4711", "")], &line);
        let lines = words(&text);
        assert_eq!(lines.len(), 6, "{text}");
        assert_eq!(lines[3][..3], ["ACTION", "PLACE", "WAITER"]);
        assert_eq!(lines[4][..3], ["init", "1", "web-2/1"]);
        assert_eq!(
            lines[5],
            [
                "init", "2", "web-3/1", "web-1", "4711", "deploy", "1m", "10s", "alive"
            ]
        );
    }

    proptest! {
        #[test]
        fn no_label_or_note_forges_a_line_or_breaks_the_json(label: String, note: String) {
            let seen = [sighting(&label, &note)];
            let line = [waiter(&label, &note)];
            let text = table(&seen, &line);
            prop_assert_eq!(text.lines().count(), 5);
            prop_assert!(!text.replace('\n', "").contains(is_harmful));
            let text = json(&seen, &line).expect("serializes");
            prop_assert!(!text.trim_end().contains(is_harmful));
            let value: serde_json::Value = serde_json::from_str(&text).expect("is JSON");
            let lock = &value["locks"][0];
            prop_assert_eq!(lock["holder"].as_str(), Some(label.as_str()));
            prop_assert_eq!(lock["note"].as_str(), Some(note.as_str()));
            prop_assert_eq!(lock["waiters"][0]["holder"].as_str(), Some(label.as_str()));
        }
    }
}
