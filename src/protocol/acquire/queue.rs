//! Decides the next request from the row and the queue: wait for the queue lock, watch the row as the queue head, or
//! poll the row where there is no queue lock.

use std::time::Duration;

use super::backoff::{LONGEST_PAUSE, RETRY_DELAY};
use super::{Acquire, AcquirePhase, LastObserved, OwnEntry};
use crate::lease::instant::BootInstant;
use crate::mutant::{self, Safeguard};
use crate::store::takeover::{HolderSession, Observation, allowed_at};
use crate::store::{
    AcquireMode, LockRecord, POLLER_TIMEOUT, QueueLock, QueueLockOwner, QueueState,
};

/// Longest pause of pollers behind the first one. They only have to notice that they moved up.
const LONGEST_PAUSE_BEHIND: Duration = Duration::from_secs(3);

/// Maximum number of consecutive attempts, without a pause, on a row that can be acquired.
const MAX_TRIES: u32 = 3;

/// Maximum number of consecutive anomalies of the queue lock before it counts as broken. A session that is granted the
/// lease by its first packet owns the queue lock for a moment before the row or a queue entry shows it.
const MAX_ANOMALIES: u32 = 3;

/// Without a queue lock, the time for which only the first waiter tries to acquire a free row. After that all waiters
/// try, because the first one may be dead, which the others cannot detect.
const HEAD_PRIORITY: Duration = Duration::from_secs(3);

impl Acquire {
    /// Records the row and the queue from a response, and decides the next request.
    pub(super) fn observe(
        &mut self,
        now: BootInstant,
        received: BootInstant,
        row: &LockRecord,
        queue: &QueueState,
    ) {
        let was_waiting = self.phase == AcquirePhase::WaitTurn;
        let was_enqueueing = self.phase == AcquirePhase::Enqueue;
        self.observed = Some(LastObserved {
            row: row.clone(),
            at: received,
            ahead: queue.ahead,
            head_waiting_for: queue.head_waiting_for.unwrap_or_default(),
        });
        let observation = Observation::next(self.observation, received, row);
        self.observation = Some(observation);
        let session = match (self.queue_lock, queue.lock_owner) {
            (QueueLock::Available, QueueLockOwner::Own) => HolderSession::LostQueueLock,
            _ => HolderSession::Unknown,
        };
        let allowed_at = allowed_at(received, row, &observation, session);
        if mutant::is_disabled(Safeguard::OwnClock) && self.try_if(now, allowed_at, row) {
            return;
        }
        match (self.queue_lock, queue.lock_owner) {
            // The server granted the queue lock to this session. If another session owns it, the grant is not real.
            (QueueLock::Available, lock_owner)
                if was_waiting && lock_owner != QueueLockOwner::Own =>
            {
                self.wait_ended(now);
            }
            (QueueLock::Available, QueueLockOwner::Known) => {
                self.queue_lock_anomalies = 0;
                self.phase = AcquirePhase::WaitTurn;
            }
            // The queue lock became free between two packets, and the queue entry exists: wait for the lock.
            (QueueLock::Available, QueueLockOwner::Free) if was_enqueueing => {
                self.phase = AcquirePhase::WaitTurn;
            }
            (QueueLock::Available, QueueLockOwner::Own) | (QueueLock::Unavailable, _) => {
                (self.queue_lock_anomalies, self.failed_waits) = (0, 0);
                self.watch(now, allowed_at, row, queue.ahead);
            }
            (
                QueueLock::Available,
                lock_owner @ (QueueLockOwner::Free
                | QueueLockOwner::Foreign
                | QueueLockOwner::NotQueried),
            ) => {
                self.queue_lock_anomalies += 1;
                let may_wait =
                    lock_owner == QueueLockOwner::Foreign && self.foreign_limit().is_some();
                match may_wait && self.queue_lock_anomalies > MAX_ANOMALIES {
                    true => self.phase = AcquirePhase::WaitTurn,
                    false => self.retry_or_disable_queue_lock(now, self.queue_lock_anomalies),
                }
            }
        }
    }

    /// Handles a wait that ended without the queue lock.
    pub(super) fn wait_ended(&mut self, now: BootInstant) {
        self.failed_waits += 1;
        self.retry_or_disable_queue_lock(now, self.failed_waits.max(self.queue_lock_anomalies));
    }

