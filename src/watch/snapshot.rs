//! A response of the server, with the time at which it arrived.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::lease::action::Action;
use crate::lease::instant::BootInstant;
use crate::report::messages;
use crate::store::{LockRecord, LockState, Snapshot, Waiter};

/// A response of the server.
#[derive(Debug, Clone)]
pub struct TimedSnapshot {
    /// Each action once, in byte order, and the waiters.
    pub snapshot: Snapshot,
    /// Time at which the response arrived.
    pub at: BootInstant,
    /// The same time on this machine's wall clock, since 1970. Used for a comparison with the server's clock.
    pub at_wall: Duration,
    /// Number of waiters of each action, without those whose sessions are known to be gone.
    waiting: BTreeMap<Action, usize>,
}

impl TimedSnapshot {
    /// Creates the response `snapshot`, which arrived at `at`, or at `at_wall` on the wall clock.
    #[must_use]
    pub fn new(snapshot: Snapshot, at: BootInstant, at_wall: Duration) -> Self {
        let mut waiting = BTreeMap::new();
        let waiters = snapshot.waiters.iter();
        for waiter in waiters.filter(|waiter| waiter.alive != Some(false)) {
            *waiting.entry(waiter.action.clone()).or_default() += 1;
        }
        Self {
            snapshot,
            at,
            at_wall,
            waiting,
        }
    }

    /// Returns the time on the server's clock, since 1970.
    #[must_use]
    pub const fn server_time(&self) -> Duration {
        Duration::from_micros(self.snapshot.server_time.0)
    }

    /// Returns a message about the difference between the clocks. None if the difference is not worth reporting.
    #[must_use]
    pub fn clock_difference(&self) -> Option<String> {
        messages::clock_difference(self.server_time(), self.at_wall)
    }

    /// Returns the record of `action`. None if the response does not contain it.
    #[must_use]
    pub fn record(&self, action: &Action) -> Option<&LockRecord> {
        let mut locks = self.snapshot.locks.iter();
        locks.find(|record| record.action == *action)
    }

    /// Returns the number of waiters for `action`.
    #[must_use]
    pub fn waiting(&self, action: &Action) -> usize {
        self.waiting.get(action).copied().unwrap_or(0)
    }

    /// Returns the number of waiters for all actions.
    #[must_use]
    pub fn all_waiting(&self) -> usize {
        self.waiting.values().sum()
    }

    /// Returns the queue of `action`, as positions from 1 and waiters.
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
