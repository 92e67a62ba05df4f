//! Requests one snapshot from the server per interval, and merges responses, keys and signals into one stream of
//! events.
//!
//! A dedicated thread sends the requests, over one connection that is kept until a request fails. A request is sent
//! only after the previous request has ended, so a slow server gets fewer requests.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use crate::lease::action::Action;
use crate::lease::instant::BootInstant;
use crate::locks::selection::ActionSelection;
use crate::locks::snapshot::TimedSnapshot;
use crate::locks::{CONNECT_TIMEOUT, IO_TIMEOUT, RESPONSE_TIMEOUT};
use crate::store::mysql::worker::Worker;
use crate::store::mysql::{Database, Selection};
use crate::store::operator::OperatorResult;
use crate::store::target::Targets;
use crate::store::{Failure, FailureKind, HistoryEntry, HistoryFilter, Store};
use crate::sys::clock;
use crate::sys::signal::SignalFd;
use crate::watch::key::Key;
use crate::watch::options::WatchOptions;
use crate::watch::release_dialog::ConfirmedRelease;

/// Maximum time between two redraws, because the screen shows ages in seconds.
const TICK: Duration = Duration::from_secs(1);

/// Maximum time to wait at exit for the response to a request in flight, so that the connection can be closed properly.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(200);

/// Minimum time without a request after which the server ends the session. If two intervals are longer, the server
/// ends the session after two intervals. A short suspension of this process must not end the session.
const MIN_SESSION_TIMEOUT: Duration = Duration::from_mins(1);

/// The runs on the details page.
const RUNS: HistoryFilter = HistoryFilter {
    limit: 50,
    failed: false,
    since: None,
};

/// An event for the main thread.
#[derive(Debug)]
pub enum PollEvent {
    /// A key was pressed.
    Key(Key),
    /// A signal arrived.
    Signal(i32),
    /// The response to a request for a snapshot, or the failure of the request.
    Snapshot(Result<Box<TimedSnapshot>, Failure>),
    /// The most recent runs of an action, newest first, or the failure of the request.
    History(Action, Result<Vec<HistoryEntry>, Failure>),
    /// The result of a release that the user has confirmed, or the failure of the request.
    Released(Box<ConfirmedRelease>, Result<OperatorResult, Failure>),
    /// No event occurred, but the screen must be redrawn because ages have changed.
    Tick,
}

#[derive(Debug)]
enum PollRequest {
    Snapshot,
    History(Action),
    Release(Box<ConfirmedRelease>),
}

/// A request in flight.
#[derive(Debug, Clone, Copy)]
struct InFlight {
    /// Time at which the request was passed to the database thread.
    since: BootInstant,
    /// Time at which the request is interrupted. None if it has been interrupted, and its failure was reported.
    until: Option<BootInstant>,
}

/// Sends the requests and receives all events.
#[derive(Debug)]
pub struct Poller {
    actions: Arc<ActionSelection>,
    worker: Worker,
    interval: Duration,
    sender: Sender<PollEvent>,
    events: Receiver<PollEvent>,
    /// Time of the next snapshot request.
    due: BootInstant,
    /// The request in flight. None if no request is in flight.
    in_flight: Option<InFlight>,
    /// True if the latest request has succeeded, so the next request uses an open connection.
    is_connected: bool,
    /// True if the latest snapshot request failed and was repeated immediately.
    was_repeated: bool,
    /// The action whose most recent runs must be requested. None if no such request is needed.
    wanted: Option<Action>,
    /// The release that must be sent before all other requests. None if there is none.
    release: Option<Box<ConfirmedRelease>>,
    /// True if the request for these runs failed. The request is repeated after the next successful snapshot.
    history_failed: bool,
}

impl Poller {
    /// Starts the threads that wait for the server and for signals. The first request is due immediately.
    ///
    /// # Errors
    /// Fails if the kernel cannot create a thread.
    pub fn start(options: WatchOptions, targets: Targets, signals: SignalFd) -> io::Result<Self> {
        let interval = options.interval;
        let (sender, events) = mpsc::channel();
        forward_signals(signals, sender.clone())?;
        let database = Database::new(targets, IO_TIMEOUT, (interval * 2).max(MIN_SESSION_TIMEOUT));
        Ok(Self {
            actions: Arc::new(options.actions),
            worker: Worker::start(database)?,
            interval,
            sender,
            events,
            due: clock::now(),
            in_flight: None,
            is_connected: false,
            was_repeated: false,
            wanted: None,
            release: None,
            history_failed: false,
        })
    }

    /// Returns a sender with which other threads send events.
    #[must_use]
    pub fn sender(&self) -> Sender<PollEvent> {
        self.sender.clone()
    }

    /// Requests the most recent runs of `action` as soon as no other request is in flight or due. None cancels a
    /// request that has not been sent yet.
    pub fn request_history(&mut self, action: Option<&Action>) {
        if self.wanted.as_ref() != action {
            self.wanted = action.cloned();
            self.history_failed = false;
        }
    }

    /// Sends `release` once, as soon as no other request is in flight. It is not repeated after a failure, because the
    /// server may have made the change.
    pub fn release(&mut self, release: ConfirmedRelease) {
        self.release = Some(Box::new(release));
    }

