//! Reads the records for all requests, over one connection to the database.
//!
//! A task sends at most one query for all records in each interval, and only if a request needs newer records. If there is
//! no request for some time, the connection is closed.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::yield_now;
use tokio::time::timeout;

use super::action_document::Runs;
use super::documents::Document;
use super::query_thread::QueryThread;
use crate::exit::Status;
use crate::lease::Token;
use crate::lease::action::Action;
use crate::lease::instant::BootInstant;
use crate::locks::selection::ActionSelection;
use crate::locks::snapshot::TimedSnapshot;
use crate::locks::{CONNECT_TIMEOUT, RESPONSE_TIMEOUT};
use crate::store::mysql::{Database, Selection};
use crate::store::target::Targets;
use crate::store::{Failure, FailureKind, HistoryFilter, LockRecord, Store};
use crate::sys::{clock, heap};

/// Time without a query after which the connection is closed. It is longer than the usual interval of a monitoring
/// system, so that a scrape normally needs no login.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// Maximum time from a query that failed to the next one. It also applies if the interval is longer, so that the page
/// recovers soon after the database.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum time that a request waits for current records. It is shorter than the usual timeout of a monitoring system,
/// which then still learns that the database does not respond.
const FRESH_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum time to wait at the end for the response to a query, so that the connection can be closed properly.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(200);

/// The runs that the page shows of one action.
const RUNS: HistoryFilter = HistoryFilter {
    limit: 30,
    failed: false,
    since: None,
};

/// Maximum number of actions whose runs are cached. Each has at most 30 runs of about 500 bytes.
const MAX_CACHED_RUNS: usize = 64;

/// Time after which the runs of an action are read again. `dlock forget` adds an entry to the history without a change of
/// the record, and nobody needs to see this entry at once.
const RUNS_MAX_AGE: Duration = Duration::from_mins(1);

/// The records of one response, and the documents that show them.
#[derive(Debug)]
pub struct Records {
    /// The records.
    pub latest: TimedSnapshot,
    /// The document `/overview.json`.
    pub overview: RefCell<Option<Rc<Document>>>,
    /// The entity tag of that document. It depends only on the content.
    pub overview_tag: OnceCell<String>,
    /// The document `/status.json`.
    pub status: RefCell<Option<Rc<Document>>>,
    /// The document `/metrics`.
    pub metrics: RefCell<Option<Rc<Document>>>,
}

/// The outcome of the latest query for all records.
#[derive(Debug)]
struct View {
    /// The records or the failure. The failure is None before the first response, while newer records are read, and if
    /// there was no request for some time.
    outcome: Result<Rc<Records>, Option<FailureKind>>,
    /// Time at which the query ended. None if the next request needs a query.
    ended: Option<BootInstant>,
}

/// Reads the records.
#[derive(Debug)]
pub struct Reader {
    thread: QueryThread,
    interval: Duration,
    view: watch::Sender<View>,
    /// Notified if a request needs newer records.
    wanted: Notify,
    /// Only one task uses the connection at a time, so that requests for the same runs share one query. The flag is true if
    /// the latest query succeeded and the connection is open.
    is_connected: tokio::sync::Mutex<bool>,
    runs: RefCell<HashMap<Action, CachedRuns>>,
    /// Receives each message for the operator of this process.
    log: tokio::sync::mpsc::UnboundedSender<LogLine>,
}

/// A message for the operator of this process.
#[derive(Debug)]
pub enum LogLine {
    /// A query failed.
    Failed(String),
    /// A query succeeded after a failure.
    Recovered,
}

#[derive(Debug)]
struct CachedRuns {
    /// What the record contained when the runs were read. A new run or an operator request changes it.
    version: RunsVersion,
    runs: Rc<Runs>,
}

impl Records {
    /// Creates the records, without documents.
    const fn new(latest: TimedSnapshot) -> Self {
        Self {
            latest,
            overview: RefCell::new(None),
            overview_tag: OnceCell::new(),
            status: RefCell::new(None),
            metrics: RefCell::new(None),
        }
    }
}

impl CachedRuns {
    /// Returns true if the runs are still those of a record with this `version`.
    fn is_current(&self, version: RunsVersion, now: BootInstant) -> bool {
        self.version == version && now.since(self.runs.read) < RUNS_MAX_AGE
    }
}

/// Token of the latest recorded run, and token of the record.
type RunsVersion = (Option<Token>, Token);

