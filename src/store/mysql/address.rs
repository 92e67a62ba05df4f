//! Checks that the address still leads to the server of an old connection, before a waiter uses a grant.
//!
//! A waiter may wait on one connection for hours. If the address has moved to another server while the old server still
//! accepts writes, the holder continues on the new server, and the end of its session on the old server wakes the
//! waiter there. A grant on the old server would then start a second command.

use std::thread;
use std::time::Duration;

use super::database::Database;
use super::worker::Worker;
use crate::lease::Grant;
use crate::lease::timing::address_check_interval;
use crate::mutant::{self, Safeguard};
use crate::store::{Contender, Failure, FailureKind, LockRecord, QueueLock, ReleaseRequest, Store};
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

    /// Confirms a grant that this connection has just received, if the connection was opened so long ago that the address
    /// may have moved since then. Otherwise sends nothing, so that a short wait ends without delay.
    ///
    /// # Errors
    /// Fails if the address leads to another server, which accepts writes and does not have the grant. The grant is
    /// then released and the connection is dropped.
    pub(super) fn confirm_address(
        &mut self,
        contender: &Contender,
        grant: Grant,
        queue_lock: QueueLock,
    ) -> Result<(), Failure> {
        let is_recent = clock::now().since(self.opened) < address_check_interval(contender.ttl);
        if is_recent || !self.leads_elsewhere(contender, grant) {
            return Ok(());
        }
        let Grant { owner_id, token } = grant;
        let request = ReleaseRequest::without_run(owner_id, Some(token), queue_lock);
        // If the release fails, the lease on the old server expires.
        let _ = self.release(contender, &request);
        self.search_again();
        let message = format!("{} now leads to another server", self.target().address);
        Err(Failure::new(FailureKind::Unreachable, message))
    }

    /// Returns true if a new connection leads to a server that accepts writes and does not have the grant. Any failure
    /// proves nothing. Name resolution has no time limit, so another thread connects.
    fn leads_elsewhere(&self, contender: &Contender, grant: Grant) -> bool {
        let targets = &self.hosts.targets;
        if !targets.can_move() || mutant::is_disabled(Safeguard::AddressCheck) {
            return false;
        }
        let fresh = Self::new(targets.clone(), self.limit, self.idle);
        let Ok(worker) = Worker::start(fresh) else {
            return false;
        };
        let contender = contender.clone().without_once();
        let has_other = worker.call(self.limit, move |fresh| {
            Ok(fresh.has_other_record(&contender, grant))
        });
        has_other.unwrap_or(false)
    }

    /// Returns true if the server accepts writes and its record does not have the grant.
    fn has_other_record(&mut self, contender: &Contender, grant: Grant) -> bool {
        let is_current = |record: &LockRecord| record.is_held_by(grant.owner_id, Some(grant.token));
        // The caller waits for `limit`, and a new connection takes some of that time.
        let record = self.record_until(contender, self.limit / 2, is_current);
        record.is_ok_and(|record| !is_current(&record))
    }
}
