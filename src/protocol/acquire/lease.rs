//! The result of an acquisition.

use std::time::Duration;

use crate::lease::Grant;
use crate::lease::instant::BootInstant;
use crate::protocol::silence::SilenceLimit;
use crate::store::{EarlierSessions, QueueLock};

/// Minimum duration of a run for which a hand-off is worthwhile. During a run that takes at least this long, a waiter
/// may have arrived, and the cost of an unneeded hand-off is small compared with the run.
const LONG_RUN: Duration = Duration::from_millis(100);

/// A lease that this process holds, with its queue lock and its queue entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AcquiredLease {
    /// The owner id and the token for renewals and the release.
    pub grant: Grant,
    /// Send time of the request that proves the grant. The deadline is measured from this instant.
    pub sent: BootInstant,
    /// Availability of the queue lock. If the queue lock is available, a renewal on a new connection acquires it again,
    /// and the release of the lease also releases the queue lock.
    pub queue_lock: QueueLock,
    /// True if the queue entry may still exist. While this process holds the lease, the entry does not count as a
    /// waiter. The release deletes the entry.
    pub has_entry: bool,
    /// Sessions of an earlier holder that may still execute statements on the server. The command must not start before
    /// they have ended.
    pub earlier_sessions: EarlierSessions,
    /// The silences after which connections have ended during the wait.
    pub silence: SilenceLimit,
}

impl AcquiredLease {
    /// Returns true if other contenders are likely to wait for the end of a run that took `took`. A holder that had to
    /// wait in the queue is likely to have waiters behind it.
    #[must_use]
    pub fn is_awaited(&self, took: Duration) -> bool {
        self.has_entry || took >= LONG_RUN
    }
}
