//! A snapshot of the locks, with the time at which it arrived.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::lease::action::Action;
use crate::lease::instant::BootInstant;
use crate::report::messages;
use crate::store::diagnosis::Severity;
use crate::store::{LockRecord, LockState, Snapshot, Waiter};

/// Waiting time from which an action needs attention. A shorter wait is usual for a migration.
const LONG_WAIT: Duration = Duration::from_mins(5);

/// A snapshot with the time at which it arrived.
#[derive(Debug, Clone)]
pub struct TimedSnapshot {
    /// One record per action, in natural order, and the waiters.
    pub snapshot: Snapshot,
    /// Time at which the request was sent. The data is at most as old as this time.
    pub sent: BootInstant,
    /// Time at which the snapshot arrived.
    pub received: BootInstant,
    /// The time at which the snapshot arrived, on this machine's wall clock, since 1970. Used only for a comparison
    /// with the server's clock.
    pub at_wall: Duration,
    /// The queue of each action that has waiters.
    queues: BTreeMap<Action, QueueSummary>,
}

/// The waiters for one action, without the waiters whose sessions have ended.
#[derive(Debug, Clone, Copy, Default)]
struct QueueSummary {
    waiting: usize,
    longest: Duration,
    /// The longest wait of a waiter whose session is seen alive. None if there is no such waiter.
    longest_alive: Option<Duration>,
}

impl TimedSnapshot {
    /// Adds times to `snapshot`: the time at which the request was sent, and the time of arrival on two clocks.
    #[must_use]
    pub fn new(
        snapshot: Snapshot,
        sent: BootInstant,
        received: BootInstant,
        at_wall: Duration,
    ) -> Self {
        let mut queues = BTreeMap::<Action, QueueSummary>::new();
        let waiters = snapshot.waiters.iter();
        for waiter in waiters.filter(|waiter| waiter.may_be_waiting()) {
            let queue = queues.entry(waiter.action.clone()).or_default();
            queue.waiting += 1;
            queue.longest = queue.longest.max(waiter.waiting_for);
            if waiter.alive == Some(true) {
                queue.longest_alive = queue.longest_alive.max(Some(waiter.waiting_for));
            }
        }
        Self {
            snapshot,
            sent,
            received,
            at_wall,
            queues,
        }
    }

    /// Returns the time of the snapshot on the server's clock, since 1970.
    #[must_use]
    pub const fn server_time(&self) -> Duration {
        Duration::from_micros(self.snapshot.server_time.0)
    }

    /// Returns a message about the difference between the server's clock and this machine's clock. None if the
    /// difference is too small to report.
    #[must_use]
    pub fn clock_difference(&self) -> Option<String> {
        messages::clock_difference(self.server_time(), self.at_wall)
    }

    /// Returns the record of `action`. None if the snapshot does not contain the action.
    #[must_use]
    pub fn record(&self, action: &Action) -> Option<&LockRecord> {
        let mut locks = self.snapshot.locks.iter();
        locks.find(|record| record.action == *action)
    }

    /// Returns the number of waiters for `action`, without the waiters whose sessions have ended.
    #[must_use]
    pub fn waiting(&self, action: &Action) -> usize {
        self.queues.get(action).map_or(0, |queue| queue.waiting)
    }

    /// Returns the longest time that a waiter for `action` has waited. None if there are no waiters, except waiters whose
    /// sessions have ended.
    #[must_use]
    pub fn longest_wait(&self, action: &Action) -> Option<Duration> {
        self.queues.get(action).map(|queue| queue.longest)
    }

    /// Does the same as [`Self::longest_wait`], but only for waiters whose sessions are seen alive. An account that cannot see
    /// them knows of no wait that needs attention.
    #[must_use]
    pub fn longest_known_wait(&self, action: &Action) -> Option<Duration> {
        self.queues.get(action)?.longest_alive
    }

    /// Returns the total number of waiters for all actions, without the waiters whose sessions have ended.
    #[must_use]
    pub fn all_waiting(&self) -> usize {
        self.queues.values().map(|queue| queue.waiting).sum()
    }

    /// Returns true if the action of `record` has a problem, or if a contender has waited for a long time.
    #[must_use]
    pub fn needs_attention(&self, record: &LockRecord) -> bool {
        let waits = self.longest_known_wait(&record.action).unwrap_or_default();
        Severity::of(record) == Severity::Problem || waits >= LONG_WAIT
    }

    /// Returns the waiters for `action`, each with its queue position. The first position is 1.
    pub fn queue_of(&self, action: &Action) -> impl Iterator<Item = (usize, &Waiter)> {
        let waiters = self.snapshot.waiters.iter();
        (1..).zip(waiters.filter(|waiter| waiter.action == *action))
    }

    /// Returns the number of actions in `state`.
    #[must_use]
    pub fn count(&self, state: LockState) -> usize {
        let locks = self.snapshot.locks.iter();
        locks.filter(|record| record.state() == state).count()
    }
}
