//! Decides when a contender may be granted a lease beside the leases of others, from their limits. `acquire` and the
//! model of the protocol call this code. It is pure: it reads no clock and does no I/O.
//!
//! A contender is admitted if one more lease than there are is allowed by its own limit and by the limits of all
//! holders. A lease that has expired counts until its slot is free: the attempt frees the slot of a dead holder, under
//! the [take-over rule](super::takeover). The statement of the attempt decides: it counts the leases after it has locked
//! the record, so what a contender has read is only a hint.

use std::time::Duration;

use super::record::{LockRecord, Slot, Version};
use super::takeover::{HolderSession, Observation, allowed_at, paused_for};
use crate::lease::instant::BootInstant;
use crate::lease::limit::Limit;

/// When the leases in a record had their present versions first, by the contender's clock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Observations {
    /// The lease in the record.
    pub record: Observation,
    /// The leases in slots, with the numbers of the slots.
    pub slots: Vec<(u32, Observation)>,
}

/// When an attempt may succeed, as far as a contender knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admission {
    /// The earliest instant of an attempt.
    pub at: BootInstant,
    /// The slot that this attempt has to free, and the version of its lease. None if it has to free none.
    pub dead: Option<(u32, Version)>,
}

impl Observations {
    /// Returns the observations after `record` was read at the time `received`. `before` are the previous observations, or
    /// None if this is the first read.
    #[must_use]
    pub fn next(before: Option<&Self>, received: BootInstant, record: &LockRecord) -> Self {
        let slot = |slot: &Slot| {
            let before = before.and_then(|before| before.slot(slot.number));
            let next = Observation::next(before, received, &slot.lease);
            (slot.number, next)
        };
        Self {
            record: Observation::next(before.map(|it| it.record), received, &record.lease),
            slots: record.slots.iter().map(slot).collect(),
        }
    }

    /// Returns true if a lease in a slot has an earlier version than `before`, so the database has lost writes.
    #[must_use]
    pub fn has_older_slot(&self, before: &Self) -> bool {
        self.slots.iter().any(|(number, now)| {
            let before = before.slot(*number);
            before.is_some_and(|before| now.is_older_than(&before))
        })
    }

    /// Removes the times of observations after which a lease may be taken over in any case.
    pub fn normalize_for_model(&mut self, now: BootInstant) {
        let slots = self.slots.iter_mut().map(|(_, observation)| observation);
        for observation in slots.chain([&mut self.record]) {
            if now >= observation.stale_at() {
                observation.since = BootInstant::new(Duration::ZERO);
            }
        }
    }

    fn slot(&self, number: u32) -> Option<Observation> {
        let found = self.slots.iter().find(|(other, _)| *other == number);
        found.map(|(_, observation)| *observation)
    }
}

/// Returns when a contender with `limit` may send an attempt. `record` was received at the time `received`. `session` is
/// the state of the session of the holder in the record.
#[must_use]
pub fn admission(
    received: BootInstant,
    record: &LockRecord,
    observed: &Observations,
    limit: Limit,
    session: HolderSession,
) -> Admission {
    let (at, dead) = match record.is_shared() {
        false => {
            let at = allowed_at(received, &record.lease, &observed.record, session);
            (at, None)
        }
        true if has_room(record, limit) => (received, None),
        true => first_dead(received, record, observed),
    };
    Admission {
        at: at.max(received + paused_for(record)),
        dead,
    }
}

/// Returns true if the limits allow one more lease in a slot.
pub(super) fn has_room(record: &LockRecord, limit: Limit) -> bool {
    let limits = record.slots.iter().map(|slot| slot.limit);
    let smallest = limits.fold(limit, Limit::min);
    smallest.allows(record.slots.len() as u64 + 1)
}

/// Returns the slot that may be freed first, and when.
fn first_dead(
    received: BootInstant,
    record: &LockRecord,
    observed: &Observations,
) -> (BootInstant, Option<(u32, Version)>) {
    let allowed = record.slots.iter().map(|slot| {
        let lease = &slot.lease;
        let observation = observed.slot(slot.number);
        let observation = observation.unwrap_or(Observation::next(None, received, lease));
        // The lock of the holder shows whether its session has ended.
        let session = match lease.session_alive {
            Some(false) => HolderSession::LostQueueLock,
            Some(true) | None => HolderSession::Unknown,
        };
        let at = allowed_at(received, lease, &observation, session);
        (at, Some((slot.number, lease.version)))
    });
    allowed
        .min_by_key(|(at, _)| *at)
        .unwrap_or((received, None))
}
