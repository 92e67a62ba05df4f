//! What reads and reports for one lease of a run. Runs on the main thread.

use std::io;

use super::nested;
use super::plan::ExecPlan;
use crate::event::address_reader::AddressReader;
use crate::event::event_loop::EventLoop;
use crate::event::queue_reader::QueueReader;
use crate::lease::Token;
use crate::report::Report;
use crate::report::clock_jump::ClockComparison;
use crate::report::lease::LeaseReport;
use crate::store::target::Targets;
use crate::store::{Contender, OuterLease};

/// What reads and reports for one lease.
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

/// What the leases of a run have in common.
pub(super) struct LeaseStarter<'a> {
    pub(super) plan: &'a ExecPlan,
    pub(super) report: &'a Report,
    pub(super) targets: Targets,
}

impl<'a> LeaseStarter<'a> {
    /// Starts what the lease with this number needs, after that of `before` was granted. Adds its database thread to
    /// `events`.
    ///
    /// # Errors
    /// Fails if the kernel cannot create a thread or a descriptor.
    pub(super) fn start(
        &self,
        number: usize,
        before: Option<&RunLease<'_>>,
        events: &mut EventLoop,
    ) -> io::Result<RunLease<'a>> {
        let (plan, targets) = (self.plan, &self.targets);
        let timing = plan.keeper.timing;
        let inside = match before {
            Some(before) => before.as_outer(),
            None => nested::outer_lease(targets),
        };
        let contender = Contender {
            inside,
            ..plan.contenders[number].clone()
        };
        let sender = events.add_lease(contender.clone(), targets.clone(), timing)?;
        let servers = targets.to_string();
        let of_reader = || (targets.clone(), contender.clone(), timing, sender.clone());
        let (to, reader, timing, events) = of_reader();
        let queue_reader = QueueReader::new(to, reader, timing, events);
        let (to, reader, timing, events) = of_reader();
        let address_reader = AddressReader::new(to, reader, timing, events);
        Ok(RunLease {
            texts: LeaseReport::new(self.report, contender.action.clone(), servers),
            contender,
            queue_reader,
            address_reader,
            clock: ClockComparison::default(),
            token: None,
        })
    }
}

impl RunLease<'_> {
    /// Returns this lease as the outer one of the next lease. It shows that a waiter for the next one holds this one.
    fn as_outer(&self) -> Option<OuterLease> {
        let action = self.contender.action.clone();
        self.token.map(|token| OuterLease { action, token })
    }
}
