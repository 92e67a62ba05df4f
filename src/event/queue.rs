//! Where events arrive: what the threads tell, signals, and the words of the monitor.
//!
//! There is one place to wait for all of them, so that no thread passes on what another one received:
//! each such step makes a hand-over slower. The event loop decides what an event means.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use crate::event::Event;
use crate::monitor::{Monitor, Word};
use crate::sys::alarm::wait_for;
use crate::sys::link::Link;
use crate::sys::signal::{self, Inbox, Origin};

/// The receiving end.
#[derive(Debug)]
pub struct Queue {
    told: Receiver<Event>,
    /// Rings when something has been told.
    rung: Link,
    inbox: Inbox,
    /// None once it has said its last word, or where there is no command.
    monitor: Option<Monitor>,
}

/// The way for a thread to tell of an event.
#[derive(Debug, Clone)]
pub struct Teller {
    told: Sender<Event>,
    bell: Arc<Link>,
}

/// The queue is gone: nobody receives events any more.
#[derive(Debug)]
pub struct NobodyListens;

impl Teller {
    /// Tells of `event`; never waits.
    ///
    /// # Errors
    /// When nobody takes events any more.
    pub fn tell(&self, event: Event) -> Result<(), NobodyListens> {
        self.told.send(event).map_err(|_| NobodyListens)?;
        // Fails only if it has been rung so often that it is heard anyway.
        let _ = self.bell.send(&[0]);
        Ok(())
    }
}

impl Queue {
    /// A queue for each signal from `inbox` and each word of `monitor`, if there is one, and a way for
    /// threads to tell more.
    ///
    /// # Errors
    /// When the kernel gives no descriptor.
    pub fn new(inbox: Inbox, monitor: Option<Monitor>) -> io::Result<(Self, Teller)> {
        let (sender, told) = mpsc::channel();
        let (bell, rung) = Link::pair()?;
        let queue = Self {
            told,
            rung,
            inbox,
            monitor,
        };
        let teller = Teller {
            told: sender,
            bell: Arc::new(bell),
        };
        Ok((queue, teller))
    }

    /// The next event; none when there is none within `patience`, or something happened meanwhile that
    /// is no event.
    pub fn next(&mut self, patience: Duration) -> Option<Event> {
        if let Ok(event) = self.told.try_recv() {
            return Some(event);
        }
        let [rung, signalled, spoken] = self.wait(patience)?;
        if rung {
            // Before the queue is looked at: what is told after that rings again.
            self.rung.drain();
        }
        let told = self.told.try_recv().ok();
        told.or_else(|| self.hear(spoken))
            .or_else(|| self.take(signalled))
    }

    /// Waits for whatever comes first.
    fn wait(&self, patience: Duration) -> Option<[bool; 3]> {
        let (rung, inbox) = (self.rung.as_fd(), self.inbox.as_fd());
        let ready = match &self.monitor {
            Some(monitor) => wait_for([rung, inbox, monitor.as_fd()], Some(patience)),
            None => wait_for([rung, inbox], Some(patience))
                .map(|[rung, signalled]| [rung, signalled, false]),
        };
        ready.ok()
    }

    fn hear(&mut self, spoken: bool) -> Option<Event> {
        let word = self.monitor.as_ref().filter(|_| spoken)?.hear()?;
        if word == Word::Gone {
            // What is closed is always readable.
            self.monitor = None;
        }
        Some(Event::Monitor(word))
    }

    fn take(&self, signalled: bool) -> Option<Event> {
        let signal = signalled.then(|| self.inbox.take().ok())??;
        // After the monitor's death the children are what it left, and killing the tree reaps them.
        if signal.number == signal::SIGCHLD
            && let Some(monitor) = &self.monitor
        {
            monitor.tend();
        }
        (signal.origin != Origin::Child).then_some(Event::Signal(signal))
    }
}
