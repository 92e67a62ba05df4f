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
        let before = self
            .queue
            .iter()
            .take_while(|entry| entry.owner_id != owner_id);
        let counts = |entry: &&WaiterEntry| {
            self.row.owner_id != Some(entry.owner_id) && !entry.is_expired_poller(clock)
        };
        let ahead = match self.row.owner_id {
            Some(holder) if holder == owner_id => 0,
            Some(_) | None => before.filter(counts).count(),
        };
        (lock_owner, u8::try_from(ahead).expect("a short queue"))
    }
}
