//! The health of the queue lock as one acquisition sees it: whether it works, and when it is tried again. Pure.
//!
//! A server or a proxy may refuse named locks, report a false grant, or let a foreign session keep the queue lock. A
//! foreign session neither holds the lease nor has a queue entry. A single anomaly can be harmless, so the contender tries
//! again a few times. Then it polls: for a ttl if a foreign session has the queue lock, otherwise for the rest of the
//! acquisition.

use std::time::Duration;

use super::backoff::RETRY_DELAY;
use crate::lease::instant::BootInstant;
use crate::protocol::silence::SilenceLimit;
use crate::store::QueueLock;

/// Maximum number of consecutive anomalies of one kind. A session that is granted the lease by its first packet owns the
/// queue lock for a moment before the record or a queue entry contains that session.
const MAX_ANOMALIES: u32 = 3;

/// Maximum number of consecutive refusals of named locks. A server or a proxy may also refuse a single request.
const MAX_REFUSALS: u32 = 2;

/// The health of the queue lock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct QueueLockHealth {
    state: QueueLock,
    /// Number of consecutive reads that found an unexpected owner.
    unexpected_owners: u32,
    /// Number of consecutive waits that ended without the queue lock, and of refusals.
    failed_waits: u32,
    /// Instant from which to try the queue lock again after it was disabled for a ttl. It stays set while the queue lock is
    /// tried. None if the queue lock was never disabled for a ttl, or if it does not work.
    retry_at: Option<BootInstant>,
    silence: SilenceLimit,
}

/// The next step of the contender after an anomaly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reaction {
    /// Try to acquire the lease again after this pause.
    TryAgain(Duration),
    /// Wait behind the foreign session.
    Wait,
    /// Poll.
    Poll,
}

impl QueueLockHealth {
    pub(super) fn new() -> Self {
        Self {
            state: QueueLock::Available,
            unexpected_owners: 0,
            failed_waits: 0,
            retry_at: None,
            silence: SilenceLimit::default(),
        }
    }

    /// Returns whether the contender uses the queue lock.
    pub(super) const fn state(&self) -> QueueLock {
        self.state
    }

    /// Returns true if the contender uses the queue lock.
    pub(super) fn is_available(&self) -> bool {
        self.state == QueueLock::Available
    }

    /// Returns true if the queue lock was disabled for a ttl and has not worked since then.
    pub(super) const fn is_tried_again(&self) -> bool {
        self.retry_at.is_some()
    }

    /// Returns true if this contender waits behind a foreign session that has the queue lock.
    pub(super) const fn is_behind_foreign(&self) -> bool {
        self.unexpected_owners > MAX_ANOMALIES
    }

    /// Returns the silences after which connections have ended.
    pub(super) const fn silence(&self) -> SilenceLimit {
        self.silence
    }

    /// Returns the maximum time of one wait for the queue lock, so that the connection is not silent for too long. The SQL
    /// statement rounds this time up to the next whole second. None if no limit is known.
    pub(super) fn longest_wait(&self) -> Option<Duration> {
        let silence = Duration::from_secs(self.silence.longest_silence()?.as_secs());
        Some(silence.saturating_sub(Duration::from_millis(1)))
    }

    /// Records that this session has the queue lock.
    pub(super) const fn is_own(&mut self) {
        self.polled();
        self.retry_at = None;
    }

    /// Records a read without the queue lock.
    pub(super) const fn polled(&mut self) {
        (self.unexpected_owners, self.failed_waits) = (0, 0);
    }

    /// Records that the holder or another waiter has the queue lock.
    pub(super) const fn has_known_owner(&mut self) {
        (self.unexpected_owners, self.retry_at) = (0, None);
    }

    /// Records that the queue lock is free, or that a foreign session has it, although this session has tried to take it.
    /// `may_wait` is true if a wait behind a foreign session is long enough to be worth it.
    pub(super) fn has_unexpected_owner(
        &mut self,
        now: BootInstant,
        ttl: Duration,
        is_foreign: bool,
        may_wait: bool,
    ) -> Reaction {
        self.unexpected_owners += 1;
        match is_foreign && may_wait && self.retry_at.is_none() && self.is_behind_foreign() {
            true => Reaction::Wait,
            false => self.react(self.unexpected_owners, is_foreign.then(|| now + ttl)),
        }
    }

    /// Records a wait that ended without the queue lock.
    pub(super) fn wait_ended(&mut self, now: BootInstant, ttl: Duration) -> Reaction {
        self.failed_waits += 1;
        let anomalies = self.failed_waits.max(self.unexpected_owners);
        self.react(anomalies, self.is_behind_foreign().then(|| now + ttl))
    }