impl Reader {
    /// Starts the database thread. [`Self::run`] must run as a task.
    ///
    /// # Errors
    /// Fails if the kernel cannot create a thread.
    pub fn start(
        targets: Targets,
        interval: Duration,
        log: tokio::sync::mpsc::UnboundedSender<LogLine>,
    ) -> io::Result<Self> {
        Ok(Self {
            thread: QueryThread::start(targets)?,
            interval,
            view: watch::Sender::new(View {
                outcome: Err(None),
                ended: None,
            }),
            wanted: Notify::new(),
            is_connected: tokio::sync::Mutex::new(false),
            runs: RefCell::default(),
            log,
        })
    }

    /// Minimum time between two queries for all records.
    #[must_use]
    pub const fn interval(&self) -> Duration {
        self.interval
    }

    /// Returns true if the time since the latest query for all records allows the next one.
    fn is_due(&self) -> bool {
        let view = self.view.borrow();
        let pause = match view.outcome {
            Err(Some(_)) => self.interval.min(RETRY_INTERVAL),
            _ => self.interval,
        };
        let is_over = |ended| clock::now().since(ended) > pause;
        view.ended.is_none_or(is_over)
    }

    /// Returns records that arrived at most an interval ago.
    ///
    /// # Errors
    /// Returns the failure of the latest query, for users. Fails too if there is no response in time.
    pub async fn fresh(&self) -> Result<Rc<Records>, &'static str> {
        let mut views = self.view.subscribe();
        if self.is_due() {
            self.wanted.notify_one();
            if timeout(FRESH_TIMEOUT, views.changed()).await.is_err() {
                return Err(reason(None));
            }
        }
        let outcome = self.view.borrow().outcome.clone();
        outcome.map_err(reason)
    }

    /// Reads all records when a request needs them, and closes the connection when no request has come for some time.
    /// Never returns.
    pub async fn run(self: Rc<Self>) {
        let idle = IDLE_TIMEOUT.max(self.interval);
        loop {
            match timeout(idle, self.wanted.notified()).await {
                // The records may have been read since the notification.
                Ok(()) if !self.is_due() => continue,
                // A failure has been published.
                Ok(()) => drop(self.refresh().await),
                Err(_) => self.rest().await,
            }
            // First answer the requests that wait for the records.
            yield_now().await;
            heap::trim();
        }
    }

    /// Closes the connection and forgets the records.
    async fn rest(&self) {
        let mut is_connected = self.is_connected.lock().await;
        self.runs.borrow_mut().clear();
        self.forget_records();
        if *is_connected {
            *is_connected = false;
            let close = |database: &mut Database| {
                database.hang_up();
                Ok(())
            };
            // Nobody waits for the result. If the query fails, its connection has ended.
            let _ = self.thread.query(RESPONSE_TIMEOUT, close).await;
        }
    }

    /// Forgets the records, because no request needs them any more, and two copies would need too much memory.
    fn forget_records(&self) {
        self.view.send_if_modified(|view| {
            if view.outcome.is_ok() {
                view.outcome = Err(None);
            }
            view.ended = None;
            // The requests wait for the next outcome.
            false
        });
    }

    /// Reads all records. If the query fails, later queries may succeed.
    ///
    /// # Errors
    /// Fails if the query fails for a reason that a retry does not change.
    pub async fn check(&self) -> Result<(), Failure> {
        match self.refresh().await {
            Err(failure) if failure.kind.status() != Status::UNAVAILABLE => Err(failure),
            _ => Ok(()),
        }
    }

    /// Reads all records and publishes the outcome. Returns the failure, if the query fails.
    async fn refresh(&self) -> Result<(), Failure> {
        self.forget_records();
        let mut outcome = self.query(snapshot).await;
        // The server may have closed the connection since the latest query, for example during a restart.
        if outcome
            .as_ref()
            .is_err_and(|failure| failure.kind == FailureKind::Unknown)
        {
            outcome = self.query(snapshot).await;
        }
        let last_failure = self.view.borrow().outcome.as_ref().err().copied().flatten();
        let failure = outcome.as_ref().err().map(|failure| failure.kind);
        // The send fails at the end of the process.
        let _ = match (&outcome, last_failure) {
            (Ok(_), Some(_)) => self.log.send(LogLine::Recovered),
            (Err(new), last) if last != failure => self.log.send(LogLine::Failed(new.to_string())),
            _ => Ok(()),
        };
        let (outcome, result) = match outcome {
            Ok(latest) => (Ok(Rc::new(Records::new(latest))), Ok(())),
            Err(failure) => (Err(Some(failure.kind)), Err(failure)),
        };
        self.view.send_replace(View {
            outcome,
            ended: Some(clock::now()),
        });
        result
    }

    /// Returns the most recent runs of the action of `record`, newest first. Sends a query only if the record has changed
    /// since the latest query for its runs, or if that query was sent a minute ago.
    ///
    /// # Errors
    /// Returns the failure of the query, for users.
    pub async fn runs(&self, record: &LockRecord) -> Result<Rc<Runs>, &'static str> {
        let action = &record.action;
        let version = (
            record.last.map(|last| last.token),
            record.lease.version.token,
        );
        if let Some(runs) = self.cached_runs(action, version) {
            return Ok(runs);
        }
        let mut is_connected = self.is_connected.lock().await;
        // Another task may have read them during the wait.
        if let Some(runs) = self.cached_runs(action, version) {
            return Ok(runs);
        }
        let name = action.clone();
        let read = move |database: &mut Database| {
            let history = database.history(Selection::Named(std::slice::from_ref(&name)), &RUNS)?;
            Ok(Runs {
                read: clock::now(),
                entries: history.entries,
            })
        };
        let runs = self.query_on(&mut is_connected, read).await;
        let runs = Rc::new(runs.map_err(|failure| reason(Some(failure.kind)))?);
        let cached = CachedRuns {
            version,
            runs: Rc::clone(&runs),
        };
        let mut cache = self.runs.borrow_mut();
        cache.insert(action.clone(), cached);
        if cache.len() > MAX_CACHED_RUNS {
            let oldest = cache.iter().min_by_key(|(_, cached)| cached.runs.read);
            let oldest = oldest.map(|(action, _)| action.clone());
            oldest.and_then(|oldest| cache.remove(&oldest));
        }
        Ok(runs)
    }

    /// Returns the cached runs of `action`. None if they are not those of a record with this `version`.
    fn cached_runs(&self, action: &Action, version: RunsVersion) -> Option<Rc<Runs>> {
        let cache = self.runs.borrow();
        let cached = cache.get(action)?;
        (cached.is_current(version, clock::now())).then(|| Rc::clone(&cached.runs))
    }

    /// Closes the connection at the end of this process, unless a query takes too long.
    pub async fn close(&self) {
        // After this time, the connection ends with the process.
        let _ = timeout(CLOSE_TIMEOUT, self.rest()).await;
    }

    /// Runs `query` on the database thread, after all earlier queries.
    async fn query<T: Send + 'static>(
        &self,
        query: impl FnOnce(&mut Database) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let mut is_connected = self.is_connected.lock().await;
        self.query_on(&mut is_connected, query).await
    }

    /// Does the same for a task that uses the connection.
    async fn query_on<T: Send + 'static>(
        &self,
        is_connected: &mut bool,
        query: impl FnOnce(&mut Database) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let limit = match *is_connected {
            true => RESPONSE_TIMEOUT,
            false => CONNECT_TIMEOUT,
        };
        let outcome = self.thread.query(limit, query).await;
        *is_connected = outcome.is_ok();
        outcome
    }
}