    /// Returns the maximum time to wait for the queue lock behind a foreign session, one that neither holds the lease
    /// nor has a queue entry. On a server that stalls, a contender can be such a session until its grant is
    /// committed, so the limit is one ttl, or half of `--wait` if that is shorter. None if the limit is too short to
    /// be worth a wait.
    fn foreign_limit(&self) -> Option<Duration> {
        let half = self.limits.wait.map(|wait| wait / 2);
        let limit = half.into_iter().chain([self.timing.ttl]).min();
        limit.filter(|limit| *limit >= LONGEST_PAUSE)
    }

    /// Returns the maximum time to wait for the queue lock if the user's wait limit ends in `left`. None waits
    /// forever.
    pub(super) fn wait_turn_limit(&self, left: Option<Duration>) -> Option<Duration> {
        let is_behind_foreign = self.queue_lock_anomalies > MAX_ANOMALIES;
        let foreign = self.foreign_limit().filter(|_| is_behind_foreign);
        left.into_iter().chain(foreign).min()
    }

    /// Tries again after the queue lock failed to work `anomalies` times in a row. Disables it after [`MAX_ANOMALIES`].
    fn retry_or_disable_queue_lock(&mut self, now: BootInstant, anomalies: u32) {
        self.phase = AcquirePhase::TryAcquire(AcquireMode::IfFree);
        if anomalies > MAX_ANOMALIES {
            self.disable_queue_lock();
        } else {
            self.next_at = now + RETRY_DELAY * anomalies;
        }
    }

    /// Disables the queue lock for the rest of the acquisition.
    pub(super) fn disable_queue_lock(&mut self) {
        self.queue_lock = QueueLock::Unavailable;
        // The queue entry must be refreshed as a poller's, or other contenders would take this one for dead.
        self.disconnected();
    }

    /// Watches the row as the queue head, which has the queue lock, or as a poller, without a queue lock. Tries to
    /// acquire the row as soon as that is allowed and it is this contender's turn.
    fn watch(&mut self, now: BootInstant, allowed_at: BootInstant, row: &LockRecord, ahead: u64) {
        let has_queue_lock = self.queue_lock == QueueLock::Available;
        let is_free = !has_queue_lock && allowed_at <= now;
        self.free_since = is_free.then(|| self.free_since.unwrap_or(now));
        let is_left_free = |since| now.since(since) >= HEAD_PRIORITY;
        let is_turn = has_queue_lock || ahead == 0 || self.free_since.is_some_and(is_left_free);
        if is_turn && self.try_if(now, allowed_at, row) {
            return;
        }
        let OwnEntry::Current(since) = self.entry else {
            self.phase = AcquirePhase::Enqueue;
            return;
        };
        self.phase = match has_queue_lock || now.since(since) < POLLER_TIMEOUT / 3 {
            true => AcquirePhase::Get,
            false => AcquirePhase::Enqueue,
        };
        let (until, longest) = match has_queue_lock {
            // If a row looks free but the head is refused, a transaction of an earlier command still locks the fence.
            // It may last long, so poll slowly.
            true if allowed_at <= now => (now + LONGEST_PAUSE, LONGEST_PAUSE),
            false if ahead > 0 => (now + LONGEST_PAUSE_BEHIND, LONGEST_PAUSE_BEHIND),
            _ => (allowed_at, LONGEST_PAUSE),
        };
        let pause = self.backoff.next_pause(self.owner_id, longest);
        // Not later than a take-over is allowed, but never sooner than a short pause.
        self.next_at = (now + pause).min(until.max(now + RETRY_DELAY));
    }

    /// Selects an attempt and returns true if the row may be acquired at `now`, at most [`MAX_TRIES`] times in a row.
    fn try_if(&mut self, now: BootInstant, allowed_at: BootInstant, row: &LockRecord) -> bool {
        if allowed_at > now || self.consecutive_tries >= MAX_TRIES {
            self.consecutive_tries = 0;
            return false;
        }
        self.consecutive_tries += 1;
        self.phase = AcquirePhase::TryAcquire(match row.owner_id.is_some() || row.fenced {
            true => AcquireMode::TakeOver {
                version: row.version,
                fenced: row.fenced,
            },
            false => AcquireMode::IfFree,
        });
        true
    }
}
