//! Decides when a holder checks that its address still leads to the server of its connection, and what the record that
//! it reads there proves. Pure, without a clock or I/O.
//!
//! A DNS name, a virtual IP or a proxy may lead to another server while the connection of the holder stays open. If the
//! old server still accepts writes, the renewals on it succeed, but contenders that connect now do not see them. The
//! holder therefore reads its record over a new connection. The renewals of this process that were complete before the
//! read must be in that record. Another member of the same group may apply them a moment later, so the reader reads
//! again until they are there or a time limit has passed. If they are still missing, the holder reconnects, and the
//! next renewal decides whether it still holds the lease. A reconnect is harmless.

use std::time::Duration;

use crate::lease::Grant;
use crate::lease::instant::BootInstant;
use crate::store::LockRecord;

/// The checks of the address under one grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AddressChecks {
    grant: Grant,
    interval: Duration,
    next_at: BootInstant,
    /// The record contains at least this number of renewals.
    renewals: u64,
    /// The read in flight. None if no read is in flight.
    pending: Option<PendingRead>,
}

/// A read in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct PendingRead {
    expected: ExpectedRecord,
    /// True if the holder has reconnected since the read was started.
    is_ignored: bool,
}

/// What the record of a holder contains if the address has not moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExpectedRecord {
    grant: Grant,
    /// Number of renewals that were complete before the read was started.
    renewals: u64,
}

impl ExpectedRecord {
    /// Returns true if `record` contains the grant and the renewals.
    #[must_use]
    pub fn is_in(&self, record: &LockRecord) -> bool {
        let Grant {
            owner_id, token, ..
        } = self.grant;
        let renewals = self.renewals_in(record);
        record.is_held_by(owner_id, Some(token)) && renewals >= self.renewals
    }

    /// Returns the number of renewals in `record` of the lease of this holder, which may be in a slot.
    fn renewals_in(&self, record: &LockRecord) -> u64 {
        let own = record.own_lease(self.grant.owner_id);
        own.unwrap_or(&record.lease).version.renewals
    }
}

impl AddressChecks {
    /// Creates the checks under a grant at `now`, over a connection that was opened or checked at `checked`.
    #[must_use]
    pub fn new(grant: Grant, interval: Duration, checked: BootInstant, now: BootInstant) -> Self {
        Self {
            grant,
            interval,
            next_at: now.max(checked + interval),
            renewals: 0,
            pending: None,
        }
    }

    /// Records that a renewal has succeeded.
    pub const fn renewed(&mut self) {
        self.renewals += 1;
    }

    /// Records that the holder has reconnected at `now`. Earlier renewals no longer count, because the present server
    /// may lack them.
    pub fn reconnected(&mut self, now: BootInstant) {
        // The read in flight may have begun before a renewal that is counted from now on.
        let pending = self.pending.map(|pending| PendingRead {
            is_ignored: true,
            ..pending
        });
        *self = Self {
            pending,
            ..Self::new(self.grant, self.interval, now, now)
        };
    }

    /// Returns the instant at which the next check is due.
    #[must_use]
    pub const fn next_at(&self) -> BootInstant {
        self.next_at
    }

    /// Returns what the record must contain if a check is due at `now`. The caller then starts a read, unless an earlier
    /// read is running.
    pub fn due(&mut self, now: BootInstant) -> Option<ExpectedRecord> {
        if now < self.next_at {
            return None;
        }
        self.next_at = now + self.interval;
        let new = PendingRead {
            expected: ExpectedRecord {
                grant: self.grant,
                renewals: self.renewals,
            },
            is_ignored: false,
        };
        Some(self.pending.get_or_insert(new).expected)
    }

    /// Removes history that does not affect the behaviour from `now` on. The protocol model calls this method to recognise
    /// a state that it has already visited.
    pub fn normalize_for_model(&mut self, now: BootInstant) {
        if self.next_at <= now {
            self.next_at = BootInstant::new(Duration::ZERO);
        }
    }

