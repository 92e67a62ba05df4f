//! The queue lock and the queue of the model's server.

use dlock::store::{QueueLock, QueueLockOwner};

use super::{Rule, Rules, Server, Session, WaiterEntry};

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

    /// Inserts or updates the entry of `owner_id`.
    pub(super) fn enqueue(
        &mut self,
        clock: i8,
        session: Session,
        owner_id: u8,
        queue_lock: QueueLock,
    ) {
        let last = self.queue.last().map_or(0, |entry| entry.position);
        let mut entries = self.queue.iter_mut();
        let old = entries.find(|entry| entry.owner_id == owner_id);
        let entry = WaiterEntry {
            position: old.as_ref().map_or(last + 1, |old| old.position),
            owner_id,
            since: old.as_ref().map_or(clock, |old| old.since),
            session: Some(session),
            last_poll: (queue_lock == QueueLock::Unavailable).then_some(clock),
            waits_again: old.as_ref().is_some_and(|old| old.waits_again),
        };
        match old {
            Some(old) => *old = entry,
            None => self.queue.push(entry),
        }
    }

    /// Inserts or updates the entry of `owner_id` for a new wait for the queue lock, and marks an old entry. Changes no
    /// entry if the wait of `session` only goes on, because the server executed the INSERT when the wait began.
    pub(super) fn enqueue_and_mark(
        &mut self,
        clock: i8,
        session: Session,
        owner_id: u8,
        rules: Rules,
    ) {
        if self.waiting.contains(&session) {
            self.waiting.retain(|other| *other != session);
            return;
        }
        let mut entries = self.queue.iter_mut();
        if let Some(entry) = entries.find(|entry| entry.owner_id == owner_id) {
            entry.waits_again |= !rules.has(Rule::MarksAreMissing);
        }
        self.enqueue(clock, session, owner_id, QueueLock::Available);
    }

    /// Returns true if a live poller came before `owner_id`.
    pub(super) fn is_behind_other(&self, clock: i8, owner_id: u8) -> bool {
        self.waiters_before(Some(owner_id))
            .any(|entry| entry.is_live_poller(clock))
    }

    pub(super) fn has_live_poller(&self, clock: i8) -> bool {
        self.waiters_before(None)
            .any(|entry| entry.is_live_poller(clock))
    }

    /// Adds `session` to the line for the queue lock unless it is there. Returns None if it now waits.
    pub(super) fn wait_in_line(&mut self, session: Session) -> Option<()> {
        if !self.queue_lock.contains(&session) {
            self.queue_lock.push(session);
        }
        if self.queue_lock.first() == Some(&session) {
            return Some(());
        }
        self.waiting.push(session);
        None
    }

    /// Returns the position of the waiter that `session` has let pass in its present request. None if there is none.
    pub(super) fn take_passed(&mut self, session: Session) -> Option<u8> {
        let mut passing = self.passing.iter();
        let index = passing.position(|(other, _)| *other == session)?;
        Some(self.passing.remove(index).1)
    }

    /// Returns true if an entry with a mark came a tick before `owner_id`, at a later position than `let_pass`.
    pub(super) fn is_behind_mark(&self, owner_id: u8, let_pass: u64) -> bool {
        self.earlier_waiters(owner_id)
            .any(|entry| entry.is_marked(let_pass))
    }

    /// Releases the queue lock if a waiter with a session and a mark came a tick before `owner_id`, at a later position
    /// than `let_pass`. Returns the position of that waiter.
    pub(super) fn let_earlier_waiter_pass(
        &mut self,
        session: Session,
        owner_id: u8,
        let_pass: u64,
        rules: Rules,
    ) -> Option<u8> {
        let let_pass = match rules.has(Rule::PassesAreForgotten) {
            true => 0,
            false => let_pass,
        };
        let mut before = self.earlier_waiters(owner_id);
        let position = before
            .find(|entry| entry.is_marked(let_pass) && entry.session.is_some())?
            .position;
        drop(before);
        self.has_passed_twice |= self.let_pass.contains(&(owner_id, position));
        self.let_pass.push((owner_id, position));
        self.release_queue_lock(session);
        Some(position)
    }

    /// Returns true if a waiter came a tick before `owner_id` that now waits for the queue lock, and that `owner_id` has
    /// not let pass.
    pub(super) fn is_before_a_waiting_one(&self, owner_id: u8) -> bool {
        let waits = |entry: &WaiterEntry| {
            let waits = |session| self.waiting.contains(&session);
            entry.session.is_some_and(waits) && !self.let_pass.contains(&(owner_id, entry.position))
        };
        self.earlier_waiters(owner_id).any(waits)
    }

    /// Returns the entries before the one of `owner_id` that are at least a tick older, so more than a second.
    fn earlier_waiters(&self, owner_id: u8) -> impl Iterator<Item = &WaiterEntry> {
        let own = self.queue.iter().find(|entry| entry.owner_id == owner_id);
        let since = own.map(|own| own.since);
        self.waiters_before(Some(owner_id))
            .filter(move |entry| since.is_some_and(|since| entry.since < since))
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
