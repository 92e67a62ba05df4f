//! Observes one round: the sessions of the application every few milliseconds, and the start of each command.
//!
//! When the ALTER of a migration appears, the observer can open a transaction that reads the table. The ALTER then
//! copies the rows, but cannot commit. The transaction ends when the next command has started.

use std::collections::BTreeMap;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mysql::Conn;
use testkit::cli_runner::Dlock;
use testkit::command::Stage;
use testkit::sql::Sql;

use crate::app_database::AppDatabase;
use crate::checks::NextStart;
use crate::sessions::{Session, has_transaction, sessions};
use crate::start::{self, REPLICA, SOCKET, Start};
use crate::statements::is_add_currency;

const SAMPLE_INTERVAL: Duration = Duration::from_millis(5);

/// Maximum time until a command starts, or until its ALTER appears.
const PATIENCE: Duration = Duration::from_mins(2);

/// Returns a description of an effect of a migration that is committed but not recorded. None if there is none.
type HalfDone = Box<dyn Fn(&mut Conn) -> Option<String> + Send + Sync>;

pub(crate) struct Observer {
    shared: Arc<Shared>,
    socket: PathBuf,
    threads: [JoinHandle<()>; 2],
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// The application's database.
    name: String,
    half_done: HalfDone,
    /// The connection whose transaction keeps the ALTER from committing. None if there is none.
    reader: Mutex<Option<Conn>>,
    /// Locked during the kill. The next command may start before the time of the kill is recorded.
    killing: Mutex<()>,
}

#[derive(Default)]
struct State {
    first: Option<Start>,
    altering: Option<Instant>,
    sessions: BTreeMap<u64, Times>,
    killed: Option<Instant>,
    next: Option<NextStart>,
    is_closed: bool,
}

/// The times at which a session was observed.
#[derive(Default)]
struct Times {
    last_active: Option<Instant>,
    /// When the server was first observed to stop or roll back the statement. None if it was not observed.
    stopping_since: Option<Instant>,
    last: Option<Instant>,
}

impl Observer {
    /// Starts to observe. If `blocks_commit` is true, the ALTER cannot commit until the next command has started.
    pub(crate) fn start(
        app: &AppDatabase,
        stage: &Stage,
        blocks_commit: bool,
        half_done: HalfDone,
    ) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            name: app.name.clone(),
            half_done,
            reader: Mutex::new(blocks_commit.then(|| app.admin())),
            killing: Mutex::default(),
        });
        let socket = stage.path("start");
        let listener = UnixListener::bind(&socket).expect("a socket can be created");
        let (sampling, admin) = (Arc::clone(&shared), app.admin());
        let sample = move || sampling.sample(admin);
        let (listening, mut admin) = (Arc::clone(&shared), app.admin());
        let listen = move || start::listen(&listener, |start| listening.record(start, &mut admin));
        Self {
            shared,
            socket,
            threads: [thread::spawn(sample), thread::spawn(listen)],
        }
    }

    /// Returns `dlock` as replica number `replica`, whose command reports its start to this observer.
    pub(crate) fn observed(&self, dlock: Dlock, app: &AppDatabase, replica: usize) -> Dlock {
        dlock
            .env("DLOCK_URL", app.dlock.url())
            .env("DLOCK_OPT_VERBOSE", "true")
            .env(REPLICA, replica.to_string())
            .env(SOCKET, &self.socket)
    }

    #[track_caller]
    pub(crate) fn first(&self) -> Start {
        let first = self.shared.wait_for(|state| state.first);
        first.expect("a command starts")
    }

    /// Waits until the ALTER appears in the process list, and returns the time. None if it does not appear.
    pub(crate) fn altering(&self) -> Option<Instant> {
        self.shared.wait_for(|state| state.altering)
    }

    /// Calls `kill`, which kills the holder. The next start of a command counts as the first start after the kill.
    pub(crate) fn kill(&self, kill: impl FnOnce()) -> Instant {
        let _killing = locked(&self.shared.killing);
        kill();
        let killed = Instant::now();
        self.shared.locked().killed = Some(killed);
        killed
    }

    /// Ends the threads, and returns the first start after the kill. None if no command has started.
    pub(crate) fn finish(self) -> Option<NextStart> {
        self.shared.locked().is_closed = true;
        start::end(&self.socket);
        for thread in self.threads {
            thread.join().expect("no thread of the observer panics");
        }
        self.shared.locked().next.take()
    }
}

impl Shared {
    fn locked(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Waits until `value` returns a value. Returns None if this takes too long.
    fn wait_for<T>(&self, value: impl Fn(&State) -> Option<T>) -> Option<T> {
        let (state, _) = self
            .changed
            .wait_timeout_while(self.locked(), PATIENCE, |state| value(state).is_none())
            .unwrap_or_else(PoisonError::into_inner);
        value(&state)
    }

    fn sample(&self, mut admin: Conn) {
        while !self.locked().is_closed {
            let found = sessions(&mut admin, &self.name);
            let now = Instant::now();
            let is_altering = found.iter().any(|it| is_add_currency(&it.statement));
            let is_first = is_altering && self.locked().altering.is_none();
            if is_first && let Some(reader) = &mut *locked(&self.reader) {
                reader.run("START TRANSACTION; SELECT id FROM plans LIMIT 1");
            }
            let mut state = self.locked();
            if is_first {
                state.altering = Some(now);
                self.changed.notify_all();
            }
            for session in found {
                let times = state.sessions.entry(session.id).or_default();
                times.last = Some(now);
                if session.is_active() {
                    times.last_active = Some(now);
                }
                // A session that is idle after a statement may roll back. If it executes another statement, it does not.
                let is_idle = !session.is_active() && times.last_active.is_some();
                match session.is_stopping() || is_idle {
                    true => drop(times.stopping_since.get_or_insert(now)),
                    false => times.stopping_since = None,
                }
            }
            drop(state);
            thread::sleep(SAMPLE_INTERVAL);
        }
    }

    /// Records the start of a command. Returns true if the command starts after the kill.
    fn record(&self, start: Start, admin: &mut Conn) -> bool {
        let mut state = self.locked();
        state.first.get_or_insert(start);
        self.changed.notify_all();
        drop(state);
        drop(locked(&self.killing));
        let Some(killed) = self.locked().killed else {
            return false;
        };
        if self.locked().next.is_some() {
            return true;
        }
        let (mut active, mut idle): (Vec<Session>, Vec<Session>) = sessions(admin, &self.name)
            .into_iter()
            .partition(Session::is_active);
        // An open transaction has locks, and counts as a statement.
        active.extend(idle.extract_if(.., |session| has_transaction(admin, session.id)));
        let half_done = active.is_empty().then(|| (self.half_done)(admin));
        let mut state = self.locked();
        let times = state.sessions.values();
        let last_active = times.clone().filter_map(|times| times.last_active).max();
        let stops = times.filter_map(|times| Some(times.last? - times.stopping_since?));
        state.next = Some(NextStart {
            replica: start.replica,
            after: start.at.saturating_duration_since(killed),
            stop: stops.max(),
            last_active: last_active.and_then(|last| last.checked_duration_since(killed)),
            active: active.iter().map(Session::to_string).collect(),
            half_done: half_done.flatten(),
        });
        drop(state);
        // Closing the connection ends its transaction.
        drop(locked(&self.reader).take());
        true
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
