//! The two forms of `dlock status`: tables for people and JSON for programs.
//!
//! The JSON form is documented in dlock-status(1) and stable: fields are added, never renamed or
//! removed. Times are the server's, durations are whole milliseconds.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::escape::printable;
use super::form::{json_line, millis, rendered};
use super::words::{self, duration};
use crate::lease::action::Action;
use crate::store::diagnosis::{Diagnosis, takeable_in};
use crate::store::{LastRun, Remainder, Sighting, Survey, Waiter};

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

/// One action in full: a line a fact, and the line of its waiters.
#[must_use]
pub fn details(seen: &Sighting, waiters: &[Waiter]) -> String {
    let facts = facts(seen);
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = format!("{}: {}\n", printable(seen.action.as_str()), seen.state());
    for (name, fact) in facts {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {name:width$}  {}", printable(&fact));
    }
    if line_of(waiters, &seen.action).next().is_some() {
        text.push('\n');
        text.push_str(&line(std::slice::from_ref(seen), waiters));
    }
    text
}

/// All facts of an action by name, as others wrote them: to be escaped where they are shown.
#[must_use]
pub fn facts(seen: &Sighting) -> Vec<(&'static str, String)> {
    let holder = &seen.holder;
    let held = seen.is_leased();
    let named = |label, text: &str| (label, text.to_owned());
    let mut facts = vec![("diagnosis", words::diagnosis(seen))];
    if held {
        facts.extend([
            named("holder", &holder.label),
            ("process", format!("{} on {}", holder.pid, holder.host)),
            named("user", &holder.user),
            named("pod", &holder.pod),
            named("namespace", &holder.namespace),
            named("command", &holder.command),
            named("note", &holder.note),
            ("since", since(seen)),
            ("renewed", renewed(seen)),
            ("lease", lease(seen)),
        ]);
    }
    facts.push(("token", seen.version.token.to_string()));
    if held && let Some(closed) = &seen.closed {
        facts.push(("closed until", closed.until.clone()));
    }
    if let Some(last) = seen.last {
        facts.push((
            "last run",
            format!("{} (token {})", last_run(last), last.token),
        ));
    }
    facts.retain(|(_, text)| !text.is_empty());
    facts
}

fn since(seen: &Sighting) -> String {
    let at = seen.acquired_at.as_deref().unwrap_or("-");
    format!("{at}, {} ago", duration(seen.held_for))
}

fn renewed(seen: &Sighting) -> String {
    let ago = duration(seen.renewed_ago);
    match seen.version.renewals {
        0 => "not yet".to_owned(),
        1 => format!("once, {ago} ago"),
        times => format!("{times} times, {ago} ago"),
    }
}

fn lease(seen: &Sighting) -> String {
    let ttl = duration(seen.ttl);
    match seen.remainder {
        Remainder::Left(left) => format!("{ttl}, lapses in {}", duration(left)),
        Remainder::Lapsed(ago) => format!("{ttl}, lapsed {} ago", duration(ago)),
    }
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
    pod: Option<&'a str>,
    namespace: Option<&'a str>,
    command: Option<&'a str>,
    diagnosis: &'static str,
    diagnosis_text: String,
    session_alive: Option<bool>,
    acquired_at: Option<&'a str>,
    held_for_ms: Option<u64>,
    renewed_ago_ms: Option<u64>,
    renewals: Option<u64>,
    ttl_ms: Option<u64>,
    lapses_in_ms: Option<i64>,
    kept_until: Option<&'a str>,
    takeable_in_ms: Option<u64>,
    broken_ago_ms: Option<u64>,
    closed_until: Option<&'a str>,
    closed_for_ms: Option<u64>,
    operator: Option<&'a str>,
    reason: Option<&'a str>,
    last_token: Option<u64>,
    last_ending: Option<&'static str>,
    last_number: Option<u8>,
    last_ended_ago_ms: Option<u64>,
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
    server_time_ms: u64,
    clock_difference_ms: i64,
    locks: Vec<Lock<'a>>,
}

/// The JSON document, one line.
///
/// # Errors
/// Never for what is in a [`Sighting`]; the serializer's type demands it.
pub fn json(survey: &Survey, ours: Duration) -> serde_json::Result<String> {
    let Survey { locks, waiters, .. } = survey;
    let server_time_ms = survey.server_time.0 / 1000;
    let apart = i128::from(server_time_ms) - i128::from(millis(ours));
    let document = Document {
        server_time_ms,
        clock_difference_ms: i64::try_from(apart).unwrap_or(i64::MAX),
        locks: locks.iter().map(|seen| lock(seen, waiters)).collect(),
    };
    json_line(&document)
}

