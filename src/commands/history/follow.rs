//! `dlock history --follow`: shows each run when it ends, until a signal or a closed pipe ends dlock.
//!
//! The main thread prints. A worker sends one request after another over one connection, which is replaced after an error.
//! SIGINT ends the process as usual, because there is nothing to clean up.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context;

use crate::commands::QUERY_TIMEOUT;
use crate::exit::{ExitError, Status};
use crate::locks::IO_TIMEOUT;
use crate::locks::selection::ActionSelection;
use crate::report::history::{Following, json};
use crate::report::layout::Layout;
use crate::report::log::EventKind;
use crate::report::{self, Reader, Report, messages};
use crate::store::mysql::Database;
use crate::store::mysql::worker::Worker;
use crate::store::target::Targets;
use crate::store::{Failure, FailureKind, History, HistoryEntry, HistoryFilter, HistorySince};
use crate::sys::clock;

/// Minimum time between two requests.
const INTERVAL: Duration = Duration::from_secs(1);

/// Ratio of the time between two requests to the duration of a request. A large history without a named action takes the
/// server long to read, and dlock must not keep the server busy.
const IDLE_RATIO: u32 = 10;

/// Maximum number of entries in a response, so that a burst of runs is shown completely.
const BATCH: u32 = 10_000;

/// Time before the newest entry from which entries are read again. The time of an entry is that of its statement, so a
/// transaction that commits later adds an entry between older ones.
const OVERLAP: Duration = Duration::from_mins(1);

/// Shows the latest entries that meet `filter`, oldest first, and then all new entries.
///
/// # Errors
/// Fails if the first request fails, or if the output cannot be written.
pub(super) fn run(
    actions: ActionSelection,
    filter: HistoryFilter,
    as_json: bool,
    layout: Layout,
    targets: Targets,
    report: &Report,
) -> anyhow::Result<Status> {
    let worker = Worker::start(Database::new(targets, IO_TIMEOUT, QUERY_TIMEOUT * 4))
        .context("cannot start a thread")?;
    let actions = Arc::new(actions);
    let mut following = Following::new(layout);
    let mut seen = BTreeSet::new();
    let mut next = HistoryFilter {
        limit: filter.limit.max(BATCH),
        ..filter
    };
    let mut is_first = true;
    let mut last_failure = String::new();
    let mut was_repeated = false;
    loop {
        let sent = clock::now();
        let History {
            entries,
            is_read_only,
        } = match read(&worker, &actions, next) {
            Ok(history) => history,
            Err(failure) if is_first => {
                return Err(ExitError::new(failure.kind.status(), failure).into());
            }
            // After the first failure of this kind, the request is repeated immediately. For example, the server may
            // have closed the connection while this process was suspended.
            Err(failure) if failure.kind == FailureKind::Unknown && !was_repeated => {
                was_repeated = true;
                continue;
            }
            Err(failure) => {
                let why = failure.to_string();
                if why != last_failure {
                    report.info(EventKind::Waiting, &why);
                    last_failure = why;
                }
                thread::park_timeout(INTERVAL);
                continue;
            }
        };
        last_failure.clear();
        was_repeated = false;
        if let Some(newest) = entries.first() {
            next.since = overlapping(newest).or(next.since);
        }
        // Every entry of the next response that is not new is also in this response.
        let keys: BTreeSet<_> = entries.iter().map(key).collect();
        let is_new = |entry: &HistoryEntry| !seen.contains(&key(entry));
        let mut new: Vec<HistoryEntry> = entries.into_iter().filter(is_new).collect();
        if !keys.is_empty() {
            seen = keys;
        }
        if is_first {
            if is_read_only {
                report.info(EventKind::ReadOnly, messages::READ_ONLY);
            }
            new.truncate(usize::try_from(filter.limit).unwrap_or(usize::MAX));
        }
        new.reverse();
        if is_first || !new.is_empty() {
            let text = match as_json {
                true => json(&new, false)?,
                false => following.batch(&new),
            };
            if report::stream(&text)? == Reader::Gone {
                return Ok(Status::OK);
            }
        }
        is_first = false;
        let took = clock::now().since(sent);
        thread::park_timeout(INTERVAL.max(took * IDLE_RATIO));
    }
}

/// Reads the entries that meet `filter`.
fn read(
    worker: &Worker,
    actions: &Arc<ActionSelection>,
    filter: HistoryFilter,
) -> Result<History, Failure> {
    let actions = Arc::clone(actions);
    worker.call(QUERY_TIMEOUT, move |database| {
        database.history(actions.selection(), &filter)
    })
}

/// Returns a value that is different for each entry.
fn key(entry: &HistoryEntry) -> (String, u64, &'static str) {
    let name = entry.action.as_str().to_owned();
    (name, entry.token.0, entry.outcome.as_str())
}

/// Returns the time from which the next request reads entries. None if the time of `newest` is not valid.
fn overlapping(newest: &HistoryEntry) -> Option<HistorySince> {
    let time = humantime::parse_rfc3339(&newest.ended_at).ok()?;
    let time = time.duration_since(UNIX_EPOCH).ok()?;
    Some(HistorySince::At(time.saturating_sub(OVERLAP)))
}
