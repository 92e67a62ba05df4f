//! The result of an acquisition.

use std::time::Duration;

use crate::lease::Grant;
use crate::lease::instant::BootInstant;
use crate::store::QueueLock;

/// Duration of a run from which on a hand-off is worthwhile: a waiter may have arrived, and the cost of an unneeded
/// hand-off is small compared with the run.
const LONG_RUN: Duration = Duration::from_millis(100);

/// A lease that this process holds, with the queue lock and the queue entry that belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AcquiredLease {
    /// The owner id and the token for renewals and the release.
    pub grant: Grant,
    /// Send time of the request that proves the grant. Deadlines count from it.
    pub sent: BootInstant,
    /// If available, the queue lock is acquired again on a new connection and released in the end.
    pub queue_lock: QueueLock,
    /// True if the queue entry may still exist. It does not count while this process holds the lease, and
    /// the release deletes it.
    pub has_entry: bool,
}

impl AcquiredLease {
    /// Returns true if other contenders are likely to wait for the end of a run that took `took`. A holder that
    /// waited in the queue itself is likely to have waiters behind it.
    #[must_use]
    pub fn is_awaited(&self, took: Duration) -> bool {
        self.has_entry || took >= LONG_RUN
    }
}
