//! The readers, the texts and the clock of one lease of a run. Runs on the main thread.

use std::io;

use crate::event::address_reader::AddressReader;
use crate::event::event_loop::EventLoop;
use crate::event::queue_reader::QueueReader;
use crate::lease::Token;
use crate::lease::timing::Timing;
use crate::report::clock_jump::ClockComparison;
use crate::report::lease::LeaseReport;
use crate::store::target::Targets;
use crate::store::{Contender, OuterLease};

/// The readers, the texts and the clock of one lease.
pub(super) struct RunLease<'a> {
    pub(super) contender: Contender,
    pub(super) texts: LeaseReport<'a>,
    /// Reads the queue for the reminders of a waiter.
    pub(super) queue_reader: QueueReader,
    /// Checks that the address still leads to the server of the holder's connection.
    pub(super) address_reader: AddressReader,
    pub(super) clock: ClockComparison,
    /// The token of the grant. None before the grant.
    pub(super) token: Option<Token>,
}

impl<'a> RunLease<'a> {
    /// Starts the database thread of the next lease in `events`, and creates its readers. `texts` reports about the lease.
    ///
    /// # Errors
    /// Fails if the kernel cannot create a thread or a descriptor.
    pub(super) fn start(
        contender: Contender,
        targets: &Targets,
        timing: Timing,
        texts: LeaseReport<'a>,
        events: &mut EventLoop,
    ) -> io::Result<Self> {
        let sender = events.add_lease(contender.clone(), targets.clone(), timing)?;
        let (of, reader) = (targets.clone(), contender.clone());
        let queue_reader = QueueReader::new(of, reader, timing, sender.clone());
        let (of, reader) = (targets.clone(), contender.clone());
        let address_reader = AddressReader::new(of, reader, timing, sender);
        Ok(Self {
            texts,
            contender,
            queue_reader,
            address_reader,
            clock: ClockComparison::default(),
            token: None,
        })
    }

    /// Returns this lease as the outer one of the next lease. It shows that a waiter for the next one holds this one.
    pub(super) fn as_outer(&self) -> Option<OuterLease> {
        let action = self.contender.action.clone();
        self.token.map(|token| OuterLease { action, token })
    }
}
