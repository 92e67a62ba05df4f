//! The two forms of `dlock status`: a table for people and JSON for programs.
//!
//! The JSON form is documented in dlock-status(1) and stable: fields are added, never renamed or
//! removed. Times are the server's, durations are whole milliseconds.

use std::fmt::Write as _;
use std::time::Duration;

use comfy_table::{Table, presets};
use serde::Serialize;

use super::escape::{is_harmful, printable};
use super::words::duration;
use crate::store::{Remainder, Sighting, State};

/// The table: a heading and a line an action. Never folded: a terminal that is too narrow wraps the
/// line, which can still be read and copied, unlike a token broken over two lines of its cell.
#[must_use]
pub fn table(sightings: &[Sighting]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "ACTION",
        "STATE",
        "HOLDER",
        "HOST",
        "PID",
        "USER",
        "TOKEN",
        "HELD FOR",
        "LAPSES IN",
        "NOTE",
    ]);
    for seen in sightings {
        table.add_row(cells(seen));
    }
    let lines: Vec<String> = table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    lines.join("\n") + "\n"
}

fn cells(seen: &Sighting) -> [String; 10] {
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
        when_held(printable(&holder.note).into_owned()),
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
    waiters: Option<u64>,
}

#[derive(Serialize)]
struct Document<'a> {
    locks: Vec<Lock<'a>>,
}

/// The JSON document, one line.
///
/// # Errors
/// Never for what is in a [`Sighting`]; the serializer's type demands it.
pub fn json(sightings: &[Sighting]) -> serde_json::Result<String> {
    let document = Document {
        locks: sightings.iter().map(lock).collect(),
    };
    let text = serde_json::to_string(&document)?;
    // serde_json leaves DEL and C1 as they are; a terminal that shows the document would act on
    // them. Between quotes, where they can only be, an escape means the same character.
    let mut safe = String::with_capacity(text.len() + 1);
    for character in text.chars() {
        if is_harmful(character) {
            // All of them are below U+10000, so each is one unit of UTF-16.
            let _ = write!(safe, "\\u{:04x}", u32::from(character));
        } else {
            safe.push(character);
        }
    }
    safe.push('\n');
    Ok(safe)
}

fn lock(seen: &Sighting) -> Lock<'_> {
    let held = seen.state() != State::Free;
    let holder = &seen.holder;
    let text = |text| Some(text).filter(|_| held);
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
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
        // Unknown: waiters leave no trace in the database yet.
        waiters: None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::{json, table};
    use crate::lease::{Claim, Token};
    use crate::report::escape::is_harmful;
    use crate::store::{Holder, Remainder, Sighting, Version};

    fn sighting(label: &str, note: &str) -> Sighting {
        Sighting {
            action: "init".parse().expect("a name"),
            claim: Some(Claim::new([1; 16])),
            version: Version {
                token: Token(17),
                renewals: 3,
            },
            holder: Holder {
                label: label.to_owned(),
                host: "web-1".to_owned(),
                pid: 4711,
                user: "deploy".to_owned(),
                note: note.to_owned(),
            },
            ttl: Duration::from_secs(30),
            acquired_at: Some("2026-11-20T09:30:00.000000Z".to_owned()),
            held_for: Duration::from_secs(123),
            renewed_ago: Duration::from_secs(4),
            remainder: Remainder::Left(Duration::from_secs(12)),
        }
    }

    #[test]
    fn the_table_has_a_heading_and_a_line_an_action() {
        let text = table(&[sighting("web-1/4711", "v42")]);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
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
                "v42"
            ]
        );
    }

    proptest! {
        #[test]
        fn no_label_or_note_forges_a_line_or_breaks_the_json(label: String, note: String) {
            let seen = [sighting(&label, &note)];
            let text = table(&seen);
            prop_assert_eq!(text.lines().count(), 2);
            prop_assert!(!text.replace('\n', "").contains(is_harmful));
            let text = json(&seen).expect("serializes");
            prop_assert!(!text.trim_end().contains(is_harmful));
            let value: serde_json::Value = serde_json::from_str(&text).expect("is JSON");
            prop_assert_eq!(value["locks"][0]["holder"].as_str(), Some(label.as_str()));
            prop_assert_eq!(value["locks"][0]["note"].as_str(), Some(note.as_str()));
        }
    }
}
