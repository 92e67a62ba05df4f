//! Decides how long a contender waits because the database may have lost a grant, and whether the holder of a lost grant
//! may write it again. Pure: reads no clock and does no I/O.
//!
//! A fail-over to a replica that lacks the latest writes, a restored backup, or a crash of a server whose commits are not
//! durable can remove a grant from the record while its holder's command runs. A contender concludes that this may have
//! happened in two cases:
//! - The record is older than the record that the contender has read before. The version of a record only grows.
//! - Another database has sent the record. A waiter that waits for the queue lock reads nothing, so it may not know the
//!   lost grant.
//!
//! In both cases, the old database had accepted its last renewal before the contender received the response. A lease
//! that the holder does not renew in the new database therefore ends at most a ttl after that response. Until then, the
//! contender acquires nothing. Afterwards, the command of the lost grant is dead, or the record contains its holder
//! again.
//!
//! A holder whose renewal reads a record with a smaller token than its own knows that the database has lost its grant. It
//! writes the grant again before its deadline, if no other process may run a command ([`can_reassert`]). Only a process
//! that has read nothing before can have been granted the lease since the loss, and the statement requires that it has not.
//!
//! A process that has read nothing before cannot notice the loss.

use std::time::Duration;

use super::admission::has_room;
use super::record::{DatabaseId, LockRecord, Slot, Version};
use super::request::LastRead;
use crate::lease::instant::BootInstant;
use crate::lease::limit::Limit;
use crate::lease::{Grant, Token};
use crate::mutant::{self, Safeguard};

/// Returns true if the database that returned `record` has lost the grant with `token`. Tokens only grow.
#[must_use]
pub const fn has_lost(record: &LockRecord, token: Token) -> bool {
    record.lease.version.token.0 < token.0
}

/// Returns true if the holder of `grant` may write the grant to `record` again: the database has lost the grant, the record
/// contains no lease under which a command may run, and the action is not paused. The statement of the
/// [`Reassertion`](super::request::Reassertion) has the same condition.
///
/// A lease with a `limit` above 1 may be written beside others in slots, if the limits allow one more and its slot is free. It
/// does not raise the token of the record. So several holders whose grants are lost may write them in any order, and none
/// of them does so after another grant. The fence of an action has the token of the record, so nothing is written again if
/// grants have to advance it.
#[must_use]
pub fn can_reassert(record: &LockRecord, grant: Grant, limit: Limit) -> bool {
    let is_unused = match record.is_shared() {
        true => {
            let is_taken = |slot: &Slot| slot.number == grant.slot;
            let is_own = record.own_lease(grant.owner_id).is_some();
            !limit.is_exclusive()
                && !is_own
                && has_room(record, limit)
                && !record.slots.iter().any(is_taken)
        }
        false => record.lease.owner_id.is_none() || record.lease.min_hold_until.is_some(),
    };
    let has_token_in_fence = record.fenced && !limit.is_exclusive();
    has_lost(record, grant.token) && is_unused && record.pause.is_none() && !has_token_in_fence
}

/// What a contender knows about grants that the database may have lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LostGrants {
    /// The database and the version of the most recent read. None before the first read.
    last_read: Option<(Option<DatabaseId>, Version)>,
    /// Time at which another connection received the most recent read. A request that was sent before this time may
    /// return an older record although the database has lost nothing. None if the acquisition's connection received it.
    read_elsewhere_at: Option<BootInstant>,
    /// The highest token that certainly does not belong to a live lease of this contender: a token in a record of
    /// another contender or of a free action, or the token of a lease that this contender has freed.
    highest_token: Token,
    /// The longest ttl that the contender knows, at least its own.
    longest_ttl: Duration,
    /// Time until which a lost lease may be live. None if the database has lost no grant, as far as is known.
    until: Option<BootInstant>,
}

impl LostGrants {
    /// Creates the state of a contender that has read nothing, and whose own leases last `ttl`.
    #[must_use]
    pub const fn new(ttl: Duration) -> Self {
        Self {
            last_read: None,
            read_elsewhere_at: None,
            highest_token: Token(0),
            longest_ttl: ttl,
            until: None,
        }
    }

    /// Handles a record of another contender or of a free action, which `database` returned on the acquisition's
    /// connection. The request was sent at the time `sent`, and the response was received at the time `received`.
    pub fn observe(
        &mut self,
        (sent, received): (BootInstant, BootInstant),
        record: &LockRecord,
        database: Option<DatabaseId>,
    ) {
        for lease in record.leases() {
            // No command runs during `--min-hold`.
            if lease.min_hold_until.is_none() {
                self.longest_ttl = self.longest_ttl.max(lease.ttl);
            }
        }
        if let Some((before, version)) = self.last_read {
            let is_elsewhere = before.zip(database).is_some_and(|(old, new)| old != new);
            let is_late = self.read_elsewhere_at.is_some_and(|at| sent < at);
            if is_elsewhere || record.lease.version < version && !is_late {
                self.suspect(received);
            } else if record.lease.version < version {
                return;
            }
        }
        let known = self.last_read.and_then(|(before, _)| before);
        self.last_read = Some((database.or(known), record.lease.version));
        self.read_elsewhere_at = None;
        self.add_spent(record.lease.version.token);
    }

    /// Handles a record of another contender or of a free action, which another connection of this process received from
    /// `database` at the time `received`. If the record is from the known database, the database has lost a grant if it
    /// returns an older record to a later request. The acquisition's connection detects a change of the database.
    pub fn observe_elsewhere(
        &mut self,
        received: BootInstant,
        record: &LockRecord,
        database: Option<DatabaseId>,
    ) {
        let is_newer = self
            .last_read
            .is_some_and(|(known, version)| known == database && version < record.lease.version);
        if is_newer {
            self.observe((received, received), record, database);
            self.read_elsewhere_at = Some(received);
        }
    }

    /// Records that the lease with `token` is not a live lease of this contender.
    pub fn add_spent(&mut self, token: Token) {
        self.highest_token = self.highest_token.max(token);
    }

    /// Handles a record with this contender's owner id and `token`, read at `now`. Returns true if the record may
    /// contain a live lease. Returns false if it contains a lease that this contender knows to have ended, because the
    /// database has lost later writes.
    pub fn is_own_lease_possible(&mut self, now: BootInstant, token: Token) -> bool {
        let is_possible = token > self.highest_token || mutant::is_disabled(Safeguard::LostGrant);
        if !is_possible {
            self.suspect(now);
        }
        is_possible
    }

    /// Treats a lost lease as live for a ttl from `received`.
    pub fn suspect(&mut self, received: BootInstant) {
        if !mutant::is_disabled(Safeguard::LostGrant) {
            self.until = Some(received + self.longest_ttl);
        }
    }

    /// Returns the time until which a lost lease may be live. None if that time has passed, or if the database has lost
    /// no grant, as far as is known.
    #[must_use]
    pub fn live_until(&self, now: BootInstant) -> Option<BootInstant> {
        self.until.filter(|until| now < *until)
    }

    /// Returns what an attempt requires. None before the first read.
    #[must_use]
    pub fn last_read(&self) -> Option<LastRead> {
        let (database, version) = self.last_read?;
        let last_read = LastRead {
            database,
            version,
            highest_token: self.highest_token,
        };
        Some(last_read).filter(|_| !mutant::is_disabled(Safeguard::LostGrant))
    }

    /// Removes state that no longer has an effect at `now`.
    pub fn normalize_for_model(&mut self, now: BootInstant) {
        self.until = self.live_until(now);
    }
}
