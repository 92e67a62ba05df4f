//! A database on a thread of its own.
//!
//! The driver blocks, and some of its operations have no time limit: name resolution, for example, may block for longer
//! than any lease. So the caller never waits for the thread itself. The thread does one piece of work at a time. Between
//! two of them it watches the connection, and drops it when the server closes it.

use std::io;
use std::os::fd::AsFd;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::database::Database;
use crate::store::{Failure, FailureKind, Store};
use crate::sys::boot_timer::wait_for;
use crate::sys::channel::Channel;
use crate::sys::socket::{Interrupter, hangs_up};

/// The name of each thread that uses the driver. The panic hook uses this name to recognise a panic of the driver.
pub const THREAD_NAME: &str = "database";

type Work = Box<dyn FnOnce(&mut Database) + Send>;

/// A handle to the thread. The thread ends when the handle is dropped and the work is done.
#[derive(Debug)]
pub struct Worker {
    work: Sender<Work>,
    /// Wakes the thread while it waits for work or for the server to close the connection.
    waker: Channel,
    interrupter: Interrupter,
    /// Addresses of the servers.
    servers: String,
    thread: JoinHandle<()>,
}

impl Worker {
    /// Starts the thread. It connects when the work needs a connection.
    ///
    /// # Errors
    /// Fails if the kernel cannot create a thread or a descriptor.
    pub fn start(database: Database) -> io::Result<Self> {
        Self::start_watching(database, || ())
    }

    /// Starts the thread, which calls `disconnected` when the server has closed the connection while no work was done.
    ///
    /// # Errors
    /// Fails if the kernel cannot create a thread or a descriptor.
    pub fn start_watching(
        mut database: Database,
        disconnected: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        let (work, queue) = mpsc::channel();
        let (waker, wakeup) = Channel::pair()?;
        Ok(Self {
            work,
            waker,
            interrupter: database.interrupter(),
            servers: database.hosts.targets.to_string(),
            thread: spawn(move || do_work(&mut database, &queue, &wakeup, disconnected))?,
        })
    }

    /// Queues `work`. It is not done if the thread has panicked.
    pub fn send(&self, work: impl FnOnce(&mut Database) + Send + 'static) {
        // The sends fail if the thread has ended. The second one also fails if so many wake-ups are pending that the
        // thread wakes anyway.
        let _ = self.work.send(Box::new(work));
        let _ = self.waker.send(&[0]);
    }

    /// Returns the result of `query`. After `limit`, interrupts the query and returns a failure. The thread does the next
    /// work when this query has ended.
    ///
    /// # Errors
    /// Returns the failure of the query. The kind is `Unreachable` after `limit`, and if the thread has ended.
    pub fn call<T: Send + 'static>(
        &self,
        limit: Duration,
        query: impl FnOnce(&mut Database) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let (sender, result) = mpsc::sync_channel(1);
        // The send fails only after the limit.
        self.send(move |database| drop(sender.send(query(database))));
        match result.recv_timeout(limit) {
            Ok(outcome) => outcome,
            Err(RecvTimeoutError::Disconnected) => Err(Self::ended()),
            Err(RecvTimeoutError::Timeout) => Err(self.timed_out(limit)),
        }
    }

    /// Returns the failure of a query whose thread has ended.
    #[must_use]
    pub fn ended() -> Failure {
        Failure::new(FailureKind::Unreachable, "the database thread has ended")
    }

    /// Interrupts a query that has taken longer than `limit`, and returns its failure.
    #[must_use]
    pub fn timed_out(&self, limit: Duration) -> Failure {
        self.interrupt();
        let message = format!("no response from {} within {limit:?}", self.servers);
        Failure::new(FailureKind::Unreachable, message)
    }

    /// Interrupts the request in flight. The response to this request is then normally a failure. Has no effect while
    /// the thread resolves a name or connects.
    pub fn interrupt(&self) {
        self.interrupter.interrupt();
    }

    /// Returns the handle of the connection.
    #[must_use]
    pub fn interrupter(&self) -> Interrupter {
        self.interrupter.clone()
    }

    /// Closes the connection properly and waits for the thread to end. Call this method only when no work is queued.
    pub fn stop(self) {
        drop((self.work, self.waker));
        // If the thread has panicked, the panic hook has already reported the panic.
        let _ = self.thread.join();
    }
}

/// Starts a thread that uses the driver.
///
/// # Errors
/// Fails if the kernel cannot create a thread.
pub fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new()
        .name(THREAD_NAME.to_owned())
        .spawn(work)
}

/// Does the work in `queue` until its sender is dropped.
fn do_work(
    database: &mut Database,
    queue: &Receiver<Work>,
    wakeup: &Channel,
    disconnected: impl Fn(),
) {
    loop {
        match queue.try_recv() {
            Ok(work) => work(database),
            Err(TryRecvError::Disconnected) => return,
            Err(TryRecvError::Empty) => {
                if is_hung_up(database, wakeup) {
                    database.hang_up();
                    disconnected();
                }
            }
        }
    }
}

/// Waits for a wake-up or the end of the connection. Returns true if the server closed the connection. A wake-up contains
/// no information: the queue shows whether there is work.
fn is_hung_up(database: &Database, wakeup: &Channel) -> bool {
    let hung_up = match database.interrupter().watched() {
        Some(socket) => hangs_up(socket.as_fd(), wakeup.as_fd()),
        None => wait_for([wakeup.as_fd()], None).map(|_| false),
    };
    wakeup.drain();
    // An error means that the kernel was out of memory. The next wait may succeed.
    hung_up.unwrap_or(false)
}
