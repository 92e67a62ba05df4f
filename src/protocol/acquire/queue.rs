//! Decides the next request from the record and the queue: a wait for the queue lock, a read by the queue head, or a
//! poll if there is no queue lock.

use std::time::Duration;

use super::backoff::{LONGEST_PAUSE, RETRY_DELAY};
use super::queue_lock::Reaction;
use super::{Acquire, AcquirePhase, HEAD_PRIORITY, LastObserved, OwnEntry, WAIT};
use crate::lease::instant::BootInstant;
use crate::lease::limit::Limit;
use crate::lease::{OwnerId, Token};
use crate::mutant::{self, Safeguard};
use crate::store::admission::{Admission, Observations, admission};
use crate::store::takeover::HolderSession;
use crate::store::{
    AcquireMode, LockRecord, POLLER_TIMEOUT, QueueEntry, QueueLock, QueueLockOwner, QueueState,
    Response, RoomWait, Slot, TimedResponse,
};

/// Longest pause of a poller that is not the first poller. Such a poller only has to detect that the pollers ahead of
/// it have left.
const LONGEST_PAUSE_BEHIND: Duration = Duration::from_secs(3);

/// Maximum number of consecutive attempts, without a pause between them, on a record that can be acquired.
const MAX_TRIES: u32 = 3;

/// Minimum time of a wait that the server cut, a little less than the second in the SQL statement.
const SERVER_SLICE: Duration = Duration::from_millis(900);

impl Acquire {
    /// Returns the queue entry of this contender, which the server may not contain.
    #[must_use]
    pub const fn queue_entry(&self) -> QueueEntry {
        QueueEntry {
            owner_id: self.owner_id,
            queue_lock: self.queue_lock(),
        }
    }

    /// Stores the record and the queue from a response, and decides the next request.
    pub(super) fn observe(
        &mut self,
        now: BootInstant,
        (sent, received): (BootInstant, BootInstant),
        record: &LockRecord,
        queue: &QueueState,
    ) {
        let admission = self.record_observed(now, (sent, received), record, queue);
        if mutant::is_disabled(Safeguard::OwnClock) && self.try_if(now, admission, record) {
            return;
        }
        self.decide(now, admission, record, queue);
    }

    /// Stores what a response shows. Returns when an attempt may follow.
    fn record_observed(
        &mut self,
        now: BootInstant,
        (sent, received): (BootInstant, BootInstant),
        record: &LockRecord,
        queue: &QueueState,
    ) -> Admission {
        // The holder's session has lost the queue lock that this session owns, so it has ended.
        let before = self.observed.as_ref().map(|last| &last.observed);
        let observed = Observations::next(before, received, record);
        let has_older_slot = before.is_some_and(|before| observed.has_older_slot(before));
        let holder_is_gone =
            queue.lock_owner == QueueLockOwner::Own && record.lease.had_queue_lock_here;
        let session = match (self.queue_lock(), queue.lock_owner) {
            (QueueLock::Available, QueueLockOwner::Own) => HolderSession::LostQueueLock,
            _ => HolderSession::Unknown,
        };
        let mut admission = admission(received, record, &observed, self.limit, session);
        // A release gives up its holder lock shortly before its commit, and an attempt waits for this commit.
        let without_lock = without_lock(record);
        let known = self.observed.as_ref().map(|last| &last.without_lock);
        let is_new = |token: &Token| known.is_none_or(|known| !known.contains(token));
        if without_lock.iter().any(is_new) && record.pause.is_none() {
            (admission.at, admission.dead) = (received, None);
        }
        self.observed = Some(LastObserved {
            record: record.clone().with_lease(|lease| {
                lease.session_alive = holder_is_gone
                    .then_some(false)
                    .or(record.lease.session_alive);
            }),
            at: received,
            observed,
            without_lock,
            ahead: queue.ahead,
            head_waiting_for: queue.head_waiting_for.unwrap_or_default(),
        });
        self.lost_grants
            .observe((sent, received), record, queue.database);
        if has_older_slot {
            self.lost_grants.suspect(received);
        }
        let lost_until = self.lost_grants.live_until(now);
        admission.at = admission.at.max(lost_until.unwrap_or(received));
        admission
    }

