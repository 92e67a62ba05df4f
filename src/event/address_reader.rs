//! Reads the record over a new connection, so that a holder notices that its address leads to another server.
//!
//! Each read is a [`BackgroundRead`] and changes nothing on the server. Nothing waits for it: if a read fails or never
//! ends, the holder continues, and its renewals alone decide. A short run sends nothing. [`AddressChecks`] decides when
//! to read and what the result proves.

use std::time::Duration;

use crate::event::Event;
use crate::event::background_read::BackgroundRead;
use crate::event::queue::EventSender;
use crate::lease::Grant;
use crate::lease::instant::BootInstant;
use crate::lease::timing::{Timing, address_check_interval};
use crate::mutant::{self, Safeguard};
use crate::protocol::address::AddressChecks;
use crate::store::target::Targets;
use crate::store::{Contender, LockRecord};

/// Starts the reads of a holder, at most one at a time.
#[derive(Debug)]
pub struct AddressReader {
    /// None if the address is a Unix socket, which cannot lead to another machine.
    read: Option<BackgroundRead>,
    contender: Contender,
    interval: Duration,
    /// Maximum time for which a server may lack the latest renewals before it counts as another server.
    patience: Duration,
    events: EventSender,
    /// Time at which the connection was opened.
    opened: BootInstant,
    /// The checks under the present grant. None before the grant.
    checks: Option<AddressChecks>,
}

impl AddressReader {
    /// Returns a reader without a thread and without a connection. Each result arrives as an event.
    #[must_use]
    pub fn new(
        targets: Targets,
        contender: Contender,
        timing: Timing,
        events: EventSender,
        now: BootInstant,
    ) -> Self {
        let is_checked = targets.can_move() && !mutant::is_disabled(Safeguard::AddressCheck);
        Self {
            read: is_checked.then(|| BackgroundRead::new(targets, timing)),
            // A read of the record does not need the recorded success.
            contender: contender.without_once(),
            interval: address_check_interval(timing.ttl),
            patience: timing.request_timeout,
            events,
            opened: now,
            checks: None,
        }
    }

    /// Records that the database thread has opened a connection.
    pub fn connected(&mut self, now: BootInstant) {
        self.opened = now;
        if let Some(checks) = &mut self.checks {
            checks.reconnected(now);
        }
    }

    /// Starts the checks of a holder at `now`, unless the checks under this grant have started. If the connection is too
    /// old, the store has checked the address before it reported the grant.
    pub fn granted(&mut self, grant: Grant, now: BootInstant) {
        if self.checks.is_some_and(|checks| checks.grant() == grant) {
            return;
        }
        let is_old = now.since(self.opened) >= self.interval;
        let checked = if is_old { now } else { self.opened };
        let checks = AddressChecks::new(grant, self.interval, checked, now);
        self.checks = Some(checks).filter(|_| self.read.is_some());
    }

    /// Records that a renewal has succeeded.
    pub const fn renewed(&mut self) {
        if let Some(checks) = &mut self.checks {
            checks.renewed();
        }
    }

    /// Returns the instant at which the next check is due. None if the address is not checked.
    #[must_use]
    pub fn next_at(&self) -> Option<BootInstant> {
        self.checks.as_ref().map(AddressChecks::next_at)
    }

    /// Starts a read if a check is due and no read is running.
    pub fn start_if_due(&mut self, now: BootInstant) {
        let (Some(read), Some(checks)) = (&mut self.read, &mut self.checks) else {
            return;
        };
        let Some(expected) = checks.due(now) else {
            return;
        };
        let (contender, events) = (self.contender.clone(), self.events.clone());
        let patience = self.patience;
        read.start(
            now,
            self.interval,
            Duration::ZERO,
            move |database| {
                database.record_until(&contender, patience, |record| expected.is_in(record))
            },
            // The send fails only at the end of the process.
            move |record| drop(events.send(Event::AddressRead(record.ok().map(Box::new)))),
        );
    }

    /// Handles the end of a read. Returns true if the address leads to another server, or if the lease is lost. The
    /// holder then reconnects, and its next renewal decides.
    pub fn has_moved(&mut self, record: Option<&LockRecord>) -> bool {
        if let Some(read) = &mut self.read {
            read.finish();
        }
        let checks = self.checks.as_mut();
        checks.is_some_and(|checks| checks.has_moved(record))
    }
}
