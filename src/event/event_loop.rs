//! Receives all events of a process, and has the database thread of each of its leases.
//!
//! No function blocks on a server. A request that takes too long is interrupted, unless it waits for the queue lock.

use std::io;
use std::time::Duration;

use crate::event::database::DatabaseThread;
use crate::event::queue::{EventQueue, EventSender, LeaseSender};
use crate::event::{Event, LeaseEvent};
use crate::lease::instant::BootInstant;
use crate::lease::timing::Timing;
use crate::store::Contender;
use crate::store::target::Targets;
use crate::sys::clock;

/// Maximum sleep of the loop. The timer of the sleep stops while the machine is suspended, but
/// leases continue to expire. If a deadline passes while the machine is suspended, the loop detects
/// this at most one maximum sleep after the machine resumes.
pub const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// The receiver of all events, and the senders of all requests.
#[derive(Debug)]
pub struct EventLoop {
    events: EventQueue,
    sender: EventSender,
    /// The database thread of each lease.
    databases: Vec<DatabaseThread>,
}

impl EventLoop {
    /// Creates a loop without leases, which receives the events that `sender` sends to `events`.
    #[must_use]
    pub const fn new(events: EventQueue, sender: EventSender) -> Self {
        Self {
            events,
            sender,
            databases: Vec::new(),
        }
    }

    /// Returns the sender of events that belong to no lease.
    #[must_use]
    pub const fn sender(&self) -> &EventSender {
        &self.sender
    }

    /// Starts the database thread of the next lease. Leases are numbered from 0. Returns the sender of the lease's events.
    ///
    /// # Errors
    /// Fails if the kernel cannot create a thread or a descriptor.
    pub fn add_lease(
        &mut self,
        contender: Contender,
        targets: Targets,
        timing: Timing,
    ) -> io::Result<LeaseSender> {
        let sender = self.sender.of_lease(self.databases.len());
        let database = DatabaseThread::start(contender, targets, timing, sender.clone())?;
        self.databases.push(database);
        Ok(sender)
    }

    /// Returns the database thread of the lease with the number `lease`.
    ///
    /// # Panics
    /// Panics if there is no such lease.
    #[must_use]
    pub fn database(&self, lease: usize) -> &DatabaseThread {
        &self.databases[lease]
    }

    /// Returns the database thread of the lease with the number `lease`.
    ///
    /// # Panics
    /// Panics if there is no such lease.
    pub fn database_mut(&mut self, lease: usize) -> &mut DatabaseThread {
        &mut self.databases[lease]
    }

    /// Waits for the next event and returns it. None if no event arrives before `until`, or if none
    /// arrives during a sleep of [`LONGEST_SLEEP`]. Interrupts each open request that takes too long.
    pub fn next(&mut self, until: BootInstant) -> Option<Event> {
        loop {
            let now = clock::now();
            for database in &mut self.databases {
                database.interrupt_overdue(now);
            }
            let overdue = self.databases.iter().filter_map(DatabaseThread::overdue_at);
            let wake = overdue.fold(until, BootInstant::min);
            let sleep = wake.since(now).min(LONGEST_SLEEP);
            let event = self.events.next(sleep);
            if let Some(Event::Lease(lease, LeaseEvent::Response(_))) = &event {
                self.databases[*lease].responded();
            }
            if event.is_some() || clock::now() >= until || sleep == LONGEST_SLEEP {
                return event;
            }
        }
    }

    /// Stops the database threads that have no open request.
    pub fn stop(self) {
        for database in self.databases {
            database.stop();
        }
    }
}
