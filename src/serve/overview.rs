//! The lines of the page, one for each action, as events for the browser. Pure.
//!
//! The lines contain points in time and no durations, so that a line changes only if its record or its queue changes. A
//! browser gets all lines once, and then only those that have changed. The format is not a stable interface.

use std::collections::HashMap;
use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

use crate::lease::action::Action;
use crate::locks::snapshot::TimedSnapshot;
use crate::report::advice::{Advice, advice, needs_no_command};
use crate::report::format::{json_line, millis};
use crate::report::history::outcome_text;
use crate::report::messages;
use crate::report::status::holder_and_others;
use crate::store::diagnosis::{Diagnosis, Severity};
use crate::store::{Expiry, HistoryOutcome, LockRecord};

/// Maximum number of actions that the page describes above the list. An operator reads no more at a glance. The page shows
/// the number of the others.
const MAX_PROBLEMS: usize = 3;

/// The lines of the page.
#[derive(Debug)]
pub struct Overview {
    /// The facts about the whole page, as members of a JSON object.
    head: String,
    /// One line for each action, as a JSON object, in the order of the snapshot, which is the natural order.
    lines: Vec<(Action, Box<str>)>,
}

#[derive(Serialize)]
struct Head<'a> {
    server_time_ms: u64,
    interval_ms: u64,
    read_only: bool,
    clock_difference: Option<String>,
    problems: Vec<Problem<'a>>,
}

/// An action that needs attention.
#[derive(Serialize)]
struct Problem<'a> {
    action: &'a str,
    state: String,
    severity: u8,
    diagnosis: String,
    #[serde(flatten)]
    advice: Advice,
}

/// The line of one action. Times are in milliseconds since 1970, by the server's clock.
#[derive(Serialize)]
struct Line<'a> {
    action: &'a str,
    state: String,
    diagnosis: &'static str,
    severity: u8,
    /// True if the action needs attention.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    attention: bool,
    /// True if no command of an operator improves the state.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    needs_no_command: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<u64>,
    #[serde(skip_serializing_if = "is_zero")]
    waiters: usize,
    /// Time at which the first waiter arrived, in whole seconds. One statement reads the server's time, and a later one
    /// reads the waiting times, so the milliseconds would differ in each response.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_since: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<Last>,
}

#[derive(Serialize)]
struct Last {
    result: String,
    is_good: bool,
    ended: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Overview {
    /// Creates the lines for `latest`. A new response is expected after `interval`.
    #[must_use]
    pub fn new(latest: &TimedSnapshot, interval: Duration) -> Self {
        let locks = &latest.snapshot.locks;
        let lines = locks.iter().map(|record| {
            let line = line(record, latest);
            (record.action.clone(), json(&line).into_boxed_str())
        });
        let head = Head {
            server_time_ms: millis(latest.server_time()),
            interval_ms: millis(interval),
            read_only: latest.snapshot.is_read_only,
            clock_difference: latest.clock_difference(),
            problems: problems(latest),
        };
        let head = json(&head);
        let members = head
            .strip_prefix('{')
            .and_then(|head| head.strip_suffix('}'));
        Self {
            head: members.unwrap_or_default().to_owned(),
            lines: lines.collect(),
        }
    }

    /// Writes the event with all lines.
    ///
    /// # Errors
    /// Returns the failure of a write.
    pub fn write_all(&self, out: &mut dyn Write) -> io::Result<()> {
        let lines: Vec<&str> = self.lines.iter().map(|(_, line)| &**line).collect();
        self.write_event(out, "all", &lines, &[], &[])
    }

    /// Writes the event with the changes since `earlier`: the lines that differ, the names of the new actions, each
    /// with the preceding name in the list, and the names of the actions that no longer exist.
    ///
    /// # Errors
    /// Returns the failure of a write.
    pub fn write_changes(&self, earlier: &Self, out: &mut dyn Write) -> io::Result<()> {
        let mut before: HashMap<&Action, &str> = (earlier.lines.iter())
            .map(|(name, line)| (name, &**line))
            .collect();
        let (mut changed, mut added, mut previous) = (Vec::new(), Vec::new(), None);
        for (name, line) in &self.lines {
            let former = before.remove(name);
            if former.is_none() {
                added.push((name.as_str(), previous));
            }
            if former != Some(line) {
                changed.push(&**line);
            }
            previous = Some(name.as_str());
        }
        let removed: Vec<&str> = before.into_keys().map(Action::as_str).collect();
        self.write_event(out, "changes", &changed, &added, &removed)
    }

    /// Writes an event part by part, so that a large one is not in memory twice.
    fn write_event(
        &self,
        out: &mut dyn Write,
        kind: &str,
        lines: &[&str],
        added: &[(&str, Option<&str>)],
        removed: &[&str],
    ) -> io::Result<()> {
        let (added, removed) = (json(&added), json(&removed));
        let head = &self.head;
        write!(
            out,
            "event: {kind}\ndata: {{{head},\"added\":{added},\"removed\":{removed},\"actions\":["
        )?;
        for (index, line) in lines.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(out, "{comma}{line}")?;
        }
        out.write_all(b"]}\n\n")
    }
}

