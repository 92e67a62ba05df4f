//! The leases in slots of the model's server.

use dlock::lease::limit::Limit;
use dlock::lease::{Grant, OwnerId, Token};
use dlock::store::{AcquireMode, HistoryOutcome, QueueLock, Request, Version};

use super::types::{SLOT_VIEWS, owner_id_in};
use super::{NUMBER_BYTE, Row, Rule, Rules, Server, Session, SlotView};
use crate::time::TTL;

/// The model's number of the owner id in the record while leases are in slots.
pub(crate) const SHARED: u8 = OwnerId::SHARED.bytes()[NUMBER_BYTE];

/// A row of `dlock_slot`. Its number is its position, from 1.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Slot {
    pub(crate) limit: Limit,
    pub(crate) row: Row,
}

impl Row {
    pub(crate) fn version(&self) -> Version {
        Version {
            token: Token(self.token.into()),
            renewals: self.renewals.into(),
        }
    }
}

impl Server {
    /// Sets the limit of the leases of `owner_id`. Without it, they are exclusive.
    pub(crate) fn set_limit(&mut self, owner_id: u8, limit: Limit) {
        self.limits.retain(|(other, _)| *other != owner_id);
        if !limit.is_exclusive() {
            self.limits.push((owner_id, limit));
        }
    }

    /// Sets the limit of the leases of the owner id in `request`, if it contains one.
    pub(crate) fn set_limit_of(&mut self, request: &Request, limit: Limit) {
        let owner_id = owner_id_in(request);
        if owner_id != 0 {
            self.set_limit(owner_id, limit);
        }
    }

    pub(crate) fn limit_of(&self, owner_id: u8) -> Limit {
        let found = self.limits.iter().find(|(other, _)| *other == owner_id);
        found.map_or(Limit::ONE, |(_, limit)| *limit)
    }

    /// Returns the lease of `owner_id`, in the record or in a slot. None if there is no slot with the owner id.
    pub(crate) fn lease_of(&self, owner_id: u8) -> Option<&Row> {
        match self.limit_of(owner_id).is_exclusive() {
            true => Some(&self.row),
            false => {
                (self.slots.iter().map(|slot| &slot.row)).find(|row| row.owner_id == Some(owner_id))
            }
        }
    }

    pub(super) fn lease_of_mut(&mut self, owner_id: u8) -> Option<&mut Row> {
        match self.limit_of(owner_id).is_exclusive() {
            true => Some(&mut self.row),
            false => (self.slots.iter_mut().map(|slot| &mut slot.row))
                .find(|row| row.owner_id == Some(owner_id)),
        }
    }

    /// Returns the lease of `owner_id`. None if no row contains the owner id.
    pub(crate) fn held_lease_of(&self, owner_id: u8) -> Option<&Row> {
        let lease = self.lease_of(owner_id);
        lease.filter(|row| row.owner_id == Some(owner_id))
    }

    fn held(&self) -> impl Iterator<Item = &Slot> {
        let mut slots = self.slots.iter();
        std::iter::from_fn(move || slots.find(|slot| slot.row.owner_id.is_some()))
    }

    /// Returns true if no owner id has two slots.
    pub(crate) fn has_one_slot_for_each(&self) -> bool {
        let owner_ids = || self.held().map(|slot| slot.row.owner_id);
        owner_ids().all(|owner_id| owner_ids().filter(|other| *other == owner_id).count() == 1)
    }

    /// Returns true if a slot that nobody or `owner_id` holds contains a note.
    pub(super) fn has_slot_note(&self, owner_id: u8) -> bool {
        let mut rows = self.slots.iter().map(|slot| &slot.row);
        rows.any(|row| row.note.is_some() && row.owner_id.is_none_or(|other| other == owner_id))
    }

    /// Takes the holder lock of `owner_id` if it is free and the leases of `owner_id` are not exclusive.
    pub(super) fn try_holder_lock(&mut self, owner_id: u8, session: Session) {
        let is_owned = |(other, _): &(u8, Session)| *other == owner_id;
        let is_exclusive = self.limit_of(owner_id).is_exclusive();
        if !is_exclusive && !self.holder_locks.iter().any(is_owned) {
            self.holder_locks.push((owner_id, session));
        }
    }

    /// Takes the lock that a session keeps while it has a lease of `owner_id`. Returns true if the session has it.
    pub(super) fn take_lease_lock(&mut self, owner_id: u8, session: Session) -> bool {
        if self.limit_of(owner_id).is_exclusive() {
            self.try_queue_lock(session);
            return self.queue_lock.first() == Some(&session);
        }
        self.try_holder_lock(owner_id, session);
        self.holder_locks.contains(&(owner_id, session))
    }

