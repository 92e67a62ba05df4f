//! The database thread: the only thread that sends requests of the protocol and waits for the responses.
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

use crate::event::Event;
use crate::event::queue::EventSender;
use crate::store::mysql::Database;
use crate::store::mysql::worker::Worker;
use crate::store::{Contender, Request, Store};
use crate::sys::socket::Interrupter;

/// A handle to the running thread.
#[derive(Debug)]
pub struct DatabaseThread {
    worker: Worker,
    contender: Arc<Contender>,
    events: EventSender,
}

impl DatabaseThread {
    /// Starts the thread. The thread connects when it receives the first request.
    ///
    /// # Errors
    /// Fails if the kernel cannot create a thread or a descriptor.
    pub fn start(
        database: Database,
        contender: Contender,
        events: EventSender,
    ) -> io::Result<Self> {
        let disconnected = events.clone();
        // Each send of an event fails only if the event loop has ended.
        let worker = Worker::start_watching(database, move || {
            let _ = disconnected.send(Event::Disconnected);
        })?;
        Ok(Self {
            worker,
            contender: Arc::new(contender),
            events,
        })
    }

    /// Queues `request`. The response arrives as an event. The thread sends each request only after the response to the
    /// previous request. If the thread has ended, no response arrives, and the time limits of the caller apply.
    pub fn send(&self, request: Request) {
        let (contender, events) = (Arc::clone(&self.contender), self.events.clone());
        self.worker.send(move |database| {
            let response = database.request(&contender, &request);
            if let Some(server) = database.take_connected() {
                let _ = events.send(Event::Connected(Box::new(server)));
            }
            let _ = events.send(Event::Response(Box::new(response)));
        });
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

    /// Interrupts the request in flight, as [`Worker::interrupt`] does.
    pub fn interrupt(&self) {
        self.worker.interrupt();
    }

    /// Closes the connection properly and waits for the thread to end. Call this method only when no request is in
    /// flight.
    pub fn stop(self) {
        self.worker.stop();
    }
}
