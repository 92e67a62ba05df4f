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
use std::os::fd::AsFd;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::{self, JoinHandle};

use crate::event::Event;
use crate::event::queue::EventSender;
use crate::store::mysql::Database;
use crate::store::{Contender, Request};
use crate::sys::boot_timer::wait_for;
use crate::sys::channel::Channel;
use crate::sys::socket::{Interrupter, hangs_up};

/// The name of the thread. The panic hook uses this name to recognise a panic of the driver.
pub const THREAD_NAME: &str = "database";

/// A handle to the running thread.
#[derive(Debug)]
pub struct DatabaseThread {
    commands: Sender<DatabaseCommand>,
    /// Wakes the thread while it waits for a request or for the server to close the connection.
    waker: Channel,
    interrupter: Interrupter,
    thread: JoinHandle<()>,
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
        let (sender, commands) = mpsc::channel();
        let (waker, wakeup) = Channel::pair()?;
        let interrupter = database.interrupter();
        let mut worker = DatabaseWorker {
            database,
            commands,
            wakeup,
            events,
        };
        let thread = thread::Builder::new()
            .name(THREAD_NAME.to_owned())
            // The thread ends when the sender of requests or the receiver of events is dropped.
            .spawn(move || while worker.serve(&contender).is_some() {})?;
        Ok(Self {
            commands: sender,
            waker,
            interrupter,
            thread,
        })
    }

    /// Queues `request`. The response arrives as an event. The thread sends each request only after the response to the
    /// previous request.
    pub fn send(&self, request: Request) {
        self.command(DatabaseCommand::Send(request));
    }

    /// Makes the thread drop its connection after the request in flight. The next request reconnects.
    pub fn reconnect(&self) {
        self.command(DatabaseCommand::DropConnection);
    }

    fn command(&self, command: DatabaseCommand) {
        // The send fails only if the thread has ended. In that case no response arrives, and the time limits of the
        // caller apply.
        let _ = self.commands.send(command);
        // The send fails only if the thread has ended, or if so many wake-ups are pending that the thread wakes anyway.
        let _ = self.waker.send(&[0]);
    }

    /// Returns the handle of the connection.
    #[must_use]
    pub fn interrupter(&self) -> Interrupter {
        self.interrupter.clone()
    }

    /// Interrupts the request in flight. The response to this request is then normally a failure. Has no effect while
    /// the thread resolves a name or connects.
    pub fn interrupt(&self) {
        self.interrupter.interrupt();
    }

    /// Closes the connection properly and waits for the thread to end. Call this method only when no request is in
    /// flight.
    pub fn stop(self) {
        drop((self.commands, self.waker));
        // A panic of the thread does not matter here, because no request is in flight.
        let _ = self.thread.join();
    }
}

/// What the thread does next.
#[derive(Debug)]
enum DatabaseCommand {
    /// Carry out a request.
    Send(Request),
    /// Drop the connection.
    DropConnection,
}

/// The state of the thread.
struct DatabaseWorker {
    database: Database,
    commands: Receiver<DatabaseCommand>,
    wakeup: Channel,
    events: EventSender,
}

impl DatabaseWorker {
    /// Carries out one request, or reports that the connection has ended. Returns None when the thread must end.
    fn serve(&mut self, contender: &Contender) -> Option<()> {
        let event = match self.commands.try_recv() {
            Ok(DatabaseCommand::DropConnection) => {
                self.database.search_again();
                return Some(());
            }
            Ok(DatabaseCommand::Send(request)) => {
                let response = self.database.request(contender, &request);
                if let Some(server) = self.database.take_connected() {
                    self.events.send(Event::Connected(Box::new(server))).ok()?;
                }
                Event::Response(Box::new(response))
            }
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => match self.wait() {
                WakeReason::Woken => return Some(()),
                WakeReason::Disconnected => {
                    self.database.hang_up();
                    Event::Disconnected
                }
            },
        };
        self.events.send(event).ok()
    }

    /// Waits for a wake-up or the end of the connection. A wake-up contains no information. The request channel shows
    /// whether there is another request.
    fn wait(&self) -> WakeReason {
        let hung_up = match self.database.interrupter().watched() {
            Some(socket) => hangs_up(socket.as_fd(), self.wakeup.as_fd()),
            None => wait_for([self.wakeup.as_fd()], None).map(|_| false),
        };
        self.wakeup.drain();
        match hung_up {
            Ok(true) => WakeReason::Disconnected,
            // The kernel was out of memory. The next wait may succeed.
            Ok(false) | Err(_) => WakeReason::Woken,
        }
    }
}

/// The reason why a wait ended.
enum WakeReason {
    /// A request may be pending, or the thread must end.
    Woken,
    /// The server closed the connection.
    Disconnected,
}