    /// Decides the next request. An attempt may follow as `admission` says.
    fn decide(
        &mut self,
        now: BootInstant,
        admission: Admission,
        record: &LockRecord,
        queue: &QueueState,
    ) {
        let was_waiting = self.phase.is_wait();
        let looks_next = self.phase == WAIT && queue.is_behind_mark;
        let was_enqueueing = self.phase == AcquirePhase::Enqueue;
        let may_be_lost = self.lost_grants.live_until(now).is_some();
        match (self.queue_lock(), queue.lock_owner) {
            // The server has reported that it granted the queue lock to this session. If this session does not own the
            // queue lock, the report was false.
            (QueueLock::Available, lock_owner)
                if was_waiting && lock_owner != QueueLockOwner::Own =>
            {
                self.wait_ended(now);
            }
            (QueueLock::Available, QueueLockOwner::Known) => {
                self.queue_lock.has_known_owner();
                self.phase = WAIT;
            }
            // The queue lock became free between two packets. The queue entry exists, so wait for the queue lock. While
            // a lost lease may be live, also wait for the queue lock, because an attempt is not allowed. The same applies
            // after polling: the session that had the queue lock has released it.
            (QueueLock::Available, QueueLockOwner::Free)
                if was_enqueueing || may_be_lost || self.queue_lock.is_tried_again() =>
            {
                self.phase = WAIT;
            }
            (QueueLock::Available, QueueLockOwner::Own) => {
                self.queue_lock.is_own();
                self.backoff.is_head();
                match looks_next {
                    true => self.phase = AcquirePhase::WaitTurn { lets_pass: true },
                    false => self.watch(now, admission, record, queue),
                }
            }
            (QueueLock::Unavailable, _) => {
                self.queue_lock.polled();
                self.watch(now, admission, record, queue);
            }
            (
                QueueLock::Available,
                lock_owner @ (QueueLockOwner::Free
                | QueueLockOwner::Foreign
                | QueueLockOwner::NotQueried),
            ) => {
                let is_foreign = lock_owner == QueueLockOwner::Foreign;
                let may_wait = self.foreign_limit().is_some();
                let ttl = self.timing.ttl;
                let reaction = self
                    .queue_lock
                    .has_unexpected_owner(now, ttl, is_foreign, may_wait);
                self.react(now, reaction);
            }
        }
    }

    /// Handles a wait that ended without the queue lock.
    pub(super) fn wait_ended(&mut self, now: BootInstant) {
        let reaction = self.queue_lock.wait_ended(now, self.timing.ttl);
        self.react(now, reaction);
    }

    fn react(&mut self, now: BootInstant, reaction: Reaction) {
        self.phase = AcquirePhase::TryAcquire(AcquireMode::IfFree);
        match reaction {
            Reaction::Wait => self.phase = WAIT,
            Reaction::TryAgain(pause) => self.backoff.next_at = now + pause,
            // The queue entry must be refreshed as the entry of a poller. Otherwise other contenders would consider this
            // contender dead.
            Reaction::Poll => self.disconnected(),
        }
    }

    /// Returns true if the wait that `response` ends was shorter than the user's limit, because something between dlock
    /// and the server ends silent connections, or because the server has few threads. The next wait follows immediately.
    pub(super) fn is_slice(&self, response: &TimedResponse) -> bool {
        let waited = response.received.since(response.sent);
        let is_over = (self.queue_lock.longest_wait()).is_some_and(|longest| waited >= longest);
        let is_cut = matches!(response.outcome, Ok(Response::WaitSliced)) && waited >= SERVER_SLICE;
        (is_over || is_cut) && !self.queue_lock.is_behind_foreign()
    }

    /// Returns the maximum time to wait for the queue lock behind a foreign session. On a server that stalls, a contender's
    /// session can be foreign until its grant is committed. Therefore the maximum time is one ttl, or half of `--wait` if
    /// that is shorter. None if this time is too short to be worth a wait.
    fn foreign_limit(&self) -> Option<Duration> {
        let half = self.time.limits.wait.map(|wait| wait / 2);
        let limit = half.into_iter().chain([self.timing.ttl]).min();
        limit.filter(|limit| *limit >= LONGEST_PAUSE)
    }

    /// Returns the maximum time to wait for the queue lock if the user's wait limit expires after `left`. None waits
    /// forever.
    pub(super) fn wait_turn_limit(&self, left: Option<Duration>) -> Option<Duration> {
        let foreign = self
            .foreign_limit()
            .filter(|_| self.queue_lock.is_behind_foreign());
        let limits = [left, foreign, self.queue_lock.longest_wait()];
        limits.into_iter().flatten().min()
    }

    /// Returns true if an earlier waiter that the queue lock does not order has left the record free for
    /// [`HEAD_PRIORITY`].
    pub(super) fn is_left_free(&self, now: BootInstant) -> bool {
        self.place
            .free_since
            .is_some_and(|since| now.since(since) >= HEAD_PRIORITY)
    }