fn lock<'a>(seen: &'a Sighting, waiters: &'a [Waiter]) -> Lock<'a> {
    let held = seen.is_leased();
    let holder = &seen.holder;
    let text = |text| Some(text).filter(|_| held);
    let acted = seen.closed.is_some() || seen.broken_ago.is_some();
    let operator = seen.operator.as_ref().filter(|_| acted);
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
        pod: text(holder.pod.as_str()).filter(|pod| !pod.is_empty()),
        namespace: text(holder.namespace.as_str()).filter(|name| !name.is_empty()),
        command: text(holder.command.as_str()),
        diagnosis: Diagnosis::of(seen).word(),
        diagnosis_text: words::diagnosis(seen),
        session_alive: seen.session.is_alive.filter(|_| held),
        acquired_at: seen.acquired_at.as_deref().filter(|_| held),
        held_for_ms: held.then(|| millis(seen.held_for)),
        renewed_ago_ms: held.then(|| millis(seen.renewed_ago)),
        renewals: held.then_some(seen.version.renewals),
        ttl_ms: held.then(|| millis(seen.ttl)),
        lapses_in_ms: held.then(|| match seen.remainder {
            Remainder::Left(left) => signed(left),
            Remainder::Lapsed(ago) => -signed(ago),
        }),
        kept_until: seen.kept_until.as_deref().filter(|_| held),
        takeable_in_ms: held.then(|| millis(takeable_in(seen))),
        broken_ago_ms: seen.broken_ago.filter(|_| held).map(millis),
        closed_until: seen.closed.as_ref().map(|closed| closed.until.as_str()),
        closed_for_ms: seen.closed.as_ref().map(|closed| millis(closed.left)),
        operator: operator.map(|operator| operator.label.as_str()),
        reason: operator.map(|operator| operator.reason.as_str()),
        last_token: seen.last.map(|last| last.token.0),
        last_ending: seen.last.map(|last| last.fate.word()),
        last_number: seen.last.and_then(|last| last.fate.number()),
        last_ended_ago_ms: seen.last.map(|last| millis(last.ago)),
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::{details, json, table};
    use crate::lease::{Claim, Token};
    use crate::report::escape::is_harmful;
    use crate::report::escape::tests::hostile;
    use crate::store::{Holder, Remainder, ServerTime, Sighting, Survey, Version, Waiter};

    fn holder(label: &str, note: &str) -> Holder {
        Holder {
            label: label.to_owned(),
            host: "web-1".to_owned(),
            pid: 4711,
            user: "deploy".to_owned(),
            note: note.to_owned(),
            command: "migrate.sh".to_owned(),
            ..Holder::default()
        }
    }

    fn survey(locks: &[Sighting], waiters: &[Waiter]) -> Survey {
        Survey {
            server_time: ServerTime(1_795_167_000_000_000),
            locks: locks.to_vec(),
            waiters: waiters.to_vec(),
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
                "-",
                "v42",
                "held",
                "and",
                "renewing"
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
        fn no_label_or_note_forges_a_line_or_breaks_the_json(label in hostile(), note in hostile()) {
            let seen = [sighting(&label, &note)];
            let line = [waiter(&label, &note)];
            let text = table(&seen, &line);
            prop_assert_eq!(text.lines().count(), 5);
            prop_assert!(!text.replace('\n', "").contains(is_harmful));
            let text = details(&seen[0], &line);
            prop_assert!(!text.replace('\n', "").contains(is_harmful));
            let text = json(&survey(&seen, &line), Duration::ZERO).expect("serializes");
            prop_assert!(!text.trim_end().contains(is_harmful));
            let value: serde_json::Value = serde_json::from_str(&text).expect("is JSON");
            let lock = &value["locks"][0];
            prop_assert_eq!(lock["holder"].as_str(), Some(label.as_str()));
            prop_assert_eq!(lock["note"].as_str(), Some(note.as_str()));
            prop_assert_eq!(lock["waiters"][0]["holder"].as_str(), Some(label.as_str()));
        }
    }
}
