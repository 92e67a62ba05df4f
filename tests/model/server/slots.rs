//! The leases in slots of the model's server.

use dlock::lease::limit::Limit;
use dlock::lease::{Grant, OwnerId, Token};
use dlock::store::read_back::{NextGrant, ReleaseReadBack};
use dlock::store::{AcquireMode, HistoryOutcome, QueueLock, ReleaseRequest, Request, Version};

use super::types::{SLOT_VIEWS, owner_id_in};
use super::{NUMBER_BYTE, Row, Rules, Server, Session, SlotView};
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

    /// Removes the rows of all slots.
    pub(crate) fn forget_slots(&mut self) {
        self.slots.clear();
    }

    /// Returns true if a session has a holder lock.
    pub(crate) const fn has_holder_lock(&self) -> bool {
        !self.holder_locks.is_empty()
    }

    /// Returns the slots that are held.
    fn held(&self) -> impl Iterator<Item = &Slot> {
        let mut slots = self.slots.iter();
        std::iter::from_fn(move || slots.find(|slot| slot.row.owner_id.is_some()))
    }

    /// Returns true if no owner id has two slots.
    pub(crate) fn has_one_slot_for_each(&self) -> bool {
        let count = |owner_id| {
            self.held()
                .filter(|slot| slot.row.owner_id == owner_id)
                .count()
        };
        self.held().all(|slot| count(slot.row.owner_id) == 1)
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
        let smallest = match rules.only_own_limit_counts {
            true => limit,
            false => limits.by_ref().fold(limit, Limit::min),
        };
        smallest.allows(self.held().count() as u64 + 1)
    }

    /// Executes the attempt of a contender whose limit is not 1, or of one that finds a shared record. Returns true if it
    /// was granted the lease.
    pub(super) fn admit(
        &mut self,
        clock: i8,
        session: Session,
        (owner_id, queue_lock): (u8, QueueLock),
        mode: AcquireMode,
        rules: Rules,
    ) -> bool {
        let limit = self.limit_of(owner_id);
        let has_queue_lock = self.queue_lock.first() == Some(&session);
        if queue_lock == QueueLock::Available && !has_queue_lock {
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
        let by_hand_off = hand_off.is_some_and(|hand_off| self.handed_off.contains(&hand_off));
        let is_shared = self.row.owner_id == Some(SHARED);
        let is_expected = match mode {
            AcquireMode::TakeOver { version, .. } => version == self.row.version(),
            AcquireMode::AmongSlots { .. } if limit.is_exclusive() => {
                self.row.owner_id.is_none() || is_shared
            }
            AcquireMode::First | AcquireMode::IfFree | AcquireMode::AmongSlots { .. } => {
                let accepts_hand_off = queue_lock == QueueLock::Available && by_hand_off;
                self.row.owner_id.is_none() || is_shared || accepts_hand_off
            }
        };
        let is_paused = self.is_paused(clock);
        let has_slot = !limit.is_exclusive() && self.lease_of(owner_id).is_some();
        let is_refused = is_paused || has_slot || !self.has_room(limit, rules);
        if !is_expected || is_refused {
            return false;
        }
        self.end_old_holder(mode, by_hand_off);
        let has_holder_lock = self.holder_locks.contains(&(owner_id, session));
        let token = match rules.slot_keeps_token && is_shared {
            true => self.row.token,
            false => self.next_token(),
        };
        let lease = Row {
            owner_id: Some(owner_id),
            token,
            renewals: 0,
            has_queue_lock: match limit.is_exclusive() {
                true => queue_lock == QueueLock::Available,
                false => has_holder_lock,
            },
            session: Some(session),
            expires: clock + TTL.cast_signed(),
            revoked: false,
            paused: None,
            note: None,
            may_have_noted_slots: false,
        };
        let may_have_noted_slots = self.row.may_have_noted_slots
            || limit.is_exclusive()
                && !rules.noted_slots_are_not_marked
                && self.slots.iter().any(|slot| slot.row.note.is_some());
        if limit.is_exclusive() {
            self.row = Row {
                paused: self.row.paused,
                note: self.row.note,
                may_have_noted_slots,
                ..lease
            };
            return true;
        }
        if !rules.shared_record_is_free {
            self.row = Row {
                paused: self.row.paused,
                note: self.row.note,
                may_have_noted_slots,
                owner_id: Some(SHARED),
                expires: i8::MAX,
                ..Row::new(token)
            };
        }
        let slot = Slot { limit, row: lease };
        let mut slots = self.slots.iter_mut();
        match slots.find(|slot| slot.row.owner_id.is_none()) {
            Some(free) => {
                let note = free.row.note.filter(|_| !rules.grant_removes_note);
                *free = slot;
                free.row.note = note;
            }
            None => self.slots.push(slot),
        }
        self.release_queue_lock(session);
        true
    }

    /// Removes the queue entry of `owner_id` if it has a slot, as each attempt does, also one that changes nothing.
    pub(super) fn leave_queue_with_slot(&mut self, owner_id: u8) {
        if !self.limit_of(owner_id).is_exclusive() && self.lease_of(owner_id).is_some() {
            self.queue.retain(|entry| entry.owner_id != owner_id);
        }
    }

    /// Returns true if the database has lost the grant of a slot, and its holder may write it again.
    pub(super) fn can_reassert_slot(&self, clock: i8, grant: Grant, rules: Rules) -> bool {
        let owner_id = grant.owner_id.bytes()[NUMBER_BYTE];
        let slot = self.slots.get(index(grant.slot));
        let is_unused = slot.is_none_or(|slot| {
            slot.row.owner_id.is_none() && u64::from(slot.row.token) < grant.token.0
        });
        let is_expected = matches!(self.row.owner_id, None | Some(SHARED));
        is_expected
            && is_unused
            && self.has_room(self.limit_of(owner_id), rules)
            && u64::from(self.row.token) < grant.token.0
            && self.lease_of(owner_id).is_none()
            && !self.is_paused(clock)
    }

    /// Writes a lost grant to its slot again. The caller sets the session and the end of the lease.
    pub(super) fn reassert_slot(&mut self, owner_id: u8, grant: Grant, renewals: u64) {
        let limit = self.limit_of(owner_id);
        let free = Slot {
            limit,
            row: Row::new(0),
        };
        let index = index(grant.slot);
        if self.slots.len() <= index {
            self.slots.resize(index + 1, free);
        }
        let slot = &mut self.slots[index];
        slot.limit = limit;
        slot.row = Row {
            owner_id: Some(owner_id),
            renewals: u32::try_from(renewals).expect("a short run"),
            note: slot.row.note,
            ..Row::new(u8::try_from(grant.token.0).expect("few grants"))
        };
        self.row = Row {
            owner_id: Some(SHARED),
            renewals: self.row.renewals + 1,
            expires: i8::MAX,
            paused: self.row.paused,
            note: self.row.note,
            may_have_noted_slots: self.row.may_have_noted_slots,
            ..Row::new(self.row.token)
        };
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
        let is_seen = version == row.version() || rules.dead_slot_may_be_renewed;
        if !is_seen || is_alive {
            return;
        }
        row.owner_id = None;
        let (token, is_revoked) = (row.token, row.revoked);
        if !is_revoked {
            self.record(token, HistoryOutcome::Lost);
        }
    }

    /// Executes the release of a lease in a slot. Returns the values that the release reads back.
    pub(super) fn release_slot(
        &mut self,
        clock: i8,
        session: Session,
        request: &ReleaseRequest,
        rules: Rules,
    ) -> ReleaseReadBack {
        let owner_id = request.owner_id.bytes()[NUMBER_BYTE];
        let is_named = |server: &Self| server.lease_of(owner_id).is_some();
        let is_owner = match request.token {
            Some(_) => self.is_held_by(owner_id, request.token, rules),
            None => is_named(self),
        };
        let token = (request.token)
            .and_then(|token| u8::try_from(token.0).ok())
            .filter(|_| request.run.is_some());
        if is_owner && let Some(row) = self.lease_of_mut(owner_id) {
            row.owner_id = None;
            row.expires = clock;
            row.note = row.note.filter(|_| !request.clears_sessions);
        }
        self.free_shared_record();
        let is_left = |token: &u8| self.slots.iter().any(|slot| slot.row.token == *token);
        let next = match token.is_some_and(|token| !is_left(&token)) {
            true => NextGrant::Other,
            false => NextGrant::None,
        };
        if let (Some(token), Some(run), true) = (token, request.run, is_owner) {
            self.record(token, run.outcome);
        }
        if request.queue_lock == QueueLock::Available {
            self.holder_locks.retain(|it| *it != (owner_id, session));
            self.release_queue_lock(session);
        }
        if request.has_entry {
            self.queue.retain(|entry| entry.owner_id != owner_id);
        }
        let lease = self.lease_of(owner_id);
        let is_revoked = lease.is_some_and(|row| row.revoked);
        let has_token = |row: &Row| {
            let is_same = |token: Token| token.0 == u64::from(row.token);
            request.token.is_none_or(is_same)
        };
        ReleaseReadBack {
            changed: is_owner,
            is_named: lease.is_some_and(has_token) || is_revoked,
            next,
            revoked: (lease.filter(|_| is_revoked)).map(|row| Token(row.token.into())),
            is_recorded: None,
            outcome: token.and_then(|token| self.recorded(token)),
        }
    }

    /// Frees a slot whose lease an operator has revoked. Records the run as revoked if its slot is free.
    pub(super) fn reconcile_slot(
        &mut self,
        clock: i8,
        request: &ReleaseRequest,
        revoked: Option<Token>,
    ) {
        let owner_id = request.owner_id.bytes()[NUMBER_BYTE];
        let is_revoked = |row: &&mut Row| row.revoked && revoked == Some(row.version().token);
        if let Some(row) = self.lease_of_mut(owner_id).filter(is_revoked) {
            row.owner_id = None;
            row.expires = clock;
            row.note = row.note.filter(|_| !request.clears_sessions);
        }
        let is_run = |row: &&Row| {
            request.run.is_some()
                && request.token == Some(row.version().token)
                && row.owner_id.is_none()
        };
        let mut rows = self.slots.iter().map(|slot| &slot.row);
        if let Some(token) = rows.find(is_run).map(|row| row.token) {
            self.record(token, HistoryOutcome::Revoked);
        }
        self.free_shared_record();
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

/// Returns the position of the slot `number`.
fn index(number: u32) -> usize {
    usize::try_from(number - 1).expect("few slots")
}
