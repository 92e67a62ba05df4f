//! The database thread of one lease: the only thread that sends requests of the protocol and waits for the responses.
//!
//! The thread takes one request at a time and sends the response as an event. Between two requests, the thread watches
//! the connection, and sends an event if the server closes it. After this event, a holder sends the next renewal early.
//! This renewal detects whether an operator has revoked the lease, and normally acquires the queue lock again on the
//! new connection.
//!
//! The event loop handles signals and deadlines while this thread waits. The event loop never waits for a response
//! without handling other events, because name resolution or a connect may block for longer than any lease.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::event::LeaseEvent;
use crate::event::queue::LeaseSender;
use crate::lease::instant::BootInstant;
use crate::lease::timing::Timing;
use crate::store::mysql::Database;
use crate::store::mysql::worker::Worker;
use crate::store::target::Targets;
use crate::store::{Contender, Failure, FailureKind, Request, Store};
use crate::sys::clock;
use crate::sys::socket::Interrupter;

/// A handle to the running thread, and what is known about its requests.
#[derive(Debug)]
pub struct DatabaseThread {
    worker: Worker,
    contender: Arc<Contender>,
    events: LeaseSender,
    request_timeout: Duration,
    /// Number of open requests, which are requests without a response. The thread handles these requests one by one.
    open: u32,
    /// Time at which the thread began to handle the oldest open request, or at which that request was last interrupted.
    /// Valid only while a request is open.
    open_since: BootInstant,
    /// True if an open request waits for the queue lock. The duration of such a wait depends on the queue, so it is not
    /// interrupted.
    is_waiting_turn: bool,
    /// Addresses of the servers.
    servers: String,
}

impl DatabaseThread {
    /// Starts the thread. The thread connects when it receives the first request.
    ///
    /// # Errors
    /// Fails if the kernel cannot create a thread or a descriptor.
    pub fn start(
        contender: Contender,
        targets: Targets,
        timing: Timing,
        events: LeaseSender,
    ) -> io::Result<Self> {
        let servers = targets.to_string();
        let database = Database::new(targets, timing.request_timeout, timing.ttl);
        let disconnected = events.clone();
        // Each send of an event fails only if the event loop has ended.
        let worker = Worker::start_watching(database, move || {
            let _ = disconnected.send(LeaseEvent::Disconnected);
        })?;
        Ok(Self {
            worker,
            contender: Arc::new(contender),
            events,
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

    /// Queues `request`. The response arrives as an event. The thread sends each request only after the response to the
    /// previous request. If the thread has ended, no response arrives, and the time limits of the caller apply.
    pub fn send(&mut self, request: Request) {
        if self.open == 0 {
            self.open_since = clock::now();
        }
        self.open += 1;
        self.is_waiting_turn |= matches!(request, Request::WaitTurn(_));
        let (contender, events) = (Arc::clone(&self.contender), self.events.clone());
        self.worker.send(move |database| {
            let response = database.request(&contender, &request);
            if let Some(server) = database.take_connected() {
                let _ = events.send(LeaseEvent::Connected(Box::new(server)));
            }
            let _ = events.send(LeaseEvent::Response(Box::new(response)));
        });
    }

    /// Records that a response has arrived.
    pub(super) fn responded(&mut self) {
        self.open = self.open.saturating_sub(1);
        (self.open_since, self.is_waiting_turn) = (clock::now(), false);
    }

    /// Returns the instant at which the oldest open request has taken too long. None if no request is open, or if it may
    /// take any time. The driver's own time limits apply to each system call, so they do not limit the whole request.
    pub(super) fn overdue_at(&self) -> Option<BootInstant> {
        let is_limited = self.open > 0 && !self.is_waiting_turn;
        is_limited.then(|| self.open_since + 3 * self.request_timeout)
    }

    /// Interrupts the oldest open request if it has taken too long at `now`.
    pub(super) fn interrupt_overdue(&mut self, now: BootInstant) {
        if self.overdue_at().is_some_and(|overdue| now >= overdue) {
            self.interrupt();
            self.open_since = now;
        }
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

    /// Makes the thread drop its connection after the request in flight. The next request reconnects.
    pub fn reconnect(&self) {
        self.worker.send(Database::search_again);
    }

    /// Returns the handle of the connection.
    #[must_use]
    pub fn interrupter(&self) -> Interrupter {
        self.worker.interrupter()
    }

    /// Ends the connection, and with it the request in flight, as [`Worker::interrupt`] does.
    pub fn interrupt(&self) {
        self.worker.interrupt();
    }

    /// Closes the connection properly and waits for the thread to end, if no request is open. If a request is open, the
    /// thread may be stuck, so this method does not wait for it.
    pub fn stop(self) {
        if self.open == 0 {
            self.worker.stop();
        }
    }
}