    /// Waits for the next event, and sends the requests that become due during the wait.
    pub fn wait(&mut self) -> PollEvent {
        loop {
            let now = clock::now();
            let wake = match &mut self.in_flight {
                None => {
                    self.send_due_request(now);
                    self.in_flight.map_or(self.due, |_| now + TICK)
                }
                Some(request) => match request.until {
                    Some(until) if now >= until => {
                        // An event for this request still follows, unless name resolution never ends.
                        request.until = None;
                        let limit = until.since(request.since);
                        return PollEvent::Snapshot(Err(self.worker.timed_out(limit)));
                    }
                    Some(until) => until,
                    None => now + TICK,
                },
            };
            let sleep = wake.since(now).min(TICK);
            match self.events.recv_timeout(sleep) {
                Ok(event) => {
                    if let Some(event) = self.apply(event) {
                        return event;
                    }
                }
                Err(_) if sleep == TICK => return PollEvent::Tick,
                Err(_) => {}
            }
        }
    }

    /// Sends the next request if one is due.
    fn send_due_request(&mut self, now: BootInstant) {
        let history = self.wanted.clone().filter(|_| !self.history_failed);
        let release = self.release.take();
        let limit = match self.is_connected && release.is_none() {
            true => RESPONSE_TIMEOUT,
            false => CONNECT_TIMEOUT,
        };
        let request = match (history, release) {
            (_, Some(release)) => PollRequest::Release(release),
            _ if now >= self.due => {
                self.due = now + self.interval;
                PollRequest::Snapshot
            }
            (Some(action), None) => PollRequest::History(action),
            (None, None) => return,
        };
        self.in_flight = Some(InFlight {
            since: now,
            until: Some(now + limit),
        });
        let (actions, events) = (Arc::clone(&self.actions), self.sender.clone());
        // If the thread has ended, no response arrives, and the timeout is reported.
        self.worker.send(move |database| {
            let _ = events.send(respond(&actions, request, database));
        });
    }

    /// Updates the state of the requests after `event`. Returns None if the event must not be passed to the main loop.
    fn apply(&mut self, event: PollEvent) -> Option<PollEvent> {
        let request = match &event {
            PollEvent::Snapshot(outcome) => {
                self.is_connected = outcome.is_ok();
                self.in_flight.take()
            }
            PollEvent::History(_, outcome) => {
                self.is_connected = outcome.is_ok();
                self.in_flight.take()
            }
            PollEvent::Released(_, outcome) => {
                self.is_connected = outcome.is_ok();
                // The screen shows the effect without delay.
                self.due = clock::now();
                self.in_flight.take()
            }
            PollEvent::Key(_) | PollEvent::Signal(_) | PollEvent::Tick => return Some(event),
        };
        match &event {
            // The failure was reported when the request was interrupted.
            PollEvent::Snapshot(Err(_))
                if request.is_some_and(|request| request.until.is_none()) =>
            {
                return None;
            }
            PollEvent::Snapshot(Ok(_)) => {
                self.was_repeated = false;
                self.history_failed = false;
            }
            // After the first failure of this kind, the request is repeated immediately. For example, the server may
            // have closed the connection while this process was suspended.
            PollEvent::Snapshot(Err(failure))
                if failure.kind == FailureKind::Unknown && !self.was_repeated =>
            {
                self.was_repeated = true;
                self.due = clock::now();
                return None;
            }
            PollEvent::History(action, outcome) => {
                self.history_failed = outcome.is_err();
                if outcome.is_ok() && self.wanted.as_ref() == Some(action) {
                    self.wanted = None;
                }
            }
            PollEvent::Snapshot(Err(_))
            | PollEvent::Released(..)
            | PollEvent::Key(_)
            | PollEvent::Signal(_)
            | PollEvent::Tick => {}
        }
        Some(event)
    }

    /// Closes the connection properly, unless a request is still in flight after `CLOSE_TIMEOUT`. In that case the
    /// connection ends with the process.
    pub fn stop(mut self) {
        let until = clock::now() + CLOSE_TIMEOUT;
        while self.in_flight.is_some()
            && let Ok(event) = self.events.recv_timeout(until.since(clock::now()))
        {
            self.apply(event);
        }
        if self.in_flight.is_none() {
            self.worker.stop();
        }
    }
}

/// Starts the thread that sends an event for each signal.
fn forward_signals(signals: SignalFd, events: Sender<PollEvent>) -> io::Result<()> {
    let thread = thread::Builder::new().name("listen".to_owned());
    thread
        .spawn(move || {
            while let Ok(signal) = signals.take() {
                if events.send(PollEvent::Signal(signal.number)).is_err() {
                    return;
                }
            }
        })
        .map(drop)
}

/// Carries out `request` on the database thread, and returns the event with its result.
fn respond(
    selection: &ActionSelection,
    request: PollRequest,
    database: &mut Database,
) -> PollEvent {
    match request {
        PollRequest::Snapshot => PollEvent::Snapshot(snapshot(selection, database)),
        PollRequest::History(action) => {
            let only = Selection::Named(std::slice::from_ref(&action));
            let history = database.history(only, &RUNS);
            PollEvent::History(action, history.map(|history| history.entries))
        }
        PollRequest::Release(release) => {
            // If the server has closed the connection, the result of a request on it would be unknown.
            database.hang_up();
            let wakes = release.request.wakes_holder(&release.shown);
            let outcome = database.apply_operator_request(&release.request, wakes);
            PollEvent::Released(release, outcome)
        }
    }
}

fn snapshot(
    selection: &ActionSelection,
    database: &mut Database,
) -> Result<Box<TimedSnapshot>, Failure> {
    let mut snapshot = database.snapshot(selection.selection())?;
    selection.complete(&mut snapshot);
    Ok(Box::new(TimedSnapshot::new(
        snapshot,
        database.sent(),
        clock::now(),
        clock::wall(),
    )))
}
