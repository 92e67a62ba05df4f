//! The document about one action: its record, its queue, its last runs, and the commands with which an operator acts.
//! Pure. The format is not a stable interface.

use serde::Serialize;

use super::advice::{Advice, advice};
use crate::report::format::json_line;
use crate::report::history::{RunJson, result, runs};
use crate::report::status::{Connections, LockJson, lock_document};
use crate::store::{HistoryEntry, HistoryOutcome, LockRecord};
use crate::watch::snapshot::TimedSnapshot;

#[derive(Serialize)]
struct ActionDocument<'a> {
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

/// Returns the document about `record`, whose last runs are `entries`, newest first.
///
/// # Errors
/// Never fails for these types. The `Result` type comes from the serializer.
pub fn document(
    record: &LockRecord,
    latest: &TimedSnapshot,
    entries: &[HistoryEntry],
) -> serde_json::Result<String> {
    let waits = latest.longest_wait(&record.action).unwrap_or_default();
    let run = |(entry, run): (&HistoryEntry, _)| PageRun {
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
    };
    json_line(&ActionDocument {
        lock: lock_document(record, &latest.snapshot, Connections::Hidden),
        runs: entries.iter().zip(runs(entries)).map(run).collect(),
        advice: advice(record, latest.waiting(&record.action), waits),
    })
}
