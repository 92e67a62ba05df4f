//! The database thread: the only one that waits for the server.
//!
//! It takes one question at a time and sends the reply as an event. Between two questions it notices
//! when the server closes the connection: a holder then looks at its row at once, learns whether an
//! operator has ended its lease, and takes the gate again before the lease is over. The event loop handles
//! signals and deadlines in the meantime and never waits for this thread without a limit: resolving a
//! name or connecting may block for longer than any lease.

use std::io;
use std::os::fd::AsFd;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::{self, JoinHandle};

use crate::event::Event;
use crate::event::queue::Teller;
use crate::store::mysql::Database;
use crate::store::{Contender, Question};
use crate::sys::alarm::wait_for;
use crate::sys::link::Link;
use crate::sys::socket::{Interrupter, hangs_up};

/// The name of the thread, by which the panic hook knows a panic of the driver.
pub const THREAD_NAME: &str = "database";

/// The running thread.
#[derive(Debug)]
pub struct DatabaseThread {
    questions: Sender<Question>,
    /// Wakes the thread up, which waits for the end of its connection as well.
    bell: Link,
    interrupter: Interrupter,
    thread: JoinHandle<()>,
}

impl DatabaseThread {
    /// Starts the thread; it connects with the first question.
    ///
    /// # Errors
    /// When the kernel gives no thread or no descriptor.
    pub fn start(database: Database, contender: Contender, events: Teller) -> io::Result<Self> {
        let (questions, inbox) = mpsc::channel();
        let (bell, rung) = Link::pair()?;
        let interrupter = database.interrupter();
        let mut clerk = Clerk {
            database,
            inbox,
            rung,
            events,
        };
        let thread = thread::Builder::new()
            .name(THREAD_NAME.to_owned())
            // It ends when nobody asks, or nobody wants to hear.
            .spawn(move || while clerk.serve(&contender).is_some() {})?;
        Ok(Self {
            questions,
            bell,
            interrupter,
            thread,
        })
    }

    /// Asks; the reply comes as an event. A question is taken up when the one before is answered.
    pub fn ask(&self, question: Question) {
        // Fails only if the thread is gone, and then no reply comes: the asker's limits handle it.
        let _ = self.questions.send(question);
        // Fails only if it has been rung so often that it is heard anyway.
        let _ = self.bell.send(&[0]);
    }

    /// Breaks off the question that is being asked; its reply will be a failure.
    pub fn interrupt(&self) {
        self.interrupter.interrupt();
    }

    /// Ends the connection properly and waits for the thread. Only when no question is open.
    pub fn stop(self) {
        drop((self.questions, self.bell));
        // A panic in it has been reported by the panic hook.
        let _ = self.thread.join();
    }
}

/// What the thread works with.
struct Clerk {
    database: Database,
    inbox: Receiver<Question>,
    rung: Link,
    events: Teller,
}

impl Clerk {
    /// Answers a question, or tells that the connection has ended; none when it is time to end.
    fn serve(&mut self, contender: &Contender) -> Option<()> {
        let event = match self.inbox.try_recv() {
            Ok(question) => Event::Reply(Box::new(self.database.ask(contender, &question))),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => match self.rest() {
                Rest::Rung => return Some(()),
                Rest::HungUp => {
                    self.database.hang_up();
                    Event::HungUp
                }
            },
        };
        self.events.tell(event).ok()
    }

    /// Waits for the bell. What it says does not matter: the inbox tells whether there is more.
    fn rest(&self) -> Rest {
        let hung_up = match self.database.interrupter().watched() {
            Some(socket) => hangs_up(socket.as_fd(), self.rung.as_fd()),
            None => wait_for([self.rung.as_fd()], None).map(|_| false),
        };
        self.rung.drain();
        match hung_up {
            Ok(true) => Rest::HungUp,
            // An error comes of a lack of memory; the next round may have some.
            Ok(false) | Err(_) => Rest::Rung,
        }
    }
}

/// What ends a rest.
enum Rest {
    /// Somebody asks, or wants the thread to end.
    Rung,
    /// The server has ended the connection.
    HungUp,
}