    /// Handles the end of a read. Returns true if the address leads to another server, or if the lease is lost. `record`
    /// is None if the read failed or the server refuses writes, which proves nothing.
    pub fn has_moved(&mut self, record: Option<&LockRecord>) -> bool {
        let (Some(pending), Some(record)) = (self.pending.take(), record) else {
            return false;
        };
        if pending.is_ignored {
            return false;
        }
        let is_current = pending.expected.is_in(record);
        if is_current {
            // The responses to earlier renewals may have been lost. The record may also contain the renewal in flight,
            // which is counted when its response arrives.
            let renewals = pending.expected.renewals_in(record).saturating_sub(1);
            self.renewals = self.renewals.max(renewals);
        }
        !is_current
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::AddressChecks;
    use crate::lease::instant::BootInstant;
    use crate::lease::limit::Limit;
    use crate::lease::{Grant, OwnerId, Token};
    use crate::store::{LockRecord, Slot};

    const START: BootInstant = BootInstant::new(Duration::from_secs(1000));
    const INTERVAL: Duration = Duration::from_secs(15);
    const GRANT: Grant = Grant::new(OwnerId::new([1; 16]), Token(7));

    fn record(renewals: u64) -> LockRecord {
        let mut record = LockRecord::never_held("init".parse().expect("a name"));
        record.lease.owner_id = Some(GRANT.owner_id);
        record.lease.version.token = GRANT.token;
        record.lease.version.renewals = renewals;
        record
    }

    /// Returns checks whose first check has started after `renewals` renewals.
    fn checking(renewals: u64) -> AddressChecks {
        let mut checks = AddressChecks::new(GRANT, INTERVAL, START, START);
        (0..renewals).for_each(|_| checks.renewed());
        assert!(checks.due(START + INTERVAL).is_some());
        checks
    }

    #[test]
    fn first_check_is_due_when_the_connection_is_too_old() {
        let age = Duration::from_secs(4);
        let mut checks = AddressChecks::new(GRANT, INTERVAL, START, START + age);
        assert!(
            checks
                .due(START + INTERVAL - Duration::from_secs(1))
                .is_none()
        );
        assert!(checks.due(START + INTERVAL).is_some());
        assert_eq!(checks.next_at(), START + INTERVAL * 2);
        let old = AddressChecks::new(GRANT, INTERVAL, START, START + INTERVAL * 9);
        assert_eq!(old.next_at(), START + INTERVAL * 9);
    }

    #[test]
    fn a_record_without_the_complete_renewals_is_not_current() {
        for (renewals, moved) in [(2, true), (3, false), (4, false)] {
            assert_eq!(
                checking(3).has_moved(Some(&record(renewals))),
                moved,
                "{renewals}"
            );
        }
        let free = LockRecord::never_held("init".parse().expect("a name"));
        assert!(checking(0).has_moved(Some(&free)));
        let mut next = record(9);
        next.lease.version.token = Token(8);
        assert!(checking(0).has_moved(Some(&next)));
    }

    /// The record of an action with leases in slots contains no renewals.
    #[test]
    fn lease_in_a_slot_is_current_with_its_own_renewals() {
        for (renewals, moved) in [(2, true), (3, false), (4, false)] {
            let slot = Slot {
                number: 2,
                limit: Limit::NONE,
                lease: record(renewals).lease,
                sessions: None,
            };
            let shared = LockRecord {
                slots: vec![slot],
                ..record(0).with_lease(|lease| lease.owner_id = Some(OwnerId::SHARED))
            };
            assert_eq!(checking(3).has_moved(Some(&shared)), moved, "{renewals}");
        }
    }

    #[test]
    fn failed_read_and_reconnect_prove_nothing() {
        assert!(!checking(3).has_moved(None));
        let mut checks = checking(3);
        checks.reconnected(START + INTERVAL);
        checks.renewed();
        // The read that began before the reconnect is still running when the next check is due.
        assert!(checks.due(START + INTERVAL * 2).is_some());
        assert!(!checks.has_moved(Some(&record(0))));
        assert!(checks.due(START + INTERVAL * 3).is_some());
        assert!(checks.has_moved(Some(&record(0))));
    }

    #[test]
    fn renewals_with_lost_responses_count_after_the_next_check() {
        let mut checks = checking(3);
        assert!(!checks.has_moved(Some(&record(9))));
        checks.renewed();
        assert!(checks.due(START + INTERVAL * 2).is_some());
        assert!(checks.has_moved(Some(&record(8))));
    }

    #[test]
    fn a_renewal_in_flight_during_a_read_counts_once() {
        let mut checks = checking(3);
        assert!(!checks.has_moved(Some(&record(4))));
        checks.renewed();
        assert!(checks.due(START + INTERVAL * 2).is_some());
        assert!(!checks.has_moved(Some(&record(4))));
    }
}
