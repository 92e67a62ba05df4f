//! The database thread: the only one that waits for the server.
//!
//! It takes one question at a time and sends the reply as an event. Whoever asks goes on with
//! signals and deadlines meanwhile and never waits for it without a limit: resolving a name or
//! connecting to a socket may block for longer than any lease.

use std::io;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use crate::event::Event;
use crate::store::mysql::Database;
use crate::store::{Contender, Question};
use crate::sys::socket::Interrupter;

/// The name of the thread, by which the panic hook knows a panic of the driver.
pub const THREAD_NAME: &str = "database";

/// The running thread.
#[derive(Debug)]
pub struct DatabaseThread {
    questions: Sender<Question>,
    interrupter: Interrupter,
    thread: JoinHandle<()>,
}

impl DatabaseThread {
    /// Starts the thread; it connects with the first question.
    ///
    /// # Errors
    /// When the kernel gives no thread.
    pub fn start(
        mut database: Database,
        contender: Contender,
        events: Sender<Event>,
    ) -> io::Result<Self> {
        let (questions, inbox) = mpsc::channel();
        let interrupter = database.interrupter();
        let thread = thread::Builder::new()
            .name(THREAD_NAME.to_owned())
            .spawn(move || {
                for question in inbox {
                    let reply = database.ask(&contender, &question);
                    if events.send(Event::Reply(Box::new(reply))).is_err() {
                        return;
                    }
                }
            })?;
        Ok(Self {
            questions,
            interrupter,
            thread,
        })
    }

    /// Asks; the reply comes as an event. A question is taken up when the one before is answered.
    pub fn ask(&self, question: Question) {
        // Fails only if the thread is gone, and then no reply comes: the asker's limits handle it.
        let _ = self.questions.send(question);
    }

    /// Breaks off the question that is being asked; its reply will be a failure.
    pub fn interrupt(&self) {
        self.interrupter.interrupt();
    }

    /// Ends the connection properly and waits for the thread. Only when no question is open.
    pub fn stop(self) {
        drop(self.questions);
        // A panic in it has been reported by the panic hook.
        let _ = self.thread.join();
    }
}