    /// Returns true if the limits allow one more lease with `limit`.
    fn has_room(&self, limit: Limit, rules: Rules) -> bool {
        let mut limits = self.held().map(|slot| slot.limit);
        let smallest = match rules.has(Rule::OnlyOwnLimitCounts) {
            true => limit,
            false => limits.by_ref().fold(limit, Limit::min),
        };
        smallest.allows(self.held().count() as u64 + 1)
    }

    /// Executes the conditional statements of an attempt. Returns true if the contender was granted the lease.
    pub(super) fn try_acquire(
        &mut self,
        clock: i8,
        session: Session,
        (owner_id, queue_lock): (u8, QueueLock),
        mode: AcquireMode,
        rules: Rules,
    ) -> bool {
        let limit = self.limit_of(owner_id);
        let is_exclusive = limit.is_exclusive();
        let uses_queue_lock = queue_lock == QueueLock::Available;
        if uses_queue_lock && self.queue_lock.first() != Some(&session) {
            return false;
        }
        if let AcquireMode::AmongSlots {
            dead: Some((slot, version)),
            ..
        } = mode
        {
            self.free_dead_slot(slot, version, rules);
        }
        let hand_off = self.row.owner_id.zip(self.row.session);
        // The success of a run is recorded after its hand-off.
        let by_hand_off = hand_off.is_some_and(|hand_off| self.handed_off.contains(&hand_off))
            && self.success.is_none();
        let is_shared = self.row.owner_id == Some(SHARED);
        // An exclusive contender reads only the record until it finds a shared one.
        let reads_slots = !is_exclusive || matches!(mode, AcquireMode::AmongSlots { .. });
        let is_free = self.row.owner_id.is_none() || reads_slots && is_shared;
        let is_expected = match mode {
            AcquireMode::TakeOver { version, .. } => version == self.row.version(),
            AcquireMode::AmongSlots { .. } if is_exclusive => is_free,
            AcquireMode::First | AcquireMode::IfFree | AcquireMode::AmongSlots { .. } => {
                is_free
                    || uses_queue_lock && by_hand_off
                    || rules.has(Rule::LostQueueLockIsHandOff) && self.has_lost_queue_lock()
                    || rules.has(Rule::ServerClockSuffices) && clock > self.row.expires
            }
        };
        let has_slot = !is_exclusive && self.lease_of(owner_id).is_some();
        let has_room = !reads_slots || self.has_room(limit, rules);
        if !is_expected || self.is_paused(clock) || has_slot || !has_room {
            return false;
        }
        self.end_old_holder(mode, by_hand_off);
        let token = match rules.has(Rule::SlotKeepsToken) && is_shared {
            true => self.row.token,
            false => self.next_token(),
        };
        let has_note = |slot: &Slot| slot.row.note.is_some();
        let marks_notes = reads_slots && is_exclusive && !rules.has(Rule::NotedSlotsAreNotMarked);
        let record = Row {
            paused: self.row.paused,
            note: self.row.note.filter(|_| !rules.has(Rule::GrantRemovesNote)),
            may_have_noted_slots: self.row.may_have_noted_slots
                || marks_notes && self.slots.iter().any(has_note),
            ..Row::new(token)
        };
        let lease = Row {
            owner_id: Some(owner_id),
            has_queue_lock: match is_exclusive {
                true => uses_queue_lock,
                false => self.holder_locks.contains(&(owner_id, session)),
            },
            session: Some(session),
            expires: clock + TTL.cast_signed(),
            ..Row::new(token)
        };
        if is_exclusive {
            self.row = Row {
                paused: record.paused,
                note: record.note,
                may_have_noted_slots: record.may_have_noted_slots,
                ..lease
            };
            return true;
        }
        if !rules.has(Rule::SharedRecordIsFree) {
            self.row = Row {
                owner_id: Some(SHARED),
                expires: i8::MAX,
                ..record
            };
        }
        let slot = Slot { limit, row: lease };
        let mut slots = self.slots.iter_mut();
        match slots.find(|slot| slot.row.owner_id.is_none()) {
            Some(free) => {
                let note = free.row.note.filter(|_| !rules.has(Rule::GrantRemovesNote));
                *free = slot;
                free.row.note = note;
            }
            None => self.slots.push(slot),
        }
        self.release_queue_lock(session);
        true
    }

    /// Returns true if the row states that its session has the queue lock, but that session has lost it.
    fn has_lost_queue_lock(&self) -> bool {
        let has_lock = |session| self.queue_lock.contains(&session);
        self.row.has_queue_lock && !self.row.session.is_some_and(has_lock)
    }

    /// Removes the queue entry of `owner_id` if it has a slot, as each attempt does, also one that changes nothing.
    pub(super) fn leave_queue_with_slot(&mut self, owner_id: u8) {
        if !self.limit_of(owner_id).is_exclusive() && self.lease_of(owner_id).is_some() {
            self.queue.retain(|entry| entry.owner_id != owner_id);
        }
    }

