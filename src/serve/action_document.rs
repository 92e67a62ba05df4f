//! The document about one action: its record, its queue, its last runs, and the commands with which an operator acts.
//! Pure. The format is not a stable interface.

use serde::Serialize;

use crate::lease::instant::BootInstant;
use crate::locks::snapshot::TimedSnapshot;
use crate::report::advice::{Advice, advice};
use crate::report::format::{json_line, millis};
use crate::report::history::{RunJson, result, runs};
use crate::report::status::{Connections, LockJson, lock_document};
use crate::store::{HistoryEntry, HistoryOutcome, LockRecord};

/// The last runs of an action.
#[derive(Debug)]
pub struct Runs {
    /// Time at which the entries were read. The ages in the entries are relative to this time.
    pub read: BootInstant,
    /// The runs, newest first.
    pub entries: Vec<HistoryEntry>,
}

#[derive(Serialize)]
struct ActionDocument<'a> {
    /// Time since the query for the record was sent.
    age_ms: u64,
    lock: LockJson<'a>,
    runs: Vec<PageRun<'a>>,
    #[serde(flatten)]
    advice: Advice,
}

#[derive(Serialize)]
struct PageRun<'a> {
    #[serde(flatten)]
    run: RunJson<'a>,
    result: String,
    is_good: bool,
    is_run: bool,
}

/// Returns the document about `record` in `latest`, as of `now`. The runs may have been read earlier than `latest`.
///
/// # Errors
/// Never fails for these types. The `Result` type comes from the serializer.
pub fn document(
    record: &LockRecord,
    latest: &TimedSnapshot,
    last_runs: &Runs,
    now: BootInstant,
) -> serde_json::Result<String> {
    let waits = latest.longest_wait(&record.action).unwrap_or_default();
    let Runs { read, entries } = last_runs;
    let passed = millis(latest.received.since(*read));
    let run = |(entry, run)| page_run(entry, run, passed);
    json_line(&ActionDocument {
        age_ms: millis(now.since(latest.sent)),
        lock: lock_document(record, &latest.snapshot, Connections::Hidden),
        runs: entries.iter().zip(runs(entries)).map(run).collect(),
        advice: advice(record, latest.waiting(&record.action), waits),
    })
}

/// Returns the run of `entry`, whose age was read `passed` milliseconds ago.
fn page_run<'a>(entry: &HistoryEntry, mut run: RunJson<'a>, passed: u64) -> PageRun<'a> {
    run.ended_ago_ms += passed;
    PageRun {
        run,
        result: result(entry),
        is_good: entry.outcome == HistoryOutcome::Exited(0),
        is_run: !matches!(
            entry.outcome,
            HistoryOutcome::Forgotten
                | HistoryOutcome::Released
                | HistoryOutcome::Paused
                | HistoryOutcome::Resumed
        ),
    }
}