    /// Records that the server has refused named locks.
    pub(super) fn refused(&mut self) -> Reaction {
        self.failed_waits += 1;
        match self.failed_waits > MAX_REFUSALS {
            true => self.disable(None),
            false => Reaction::TryAgain(RETRY_DELAY * self.failed_waits),
        }
    }

    /// Records that a request has failed. If the request was a wait for the queue lock, `waited` is its length.
    pub(super) fn connection_lost(&mut self, waited: Option<Duration>) {
        self.unexpected_owners = 0;
        if let Some(waited) = waited {
            self.silence.ended_after(waited);
        }
    }

    /// Enables the queue lock again if it was disabled for a ttl that has passed. Returns true if so. If a foreign session
    /// still has the queue lock, the next read disables it again.
    pub(super) fn try_again(&mut self, now: BootInstant) -> bool {
        let is_due = !self.is_available() && self.retry_at.is_some_and(|at| now >= at);
        if is_due {
            (self.state, self.unexpected_owners) = (QueueLock::Available, MAX_ANOMALIES);
        }
        is_due
    }

    /// Removes values that only affect the length of pauses and waits.
    pub(super) fn normalize_for_model(&mut self, now: BootInstant) {
        self.silence = SilenceLimit::default();
        if let Some(at) = &mut self.retry_at
            && now >= *at
        {
            *at = BootInstant::new(Duration::ZERO);
        }
    }

    fn react(&mut self, anomalies: u32, retry_at: Option<BootInstant>) -> Reaction {
        match anomalies > MAX_ANOMALIES {
            true => self.disable(retry_at),
            false => Reaction::TryAgain(RETRY_DELAY * anomalies),
        }
    }

    /// Disables the queue lock until `retry_at`, or for the rest of the acquisition.
    const fn disable(&mut self, retry_at: Option<BootInstant>) -> Reaction {
        self.state = QueueLock::Unavailable;
        self.retry_at = retry_at;
        Reaction::Poll
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{QueueLockHealth, RETRY_DELAY, Reaction};
    use crate::lease::instant::BootInstant;

    const NOW: BootInstant = BootInstant::new(Duration::from_secs(1000));
    const TTL: Duration = Duration::from_secs(30);

    #[test]
    fn a_queue_lock_without_effect_is_disabled_for_ever() {
        let mut health = QueueLockHealth::new();
        for attempt in 1..4 {
            let expected = Reaction::TryAgain(RETRY_DELAY * attempt);
            assert_eq!(health.wait_ended(NOW, TTL), expected);
            health.has_known_owner();
        }
        assert_eq!(health.wait_ended(NOW, TTL), Reaction::Poll);
        assert!(!health.is_available() && !health.try_again(NOW + 100 * TTL));
    }

    #[test]
    fn a_wait_with_the_queue_lock_forgets_earlier_anomalies() {
        let mut health = QueueLockHealth::new();
        for _ in 0..3 {
            health.wait_ended(NOW, TTL);
            health.refused();
            health.has_unexpected_owner(NOW, TTL, false, false);
            health.is_own();
        }
        assert!(health.is_available());
    }

    #[test]
    fn two_refusals_in_a_row_are_not_the_end_of_named_locks() {
        let mut health = QueueLockHealth::new();
        assert!(matches!(health.refused(), Reaction::TryAgain(_)));
        assert!(matches!(health.refused(), Reaction::TryAgain(_)));
        assert_eq!(health.refused(), Reaction::Poll);
    }

    #[test]
    fn behind_a_foreign_session_the_contender_waits_once_and_then_polls_for_a_ttl() {
        let mut health = QueueLockHealth::new();
        let foreign = |health: &mut QueueLockHealth, now| {
            let reactions = (0..4).map(|_| health.has_unexpected_owner(now, TTL, true, true));
            reactions.last()
        };
        assert_eq!(foreign(&mut health, NOW), Some(Reaction::Wait));
        assert_eq!(health.wait_ended(NOW, TTL), Reaction::Poll);
        assert!(!health.try_again(NOW + TTL / 2) && health.is_tried_again());
        assert!(health.try_again(NOW + TTL) && health.is_available());
        let again = health.has_unexpected_owner(NOW + TTL, TTL, true, true);
        assert_eq!(again, Reaction::Poll);
        assert!(health.try_again(NOW + 2 * TTL));
        health.has_known_owner();
        assert!(health.is_available() && !health.is_tried_again());
    }

    #[test]
    fn a_short_wait_behind_a_foreign_session_is_not_worth_it() {
        let mut health = QueueLockHealth::new();
        let reactions = (0..4).map(|_| health.has_unexpected_owner(NOW, TTL, true, false));
        assert_eq!(reactions.last(), Some(Reaction::Poll));
    }
}
