//! The queue lock and the queue of the model's server.

use dlock::store::{QueueLock, QueueLockOwner};

use super::{Server, Session, WaiterEntry};

impl Server {
    /// Executes `RELEASE_LOCK`. The first waiting session acquires the queue lock.
    pub(super) fn release_queue_lock(&mut self, session: Session) {
        if self.queue_lock.first() == Some(&session) {
            self.queue_lock.remove(0);
        }
    }

    /// Executes `GET_LOCK` with a timeout of 0.
    pub(super) fn try_queue_lock(&mut self, session: Session) {
        if self.queue_lock.is_empty() {
            self.queue_lock.push(session);
        }
    }

    pub(super) fn enqueue(
        &mut self,
        clock: i8,
        session: Session,
        owner_id: u8,
        queue_lock: QueueLock,
    ) {
        let entry = WaiterEntry {
            owner_id,
            session: Some(session),
            last_poll: (queue_lock == QueueLock::Unavailable).then_some(clock),
        };
        match self
            .queue
            .iter_mut()
            .find(|entry| entry.owner_id == owner_id)
        {
            Some(old) => *old = entry,
            None => self.queue.push(entry),
        }
    }

    /// Returns true if a live poller came before `owner_id`.
    pub(super) fn is_behind_other(&self, clock: i8, owner_id: u8) -> bool {
        self.waiters_before(Some(owner_id))
            .any(|entry| entry.is_live_poller(clock))
    }

    /// Returns true if there is a live poller.
    pub(super) fn has_live_poller(&self, clock: i8) -> bool {
        self.waiters_before(None)
            .any(|entry| entry.is_live_poller(clock))
    }

    /// Releases the queue lock and returns true if a waiter with a session came before `owner_id`, which has an entry.
    pub(super) fn let_earlier_waiter_pass(&mut self, session: Session, owner_id: u8) -> bool {
        let passes = |entry: &WaiterEntry| entry.last_poll.is_none() && entry.session.is_some();
        let has_let_pass = self.waiters_before(Some(owner_id)).any(passes);
        if has_let_pass {
            self.release_queue_lock(session);
        }
        has_let_pass
    }

    /// Returns the entries before the one of `owner_id`, or all entries if it has none, without the entry of the holder.
    fn waiters_before(&self, owner_id: Option<u8>) -> impl Iterator<Item = &WaiterEntry> {
        self.queue
            .iter()
            .take_while(move |entry| Some(entry.owner_id) != owner_id)
            .filter(|entry| self.row.owner_id != Some(entry.owner_id))
    }

    pub(super) fn queue_state(
        &self,
        clock: i8,
        session: Session,
        owner_id: u8,
        queue_lock: QueueLock,
    ) -> (QueueLockOwner, u8) {
        let lock_owner = match (queue_lock, self.queue_lock.first()) {
            (QueueLock::Unavailable, _) => QueueLockOwner::NotQueried,
            (QueueLock::Available, None) => QueueLockOwner::Free,
            (QueueLock::Available, Some(lock_owner)) if *lock_owner == session => {
                QueueLockOwner::Own
            }
            (QueueLock::Available, Some(lock_owner)) => {
                let holder = self.row.has_queue_lock && self.row.session == Some(*lock_owner);
                let is_of_owner = |entry: &WaiterEntry| entry.session == Some(*lock_owner);
                match holder || self.queue.iter().any(is_of_owner) {
                    true => QueueLockOwner::Known,
                    false => QueueLockOwner::Foreign,
                }
            }
        };
        let before = self.waiters_before(Some(owner_id));
        let ahead = match self.row.owner_id {
            Some(holder) if holder == owner_id => 0,
            Some(_) | None => before
                .filter(|entry| !entry.is_expired_poller(clock))
                .count(),
        };
        (lock_owner, u8::try_from(ahead).expect("a short queue"))
    }
}
