//! Reads the record over a new connection, so that a holder notices that its address leads to another server.
//!
//! Each read is a [`BackgroundRead`] and changes nothing on the server. Nothing waits for it: if a read fails or never
//! ends, the holder continues, and its renewals alone decide. A short run sends nothing. [`AddressChecks`] decides when
//! to read and what the result proves.
//!
//! [`AddressChecks`]: crate::protocol::address::AddressChecks

use std::time::Duration;

use crate::event::LeaseEvent;
use crate::event::background_read::BackgroundRead;
use crate::event::queue::LeaseSender;
use crate::lease::timing::{Timing, address_check_interval};
use crate::mutant::{self, Safeguard};
use crate::protocol::address::ExpectedRecord;
use crate::store::Contender;
use crate::store::target::Targets;
use crate::sys::clock;

/// Returns true if a holder checks the address. A Unix socket cannot lead to another machine.
#[must_use]
pub fn is_checked(targets: &Targets) -> bool {
    targets.can_move() && !mutant::is_disabled(Safeguard::AddressCheck)
}

/// Starts the reads of a holder, at most one at a time.
#[derive(Debug)]
pub struct AddressReader {
    read: BackgroundRead,
    contender: Contender,
    interval: Duration,
    /// Maximum time for which a server may lack the latest renewals before it counts as another server.
    patience: Duration,
    events: LeaseSender,
}

impl AddressReader {
    /// Returns a reader without a thread and without a connection. Each result arrives as an event.
    #[must_use]
    pub fn new(
        targets: Targets,
        contender: Contender,
        timing: Timing,
        events: LeaseSender,
    ) -> Self {
        Self {
            read: BackgroundRead::new(targets, timing),
            // A read of the record does not need the recorded success.
            contender: contender.without_once(),
            interval: address_check_interval(timing.ttl),
            patience: timing.request_timeout,
            events,
        }
    }

    /// Starts a read unless one is running. Another member of the group may apply the latest renewals a moment later, so
    /// the read is repeated until the record contains `expected`, or a time limit has passed.
    pub fn start(&mut self, expected: ExpectedRecord) {
        let (contender, events) = (self.contender.clone(), self.events.clone());
        let patience = self.patience;
        self.read.start(
            clock::now(),
            self.interval,
            Duration::ZERO,
            move |database| {
                database.record_until(&contender, patience, |record| expected.is_in(record))
            },
            // The send fails only at the end of the process.
            move |record| drop(events.send(LeaseEvent::AddressRead(record.ok().map(Box::new)))),
        );
    }

    /// Records that the result of the latest read has arrived.
    pub fn finish(&mut self) {
        self.read.finish();
    }
}