/// Returns the event that precedes the event with all lines. Viewers share the event with all lines, which may have
/// been created earlier. `age` is the time since the query for these lines was sent.
#[must_use]
pub fn age_event(age: Duration) -> String {
    #[derive(Serialize)]
    struct Age {
        age_ms: u64,
    }
    let age_ms = millis(age);
    format!("event: age\ndata: {}\n\n", json(&Age { age_ms }))
}

/// Returns the event after a query that failed because of `reason`.
#[must_use]
pub fn failure_event(reason: &str) -> String {
    #[derive(Serialize)]
    struct Failed<'a> {
        reason: &'a str,
    }
    format!("event: failure\ndata: {}\n\n", json(&Failed { reason }))
}

/// Formats `document` as JSON without a newline.
fn json(document: &impl Serialize) -> String {
    // Only a map with keys that are not strings can cause a failure, and these types contain no such map.
    let mut text = json_line(document).unwrap_or_default();
    text.truncate(text.trim_end().len());
    text
}

fn line<'a>(record: &'a LockRecord, latest: &TimedSnapshot) -> Line<'a> {
    let now = latest.server_time();
    let before = |duration| millis(now.saturating_sub(duration));
    let is_held = record.is_leased();
    let text = |text: &'a str| Some(text).filter(|_| is_held);
    Line {
        action: record.action.as_str(),
        state: record.state().to_string(),
        diagnosis: Diagnosis::of(record).as_str(),
        severity: Severity::of(record).level(),
        attention: latest.needs_attention(record),
        needs_no_command: needs_no_command(record),
        holder: is_held.then(|| holder_and_others(record)),
        host: text(&record.main_lease().holder.host),
        since: is_held.then(|| before(record.main_lease().held_for)),
        expires: is_held.then(|| match record.main_lease().expiry {
            Expiry::In(left) => millis(now + left),
            Expiry::Ago(ago) => before(ago),
        }),
        waiters: latest.waiting(&record.action),
        waits_since: latest
            .longest_wait(&record.action)
            .map(|wait| before(wait).next_multiple_of(1000)),
        last: record.last.map(|last| Last {
            result: outcome_text(last.outcome, last.dlock_status, None),
            is_good: last.outcome == HistoryOutcome::Exited(0),
            ended: before(last.ago),
        }),
    }
}

/// Returns the most urgent actions that need attention: those with a problem that an operator can end, then those whose
/// problem ends without an operator, and then those with the longest waits.
fn problems(latest: &TimedSnapshot) -> Vec<Problem<'_>> {
    let locks = latest.snapshot.locks.iter();
    let mut found: Vec<(Severity, Duration, &LockRecord)> = locks
        .filter(|record| latest.needs_attention(record))
        .map(|record| {
            let waits = latest.longest_wait(&record.action).unwrap_or_default();
            (Severity::of(record), waits, record)
        })
        .collect();
    found.sort_by_key(|(severity, waits, record)| {
        let (ends_alone, waits) = (needs_no_command(record), std::cmp::Reverse(*waits));
        (*severity, ends_alone, waits, &record.action)
    });
    found.truncate(MAX_PROBLEMS);
    let found = found.into_iter();
    found
        .map(|(severity, waits, record)| Problem {
            action: record.action.as_str(),
            state: record.state().to_string(),
            severity: severity.level(),
            diagnosis: messages::diagnosis(record),
            advice: advice(record, latest.waiting(&record.action), waits),
        })
        .collect()
}
