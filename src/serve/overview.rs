//! The overview of the page: one line for each action. Pure.
//!
//! The lines contain points in time and no durations, so that the document changes only if a record, a queue or a problem
//! changes, and a page with the latest document needs no other one. The document is much smaller than `/status.json`,
//! which would be sent again for each change. The format is not a stable interface.

use std::io::Write;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::locks::snapshot::TimedSnapshot;
use crate::report::advice::{Advice, advice, needs_no_command};
use crate::report::format::{millis, write_json_line};
use crate::report::history::outcome_text;
use crate::report::messages;
use crate::report::status::holder_and_others;
use crate::store::diagnosis::{Diagnosis, Severity};
use crate::store::{Expiry, HistoryOutcome, LockRecord};

/// Maximum number of actions that the page describes above the list. An operator reads no more at a glance. The page shows
/// the number of the others.
const MAX_PROBLEMS: usize = 3;

#[derive(Serialize)]
struct Overview<'a> {
    interval_ms: u64,
    read_only: bool,
    clock_difference: Option<String>,
    problems: Vec<Problem<'a>>,
    locks: Lines<'a>,
}

/// The lines, in the order of the snapshot, which is the natural order. Each one is created when it is written.
struct Lines<'a>(&'a TimedSnapshot);

impl Serialize for Lines<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let locks = self.0.snapshot.locks.iter();
        serializer.collect_seq(locks.map(|record| line(record, self.0)))
    }
}

/// An action that needs attention.
#[derive(Serialize)]
struct Problem<'a> {
    action: &'a str,
    diagnosis: String,
    #[serde(flatten)]
    advice: Advice,
}

/// The line of one action. Times are in milliseconds since 1970, by the server's clock.
#[derive(Serialize)]
struct LockLine<'a> {
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

/// Writes the document about `latest`. A new response of the database is expected after `interval`.
///
/// # Errors
/// Fails if `writer` fails.
pub fn write(
    latest: &TimedSnapshot,
    interval: Duration,
    writer: &mut dyn Write,
) -> serde_json::Result<()> {
    let document = Overview {
        interval_ms: millis(interval),
        read_only: latest.snapshot.is_read_only,
        clock_difference: latest.clock_difference(),
        problems: problems(latest),
        locks: Lines(latest),
    };
    write_json_line(&document, writer)
}

fn line<'a>(record: &'a LockRecord, latest: &TimedSnapshot) -> LockLine<'a> {
    let now = latest.server_time();
    let before = |duration| millis(now.saturating_sub(duration));
    let is_held = record.is_leased();
    let text = |text: &'a str| Some(text).filter(|_| is_held);
    LockLine {
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
        .map(|(_, waits, record)| Problem {
            action: record.action.as_str(),
            diagnosis: messages::diagnosis(record),
            advice: advice(record, latest.waiting(&record.action), waits),
        })
        .collect()
}