    /// Watches the record as the queue head, which has the queue lock, or as a poller, which has no queue lock. Tries
    /// to acquire the lease as soon as this is allowed and this contender is next.
    fn watch(
        &mut self,
        now: BootInstant,
        admission: Admission,
        record: &LockRecord,
        queue: &QueueState,
    ) {
        let allowed_at = admission.at;
        let has_queue_lock = self.queue_lock.is_available();
        // A live waiter that the queue lock does not order came first.
        let is_behind = match has_queue_lock {
            true => queue.is_behind_other,
            false => queue.ahead > 0,
        };
        if self.queue_lock.try_again(now) {
            self.disconnected();
            self.phase = AcquirePhase::TryAcquire(AcquireMode::IfFree);
            return;
        }
        let is_free = is_behind && allowed_at <= now;
        self.place.free_since = is_free.then(|| self.place.free_since.unwrap_or(now));
        let is_turn = !is_behind || self.is_left_free(now);
        if is_turn && self.try_if(now, admission, record) {
            return;
        }
        let OwnEntry::Current(since) = self.place.entry else {
            self.phase = AcquirePhase::Enqueue;
            return;
        };
        let refresh_at = since + POLLER_TIMEOUT / 3;
        let is_fresh = now < refresh_at;
        if has_queue_lock && is_turn && is_fresh {
            let longest = refresh_at.min(allowed_at).since(now);
            if let Some(room) = room_wait(record, self.limit, longest) {
                self.phase = AcquirePhase::WaitRoom(room);
                return;
            }
        }
        // The first waiter of a node, which has the queue lock there, also shows the waiters of other nodes that it is
        // alive.
        self.phase = match is_fresh {
            true => AcquirePhase::Get,
            // An earlier waiter may have lost its connection and now wait again. This wait ends at once, because this
            // session has the queue lock, and lets such a waiter pass.
            false if has_queue_lock && queue.is_behind_mark => {
                AcquirePhase::WaitTurn { lets_pass: true }
            }
            false => AcquirePhase::Enqueue,
        };
        let (until, longest) = match has_queue_lock {
            // If the record is free but the attempts of the queue head fail, a transaction of an earlier command
            // normally still locks the row of the fence. That transaction may take a long time, so poll slowly.
            true if allowed_at <= now => (now + LONGEST_PAUSE, LONGEST_PAUSE),
            false if is_behind => (now + LONGEST_PAUSE_BEHIND, LONGEST_PAUSE_BEHIND),
            _ => (allowed_at, LONGEST_PAUSE),
        };
        let pause = self.backoff.next_pause(self.owner_id, longest);
        // Read again when a take-over is allowed, but not before a short pause has passed.
        self.backoff.next_at = (now + pause).min(until.max(now + RETRY_DELAY));
    }

    /// Selects an attempt as the next request and returns true if the lease may be acquired at `now`. Returns false if
    /// the lease may not be acquired yet, or after [`MAX_TRIES`] consecutive attempts.
    fn try_if(&mut self, now: BootInstant, admission: Admission, record: &LockRecord) -> bool {
        if admission.at > now || self.backoff.consecutive_tries >= MAX_TRIES {
            self.backoff.consecutive_tries = 0;
            return false;
        }
        self.backoff.consecutive_tries += 1;
        let fenced = record.fenced;
        self.phase = AcquirePhase::TryAcquire(match record.lease.owner_id {
            Some(OwnerId::SHARED) => AcquireMode::AmongSlots {
                dead: admission.dead,
                fenced,
            },
            None if !fenced => AcquireMode::IfFree,
            Some(_) | None => AcquireMode::TakeOver {
                version: record.lease.version,
                fenced,
            },
        });
        true
    }
}

/// Returns the wait for room among the leases in `record`, of at most `longest`. None if no release could make room for a
/// contender with `limit`, or if the server would not notice it: it sees the sessions of no holder, or the wait would be too
/// short.
fn room_wait(record: &LockRecord, limit: Limit, longest: Duration) -> Option<RoomWait> {
    let has_lock = |slot: &&Slot| slot.lease.session_alive == Some(true);
    let without_lock = record.slots.iter().filter(|slot| !has_lock(slot));
    let limit = without_lock.map(|slot| slot.limit).fold(limit, Limit::min);
    let with_lock = record.slots.iter().filter(has_lock).count();
    let [holders, without_lock] = [record.slots.len(), record.slots.len() - with_lock]
        .map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    let holder = match record.slots.as_slice() {
        [only] => only.lease.owner_id,
        _ => None,
    };
    let longest = match without_lock {
        0 => longest,
        // Their releases and renewals end no wait.
        _ => longest.min(LONGEST_PAUSE),
    };
    let held_for = record.slots.iter().map(|slot| slot.lease.held_for);
    let is_possible = with_lock > 0 && limit.allows(u64::from(without_lock) + 1);
    (is_possible && longest >= RETRY_DELAY).then_some(RoomWait {
        holder,
        holders,
        without_lock,
        limit,
        held_for: held_for.min().unwrap_or_default(),
        longest,
        fenced: record.fenced,
    })
}

/// Returns the tokens of the leases in slots whose sessions have lost their holder locks.
fn without_lock(record: &LockRecord) -> Vec<Token> {
    let slots = record.slots.iter();
    let without = slots.filter(|slot| slot.lease.session_alive == Some(false));
    without.map(|slot| slot.lease.version.token).collect()
}
