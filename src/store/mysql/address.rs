//! Reads a record until it is current. A new connection may lead to a member of a group that applies the latest change a
//! moment later.

use std::thread;
use std::time::Duration;

use super::database::Database;
use crate::lease::Grant;
use crate::store::{Contender, Failure, FailureKind, LockRecord, Store};
use crate::sys::clock;

/// Pause between two reads of a record that is not current. A member of a healthy group normally applies a change within
/// this time.
const PAUSE: Duration = Duration::from_millis(20);

impl Database {
    /// Reads the record of the action until `is_current` returns true for it or `patience` has passed. Another member of
    /// the same group may apply a change a moment later. Returns the record that was read last.
    ///
    /// # Errors
    /// Fails if a read fails or the server refuses writes.
    pub fn record_until(
        &mut self,
        contender: &Contender,
        patience: Duration,
        is_current: impl Fn(&LockRecord) -> bool,
    ) -> Result<LockRecord, Failure> {
        let mut latest = self.current_record(contender)?;
        let until = clock::now() + patience;
        while !is_current(&latest) && clock::now() < until {
            thread::park_timeout(PAUSE);
            latest = self.current_record(contender)?;
        }
        Ok(latest)
    }

    /// Reads again a record that lacks `grant`. A node of a cluster that lags returns such a record until it has applied
    /// the grant.
    ///
    /// # Errors
    /// Fails if the server has applied the grant in the meantime, or if the read fails. Then the connection is dropped,
    /// and a retry succeeds or finds out more.
    pub(super) fn applied_record(
        &mut self,
        contender: &Contender,
        grant: Grant,
    ) -> Result<LockRecord, Failure> {
        let timing = self.timing;
        let patience = match self.hosts.current().is_in_group() {
            true => self.limit / 2,
            false => Duration::ZERO,
        };
        let is_applied = |record: &LockRecord| record.is_held_by(grant.owner_id, Some(grant.token));
        let record = self.record_until(contender, patience, is_applied);
        self.timing = timing;
        let record = record?;
        if is_applied(&record) {
            self.hang_up();
            let text = "the server had not applied the latest writes of its cluster";
            return Err(Failure::new(FailureKind::Unknown, text));
        }
        Ok(record)
    }
}