    /// Returns true if the database has lost `grant`, and its holder may write it again.
    pub(super) fn can_reassert(&self, clock: i8, grant: Grant, rules: Rules) -> bool {
        let owner_id = grant.owner_id.bytes()[NUMBER_BYTE];
        let is_older = |row: &Row| u64::from(row.token) < grant.token.0;
        let is_free = is_older(&self.row) && !self.is_paused(clock);
        if self.limit_of(owner_id).is_exclusive() {
            let is_free = is_free && self.row.owner_id.is_none();
            return is_free || rules.has(Rule::ReassertionOverwrites);
        }
        let slot = self.slots.get(index(grant.slot));
        let is_unused = |slot: &Slot| slot.row.owner_id.is_none() && is_older(&slot.row);
        is_free
            && matches!(self.row.owner_id, None | Some(SHARED))
            && slot.is_none_or(is_unused)
            && self.has_room(self.limit_of(owner_id), rules)
            && self.lease_of(owner_id).is_none()
    }

    /// Writes a lost grant again. The caller sets the session and the end of the lease.
    pub(super) fn reassert(&mut self, grant: Grant, renewals: u64) {
        let owner_id = grant.owner_id.bytes()[NUMBER_BYTE];
        let limit = self.limit_of(owner_id);
        let index = index(grant.slot);
        if !limit.is_exclusive() {
            self.row = Row {
                owner_id: Some(SHARED),
                renewals: self.row.renewals + 1,
                expires: i8::MAX,
                paused: self.row.paused,
                note: self.row.note,
                may_have_noted_slots: self.row.may_have_noted_slots,
                ..Row::new(self.row.token)
            };
            let row = Row::new(0);
            let slots = self.slots.len().max(index + 1);
            self.slots.resize(slots, Slot { limit, row });
            self.slots[index].limit = limit;
        }
        let row = match limit.is_exclusive() {
            true => &mut self.row,
            false => &mut self.slots[index].row,
        };
        row.owner_id = Some(owner_id);
        row.token = u8::try_from(grant.token.0).expect("few grants");
        row.renewals = u32::try_from(renewals).expect("a short run");
        row.revoked = false;
    }

    /// Frees the slot `number` if its lease has `version` and its session does not have the holder lock.
    fn free_dead_slot(&mut self, number: u32, version: Version, rules: Rules) {
        let holder_locks = self.holder_locks.clone();
        let Some(slot) = self.slots.get_mut(index(number)) else {
            return;
        };
        let row = &mut slot.row;
        let Some(owner_id) = row.owner_id else {
            return;
        };
        let has_lock = |session| holder_locks.contains(&(owner_id, session));
        let is_alive = row.has_queue_lock && row.session.is_some_and(has_lock);
        let is_seen = version == row.version() || rules.has(Rule::DeadSlotMayBeRenewed);
        if !is_seen || is_alive {
            return;
        }
        row.owner_id = None;
        let (token, is_revoked) = (row.token, row.revoked);
        if !is_revoked {
            self.record(token, HistoryOutcome::Lost);
        }
    }

    /// Frees the record if it is shared and no slot is held.
    pub(super) fn free_shared_record(&mut self) {
        let has_note = self.slots.iter().any(|slot| slot.row.note.is_some());
        if self.row.owner_id == Some(SHARED) && self.held().next().is_none() && !has_note {
            self.row.owner_id = None;
            let highest = self.slots.iter().map(|slot| slot.row.token).max();
            self.row.token = self.row.token.max(highest.unwrap_or(0));
        }
    }

    /// Returns the slots that are held, as a read returns them.
    pub(super) fn slot_views(
        &self,
        clock: i8,
        queue_lock: QueueLock,
    ) -> [Option<SlotView>; SLOT_VIEWS] {
        let mut views = [None; SLOT_VIEWS];
        let held = self.slots.iter().zip(1..);
        let held = held.filter(|(slot, _)| slot.row.owner_id.is_some());
        for (view, (slot, number)) in views.iter_mut().zip(held) {
            let row = &slot.row;
            let owner_id = row.owner_id.expect("the slot is held");
            let has_lock = |session| self.holder_locks.contains(&(owner_id, session));
            *view = Some(SlotView {
                number,
                limit: slot.limit,
                owner_id,
                token: row.token,
                renewals: row.renewals,
                left: row.expires - clock,
                revoked: row.revoked,
                had_lock: row.has_queue_lock,
                alive: (queue_lock == QueueLock::Available && row.has_queue_lock)
                    .then(|| row.session.is_some_and(has_lock)),
            });
        }
        views
    }
}

fn index(number: u32) -> usize {
    usize::try_from(number - 1).expect("few slots")
}
