//! Reads the records for all viewers, over one connection to the database.
//!
//! A task sends one query after another to the database thread: at most one query for all records in each interval, and
//! only while there is demand. If there is no demand for some time, the connection is closed.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use super::action_document::Runs;
use super::overview::Overview;
use super::query_thread::QueryThread;
use super::rendering::{Cached, Rendering, Renderings};
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

/// The latest records, or the reason why they are not up to date.
#[derive(Debug)]
pub struct View {
    /// The latest records. None before the first response, and if there was no demand for some time.
    pub data: Option<Rc<Data>>,
    /// The failure of the latest query. None if it succeeded.
    pub failure: Option<FailureKind>,
    /// Time at which the latest query was sent. None before the first query.
    sent: Option<BootInstant>,
}

/// The records of one response, and the documents that show them.
#[derive(Debug)]
pub struct Data {
    /// Number of the response. It grows with each response.
    pub number: u64,
    /// The records. None while newer ones are read, because no request needs these any more, and two copies would need too
    /// much memory.
    latest: RefCell<Option<Rc<TimedSnapshot>>>,
    /// Time at which the query for the records was sent.
    pub sent: BootInstant,
    /// The lines of the page. Empty until the first viewer needs them.
    overview: OnceCell<Overview>,
    /// The event with all lines of the page.
    pub all: Cached,
    /// The event with the lines that differ from those of an earlier response, and the number of that response. None if
    /// there were no viewers.
    pub changes: Option<(u64, Rc<Rendering>)>,
    /// The document `/status.json`.
    pub status: Cached,
    /// The document `/metrics`.
    pub metrics: Cached,
}

/// Reads the records.
#[derive(Debug)]
pub struct Reader {
    thread: QueryThread,
    interval: Duration,
    views: watch::Sender<Rc<View>>,
    demand: Demand,
    /// Only one task uses the connection at a time. The flag is true if the latest query succeeded and the connection
    /// is open.
    is_connected: tokio::sync::Mutex<bool>,
    /// Number of viewers.
    pub viewers: Rc<Cell<usize>>,
    /// Number of responses.
    responses: Cell<u64>,
    runs: RefCell<HashMap<Action, CachedRuns>>,
    /// Only one task reads runs at a time, so that viewers of the same action share one query.
    reading_runs: tokio::sync::Mutex<()>,
    renderings: Rc<Renderings>,
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

impl View {
    /// Returns the latest records and their documents. None if they are not up to date.
    #[must_use]
    pub fn current(&self) -> Option<(&Data, Rc<TimedSnapshot>)> {
        let data = self.data.as_deref().filter(|_| self.failure.is_none())?;
        Some((data, data.latest()?))
    }
}

impl Data {
    /// Returns the records. None while newer ones are read.
    pub fn latest(&self) -> Option<Rc<TimedSnapshot>> {
        self.latest.borrow().clone()
    }

