//! Decides when a holder checks that its address still leads to the server of its connection, and what the record that
//! it reads there proves. Pure, without a clock or I/O.
//!
//! A DNS name, a virtual IP or a proxy may lead to another server while the connection of the holder stays open. If the
//! old server still accepts writes, the renewals on it succeed, but contenders that connect now do not see them. The
//! holder therefore reads its record over a new connection. The renewals of this process that were complete before the
//! read must be in that record, except the latest one, which another node of the same cluster may not have applied yet.
//! If they are not, the holder reconnects, and the next renewal decides whether it still holds the lease. A reconnect is
//! harmless.

use std::time::Duration;

use crate::lease::Grant;
use crate::lease::instant::BootInstant;
use crate::store::LockRecord;

/// The checks of the address under one grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressChecks {
    grant: Grant,
    interval: Duration,
    next_at: BootInstant,
    /// The record contains at least this number of renewals.
    renewals: u64,
    /// Minimum number of renewals in the record that the read in flight returns. None if no read is in flight, or if its
    /// result is ignored.
    expected: Option<u64>,
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
            expected: None,
        }
    }

    /// Records that a renewal has succeeded.
    pub const fn renewed(&mut self) {
        self.renewals += 1;
    }

    /// Records that the holder has reconnected at `now`. The renewals before are not known to the present server.
    pub fn reconnected(&mut self, now: BootInstant) {
        *self = Self::new(self.grant, self.interval, now, now);
    }

    /// Returns the instant at which the next check is due.
    #[must_use]
    pub const fn next_at(&self) -> BootInstant {
        self.next_at
    }

    /// Returns true if a check is due at `now`. The caller then starts a read, unless an earlier read is running.
    pub fn is_due(&mut self, now: BootInstant) -> bool {
        let is_due = now >= self.next_at;
        if is_due {
            self.next_at = now + self.interval;
            self.expected.get_or_insert(self.renewals.saturating_sub(1));
        }
        is_due
    }

    /// Handles the end of a read. Returns true if the address leads to another server, or if the lease is lost. `record`
    /// is None if the read failed or the server refuses writes, which proves nothing.
    pub fn has_moved(&mut self, record: Option<&LockRecord>) -> bool {
        let (Some(expected), Some(record)) = (self.expected.take(), record) else {
            return false;
        };
        let Grant { owner_id, token } = self.grant;
        let renewals = record.version.renewals;
        let is_current = record.is_held_by(owner_id, Some(token)) && renewals >= expected;
        if is_current {
            // The response to an earlier renewal may have been lost.
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
    use crate::lease::{Grant, OwnerId, Token};
    use crate::store::LockRecord;

    const START: BootInstant = BootInstant::new(Duration::from_secs(1000));
    const INTERVAL: Duration = Duration::from_secs(15);
    const GRANT: Grant = Grant {
        owner_id: OwnerId::new([1; 16]),
        token: Token(7),
    };

    fn record(renewals: u64) -> LockRecord {
        let mut record = LockRecord::never_held("init".parse().expect("a name"));
        record.owner_id = Some(GRANT.owner_id);
        record.version.token = GRANT.token;
        record.version.renewals = renewals;
        record
    }

    /// Returns checks whose first check has started after `renewals` renewals.
    fn checking(renewals: u64) -> AddressChecks {
        let mut checks = AddressChecks::new(GRANT, INTERVAL, START, START);
        (0..renewals).for_each(|_| checks.renewed());
        assert!(checks.is_due(START + INTERVAL));
        checks
    }

    #[test]
    fn first_check_is_due_when_the_connection_is_too_old() {
        let age = Duration::from_secs(4);
        let mut checks = AddressChecks::new(GRANT, INTERVAL, START, START + age);
        assert!(!checks.is_due(START + INTERVAL - Duration::from_secs(1)));
        assert!(checks.is_due(START + INTERVAL));
        assert_eq!(checks.next_at(), START + INTERVAL * 2);
        let old = AddressChecks::new(GRANT, INTERVAL, START, START + INTERVAL * 9);
        assert_eq!(old.next_at(), START + INTERVAL * 9);
    }

    #[test]
    fn a_record_that_lacks_more_than_the_latest_renewal_is_not_current() {
        for (renewals, moved) in [(1, true), (2, false), (3, false), (4, false)] {
            assert_eq!(
                checking(3).has_moved(Some(&record(renewals))),
                moved,
                "{renewals}"
            );
        }
        let free = LockRecord::never_held("init".parse().expect("a name"));
        assert!(checking(0).has_moved(Some(&free)));
        let mut next = record(9);
        next.version.token = Token(8);
        assert!(checking(0).has_moved(Some(&next)));
    }

    #[test]
    fn failed_read_and_reconnect_prove_nothing() {
        assert!(!checking(3).has_moved(None));
        let mut checks = checking(3);
        checks.reconnected(START + INTERVAL);
        assert!(!checks.has_moved(Some(&record(0))));
        assert!(checks.is_due(START + INTERVAL * 2));
        assert!(!checks.has_moved(Some(&record(0))));
    }

    #[test]
    fn renewals_with_lost_responses_count_after_the_next_check() {
        let mut checks = checking(3);
        assert!(!checks.has_moved(Some(&record(5))));
        (0..2).for_each(|_| checks.renewed());
        assert!(checks.is_due(START + INTERVAL * 2));
        assert!(checks.has_moved(Some(&record(5))));
    }
}
