//! Sends the requests of a process to the database thread, and receives all its events.
//!
//! No function blocks on the server. A request that takes too long is interrupted, unless it waits for the queue lock.

use std::io;
use std::time::Duration;

use crate::event::Event;
use crate::event::database::DatabaseThread;
use crate::event::queue::{EventQueue, EventSender};
use crate::lease::instant::BootInstant;
use crate::lease::timing::Timing;
use crate::store::mysql::Database;
use crate::store::target::Targets;
use crate::store::{Contender, Failure, FailureKind, Request};
use crate::sys::clock;
use crate::sys::socket::Interrupter;

/// Maximum sleep of the loop. The timer of the sleep stops while the machine is suspended, but
/// leases continue to expire. If a deadline passes while the machine is suspended, the loop detects
/// this at most one maximum sleep after the machine resumes.
pub const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// The receiver of all events, and the sender of all requests.
#[derive(Debug)]
pub struct EventLoop {
    events: EventQueue,
    database: DatabaseThread,
    request_timeout: Duration,
    /// Number of open requests, which are requests without a response. The database thread handles
    /// these requests one by one.
    open: u32,
    /// Time at which the database thread began to handle the oldest open request, or at which that
    /// request was last interrupted. Valid only while a request is open.
    open_since: BootInstant,
    /// True if an open request waits for the queue lock. The duration of such a wait depends on the
    /// queue, so the loop does not interrupt it.
    is_waiting_turn: bool,
    /// Addresses of the servers.
    servers: String,
}

impl EventLoop {
    /// Starts the database thread, whose events `sender` sends to `events`.
    ///
    /// # Errors
    /// Fails if the kernel cannot create a thread or a descriptor.
    pub fn start(
        contender: Contender,
        targets: Targets,
        timing: Timing,
        events: EventQueue,
        sender: EventSender,
    ) -> io::Result<Self> {
        let servers = targets.to_string();
        let database = Database::new(targets, timing.request_timeout, timing.ttl);
        Ok(Self {
            events,
            database: DatabaseThread::start(database, contender, sender)?,
            request_timeout: timing.request_timeout,
            open: 0,
            open_since: clock::now(),
            is_waiting_turn: false,
            servers,
        })
    }

    /// Returns the addresses of the servers.
    #[must_use]
    pub fn servers(&self) -> &str {
        &self.servers
    }

    /// Sends a request. The response arrives as an event.
    pub fn send(&mut self, request: Request) {
        if self.open == 0 {
            self.open_since = clock::now();
        }
        self.open += 1;
        self.is_waiting_turn |= matches!(request, Request::WaitTurn(_));
        self.database.send(request);
    }

    /// Ends the connection, and with it the request in flight.
    pub fn interrupt(&self) {
        self.database.interrupt();
    }

    /// Makes the database thread drop its connection after the request in flight.
    pub fn reconnect(&self) {
        self.database.reconnect();
    }

    /// Returns the handle of the connection.
    #[must_use]
    pub fn interrupter(&self) -> Interrupter {
        self.database.interrupter()
    }

    /// Returns true if an open request waits for the queue lock.
    #[must_use]
    pub const fn is_waiting_turn(&self) -> bool {
        self.is_waiting_turn
    }

    /// Returns the failure of a request to which the server has not responded in time.
    #[must_use]
    pub fn no_response(&self) -> Failure {
        let message = format!("cannot reach {}: no response in time", self.servers);
        Failure::new(FailureKind::Unreachable, message)
    }

    /// Waits for the next event and returns it. None if no event arrives before `until`, or if none
    /// arrives during a sleep of [`LONGEST_SLEEP`]. Interrupts an open request that takes too long.
    /// The driver's own time limits apply to each system call, so they do not limit the whole request.
    pub fn next(&mut self, until: BootInstant) -> Option<Event> {
        loop {
            let now = clock::now();
            let is_limited = self.open > 0 && !self.is_waiting_turn;
            let overdue = is_limited.then(|| self.open_since + 3 * self.request_timeout);
            if overdue.is_some_and(|overdue| now >= overdue) {
                self.interrupt();
                self.open_since = now;
                continue;
            }
            let wake = overdue.map_or(until, |overdue| overdue.min(until));
            let sleep = wake.since(now).min(LONGEST_SLEEP);
            let event = self.events.next(sleep);
            if let Some(Event::Response(_)) = event {
                self.open = self.open.saturating_sub(1);
                (self.open_since, self.is_waiting_turn) = (clock::now(), false);
            }
            if event.is_some() || clock::now() >= until || sleep == LONGEST_SLEEP {
                return event;
            }
        }
    }

    /// Stops the database thread if no request is open. If a request is open, the thread may be
    /// stuck, so this method does not wait for it.
    pub fn stop(self) {
        if self.open == 0 {
            self.database.stop();
        }
    }
}