    /// Forgets the records, and keeps the lines of the page, with which the next ones are compared.
    fn forget_records(&self) {
        self.latest.take();
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

/// The viewers and the requests that need current records.
#[derive(Debug, Default)]
struct Demand {
    count: Cell<usize>,
    changed: Notify,
}

/// One viewer or one request in the demand. It counts until this value is dropped.
#[derive(Debug)]
pub struct Demanding(Rc<Reader>);

impl Drop for Demanding {
    fn drop(&mut self) {
        let count = &self.0.demand.count;
        count.set(count.get() - 1);
    }
}

impl Reader {
    /// Starts the database thread. [`Self::run`] must run as a task.
    ///
    /// # Errors
    /// Fails if the kernel cannot create a thread.
    pub fn start(
        targets: Targets,
        interval: Duration,
        renderings: Rc<Renderings>,
        log: tokio::sync::mpsc::UnboundedSender<LogLine>,
    ) -> io::Result<Rc<Self>> {
        let nothing = View {
            data: None,
            failure: None,
            sent: None,
        };
        Ok(Rc::new(Self {
            thread: QueryThread::start(targets)?,
            interval,
            views: watch::Sender::new(Rc::new(nothing)),
            demand: Demand::default(),
            is_connected: tokio::sync::Mutex::new(false),
            viewers: Rc::default(),
            responses: Cell::default(),
            runs: RefCell::default(),
            reading_runs: tokio::sync::Mutex::default(),
            renderings,
            log,
        }))
    }

    /// Minimum time between two queries for all records.
    #[must_use]
    pub const fn interval(&self) -> Duration {
        self.interval
    }

    /// Returns a receiver of all later views.
    pub fn views(&self) -> watch::Receiver<Rc<View>> {
        self.views.subscribe()
    }

    /// Adds a viewer. The records are read in each interval until the result is dropped.
    pub fn demand(self: &Rc<Self>) -> Demanding {
        let count = &self.demand.count;
        count.set(count.get() + 1);
        self.demand.changed.notify_one();
        Demanding(Rc::clone(self))
    }

    /// Returns the time from a query to the next one.
    fn pause(&self, failed: bool) -> Duration {
        match failed {
            true => self.interval.min(RETRY_INTERVAL),
            false => self.interval,
        }
    }

    /// Returns a view that is not older than an interval. If there is no response in time, returns a view with a
    /// failure.
    pub async fn fresh(self: &Rc<Self>) -> Rc<View> {
        let mut views = self.views();
        let present = Rc::clone(&views.borrow_and_update());
        let pause = self.pause(present.failure.is_some());
        let is_fresh = |sent| clock::now().since(sent) <= pause;
        if present.sent.is_some_and(is_fresh) {
            return present;
        }
        // The old records must not stay in memory during the query.
        drop(present);
        let _demanding = self.demand();
        match timeout(FRESH_TIMEOUT, views.changed()).await {
            Ok(_) => Rc::clone(&views.borrow()),
            Err(_) => Rc::new(View {
                data: None,
                failure: Some(FailureKind::Unreachable),
                sent: None,
            }),
        }
    }

    /// Reads all records in each interval with demand, and sooner after a failure. Never returns.
    pub async fn run(self: Rc<Self>) {
        loop {
            let idle = timeout(IDLE_TIMEOUT, self.wait_for_demand()).await;
            if idle.is_err() {
                self.rest().await;
                self.wait_for_demand().await;
            }
            // The failure has been published.
            let pause = self.pause(self.refresh().await.is_err());
            // First answer the requests that wait for the records.
            sleep(pause / 2).await;
            heap::trim();
            sleep(pause / 2).await;
        }
    }

    async fn wait_for_demand(&self) {
        while self.demand.count.get() == 0 {
            self.demand.changed.notified().await;
        }
    }

    /// Closes the connection and forgets the records.
    async fn rest(&self) {
        let mut is_connected = self.is_connected.lock().await;
        self.runs.borrow_mut().clear();
        let last = Rc::clone(&self.views.borrow());
        self.views.send_replace(Rc::new(View {
            data: None,
            failure: last.failure,
            sent: None,
        }));
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
        if let Some(last) = &self.views.borrow().data {
            last.forget_records();
        }
        let sent = clock::now();
        let mut outcome = self.query(snapshot).await;
        // The server may have closed the connection since the latest query, for example during a restart.
        if outcome
            .as_ref()
            .is_err_and(|failure| failure.kind == FailureKind::Unknown)
        {
            outcome = self.query(snapshot).await;
        }
        self.publish(sent, outcome)
    }

    /// Publishes the records, or the failure of the query for them, and returns the failure. The query was sent at
    /// `sent`.
    pub(super) fn publish(
        &self,
        sent: BootInstant,
        outcome: Result<TimedSnapshot, Failure>,
    ) -> Result<(), Failure> {
        let last = Rc::clone(&self.views.borrow());
        let (view, outcome) = match outcome {
            Ok(latest) => {
                if last.failure.is_some() {
                    let _ = self.log.send(LogLine::Recovered);
                }
                let view = View {
                    data: Some(Rc::new(self.data(latest, last.data.as_deref()))),
                    failure: None,
                    sent: Some(sent),
                };
                (view, Ok(()))
            }
            Err(failure) => {
                if last.failure != Some(failure.kind) {
                    let _ = self.log.send(LogLine::Failed(failure.to_string()));
                }
                let view = View {
                    data: last.data.clone(),
                    failure: Some(failure.kind),
                    sent: Some(sent),
                };
                (view, Err(failure))
            }
        };
        self.views.send_replace(Rc::new(view));
        outcome
    }

    fn data(&self, latest: TimedSnapshot, last: Option<&Data>) -> Data {
        let number = self.responses.get() + 1;
        self.responses.set(number);
        let mut data = Data {
            number,
            sent: latest.sent,
            latest: RefCell::new(Some(Rc::new(latest))),
            overview: OnceCell::new(),
            all: Cached::default(),
            changes: None,
            status: Cached::default(),
            metrics: Cached::default(),
        };
        if self.viewers.get() > 0
            && let Some(last) = last
            && let Some(earlier) = last.overview.get()
        {
            let changes = (self.overview(&data)).map(|lines| {
                self.renderings
                    .write(|out| lines.write_changes(earlier, out))
            });
            // The writer never fails.
            data.changes = changes.and_then(Result::ok).map(|text| (last.number, text));
        }
        data
    }

    /// Returns the lines of the page. None if no viewer has needed them before the records were forgotten.
    pub fn overview<'a>(&self, data: &'a Data) -> Option<&'a Overview> {
        if data.overview.get().is_none() {
            let lines = Overview::new(&*data.latest()?, self.interval);
            let _ = data.overview.set(lines);
        }
        data.overview.get()
    }

    /// Returns the most recent runs of the action of `record`, newest first. Sends a query only if the record has changed
    /// since the latest query for its runs, or if that query was sent a minute ago.
    ///
    /// # Errors
    /// Returns the failure of the query.
    pub async fn runs(&self, record: &LockRecord) -> Result<Rc<Runs>, Failure> {
        let action = &record.action;
        let version = (
            record.last.map(|last| last.token),
            record.lease.version.token,
        );
        if let Some(runs) = self.cached_runs(action, version) {
            return Ok(runs);
        }
        let _reading = self.reading_runs.lock().await;
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
        let runs = Rc::new(self.query(read).await?);
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
pub(super) const fn reason(failure: Option<FailureKind>) -> &'static str {
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
pub(super) mod tests {
    use std::rc::Rc;
    use std::time::Duration;

    use super::{CachedRuns, RUNS_MAX_AGE, Reader, Renderings, Runs};
    use crate::lease::Token;
    use crate::lease::instant::BootInstant;
    use crate::store::target::{Address, SslMode, Target, Tls};

    /// Returns a reader that sends no query.
    pub(in crate::serve) fn reader(renderings: &Rc<Renderings>) -> Rc<Reader> {
        let target = Target {
            address: Address::Socket("/nonexistent".into()),
            user: String::new(),
            password: None,
            database: String::new(),
            tls: Tls {
                mode: SslMode::Disabled,
                chosen: false,
                ca: None,
                identity: None,
            },
        };
        let (log, _) = tokio::sync::mpsc::unbounded_channel();
        let interval = Duration::from_secs(2);
        let reader = Reader::start(target.into(), interval, Rc::clone(renderings), log);
        reader.expect("a thread can be started")
    }

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