/// Reads all records.
fn snapshot(database: &mut Database) -> Result<TimedSnapshot, Failure> {
    let selection = ActionSelection::new([], true);
    let mut snapshot = database.snapshot(selection.selection())?;
    selection.complete(&mut snapshot);
    Ok(TimedSnapshot::new(
        snapshot,
        database.sent(),
        clock::now(),
        clock::wall(),
    ))
}

/// Describes the failure of a query, without the address of the server, the account and the text of the server.
/// [`LogLine`] contains them. None means that there was no response yet.
const fn reason(failure: Option<FailureKind>) -> &'static str {
    match failure {
        None | Some(FailureKind::Unreachable | FailureKind::Conflict | FailureKind::Unknown) => {
            "the database does not respond"
        }
        Some(FailureKind::TooManyConnections) => "the database has no free connection",
        Some(FailureKind::LoginRefused) => "the database refuses the login",
        Some(FailureKind::Denied) => "the database account lacks a privilege",
        Some(FailureKind::NoTables) => "the database has no tables of dlock",
        Some(
            FailureKind::Config
            | FailureKind::SharedSessions
            | FailureKind::NoSuchSession
            | FailureKind::NoQueueLock,
        ) => "the database refuses the query",
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::time::Duration;

    use super::{CachedRuns, RUNS_MAX_AGE, Runs};
    use crate::lease::Token;
    use crate::lease::instant::BootInstant;

    #[test]
    fn runs_are_read_again_after_a_change_of_the_record_and_after_a_minute() {
        let read = BootInstant::new(Duration::from_secs(100));
        let version = (None, Token(1));
        let cached = CachedRuns {
            version,
            runs: Rc::new(Runs {
                read,
                entries: Vec::new(),
            }),
        };
        assert!(cached.is_current(version, read));
        assert!(!cached.is_current((Some(Token(1)), Token(1)), read));
        assert!(!cached.is_current(version, read + RUNS_MAX_AGE));
    }
}
