//! Data read from the server: the record of an action, the state of its queue, and the waiters.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use strum::Display;

use super::connected::SkippedHost;
use super::contender::Holder;
use super::history::HistoryOutcome;
use super::session::SessionNote;
use super::session_states::SessionStates;
use crate::lease::action::Action;
use crate::lease::limit::Limit;
use crate::lease::once::OnceKey;
use crate::lease::{Grant, OwnerId, Token};
use crate::mutant::{self, Safeguard};

/// Record of an action as read from the server. The server computes all ages and remaining times.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LockRecord {
    /// Name of the lock.
    pub action: Action,
    /// True if the tables contain the action. dlock creates the row of an action before the first grant, and only
    /// `dlock prune` deletes it.
    pub is_known: bool,
    /// Reason why the row cannot be read, because dlock did not write it. The other fields are then those of an action that
    /// was never held. None if the row can be read.
    pub odd: Option<String>,
    /// The present lease or, if the action is free, the most recent one.
    pub lease: Lease,
    /// The leases in slots, in the order of their numbers. Empty unless [`Self::is_shared`], or if the request does not read
    /// them.
    pub slots: Vec<Slot>,
    /// True if each grant of the action has to advance the fence.
    pub fenced: bool,
    /// The most recent completed run. None if it is not in the history, or if the request does not read the history.
    pub last: Option<LastRun>,
    /// Pause during which the action is not granted. None if the action is not paused. Boxed like the next two fields,
    /// because they are rare and `dlock serve` keeps the records of thousands of actions.
    pub pause: Option<Box<Pause>>,
    /// Operator and reason of the latest operator request. None if there was no operator request.
    pub operator: Option<Box<Operator>>,
    /// Sessions on the server that the holder, or an earlier holder, has noted. None if there are none.
    pub sessions: Option<Box<SessionNote>>,
    /// True if slots that nobody holds may contain such notes, so the holder in this record has to read the slots.
    pub may_have_noted_slots: bool,
    /// The latest keys under which successes are recorded, at most three. Empty if the request does not look for them.
    pub done_keys: Vec<OnceKey>,
    /// Action that the holder, or a dlock in its command, waits for. None if there is none, or if the request does not look
    /// for it.
    pub waits_for: Option<Action>,
    /// Action that the holder's command waits for, and whose holder's command waits for this action: both wait for ever.
    /// None if there is none, or if the request does not look for it.
    pub deadlock_with: Option<Action>,
}

/// A lease of an action. If it has ended, the fields other than [`owner_id`](Self::owner_id) describe it as it was.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lease {
    /// Owner id of the holder. None if the action is free.
    pub owner_id: Option<OwnerId>,
    /// Token and number of renewals.
    pub version: Version,
    /// The holder, or the most recent holder if the action is free.
    pub holder: Holder,
    /// Length of the lease.
    pub ttl: Duration,
    /// Time of the latest grant by the server's clock, as RFC 3339. None if the action was never granted.
    pub acquired_at: Option<String>,
    /// Time since the latest grant.
    pub held_for: Duration,
    /// Time of the grant or the latest renewal.
    pub renewed: Renewed,
    /// Time until the lease expires, or since it expired.
    pub expiry: Expiry,
    /// Time when the lease expires, as RFC 3339, if the run has ended and the lease is held only for `--min-hold`. None
    /// in all other cases.
    pub min_hold_until: Option<String>,
    /// True if the record states that the holder's session is on the server that sent the response and has the queue
    /// lock.
    pub had_queue_lock_here: bool,
    /// True if the holder's session is alive. None if the state of the session is unknown, or if the request does not
    /// read it.
    pub session_alive: Option<bool>,
    /// Time since the lease was revoked. A revoked lease cannot be renewed. None if the lease is not revoked.
    pub revoked_ago: Option<Duration>,
}

/// A lease in a slot. Its holder accepts other holders beside it, so it is not in the record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Number of the slot, from 1. It is the smallest that was free at the grant.
    pub number: u32,
    /// The limit of the lease.
    pub limit: Limit,
    /// The lease.
    pub lease: Lease,
    /// Sessions on the server that the holder, or an earlier holder of the slot, has noted. None if there are none.
    pub sessions: Option<Box<SessionNote>>,
}

/// Time of a grant or of the latest renewal by the server's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Renewed {
    /// The given duration ago.
    Ago(Duration),
    /// The time is ahead of the server's clock by the given duration, because the clock was set back, or because a server
    /// whose clock is ahead wrote the record.
    Ahead(Duration),
}

impl Lease {
    /// Returns the state of the action as far as this lease determines it.
    #[must_use]
    pub const fn state(&self) -> LockState {
        match (&self.owner_id, self.expiry) {
            (Some(_), Expiry::In(_)) if self.revoked_ago.is_some() => LockState::Revoked,
            (Some(_), Expiry::In(_)) => LockState::Held,
            (Some(_), Expiry::Ago(_)) if self.min_hold_until.is_none() => LockState::Expired,
            (Some(_) | None, _) => LockState::Free,
        }
    }

    /// Returns the time since the grant or the latest renewal. Zero if the server's clock is behind that time.
    #[must_use]
    pub const fn renewed_ago(&self) -> Duration {
        match self.renewed {
            Renewed::Ago(ago) => ago,
            Renewed::Ahead(_) => Duration::ZERO,
        }
    }

    /// Returns the time by which the grant or the latest renewal is ahead of the server's clock. Normally zero.
    #[must_use]
    pub const fn renewed_ahead(&self) -> Duration {
        match self.renewed {
            Renewed::Ago(_) => Duration::ZERO,
            Renewed::Ahead(ahead) => ahead,
        }
    }
}

/// Version of a record. It grows with every grant, every renewal and every operator request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Token of the grant, or of a later operator request.
    pub token: Token,
    /// Number of renewals since the grant. A release with `--min-hold` counts as a renewal.
    pub renewals: u64,
}

/// Server time in a response, in microseconds since 1970-01-01 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerTime(pub u64);

/// The fields of a record that determine the holder of the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Owner id in the record. None if the action is free.
    pub owner_id: Option<OwnerId>,
    /// Token of the latest grant, or of a later operator request.
    pub token: Token,
    /// True if an operator has revoked the lease.
    pub is_revoked: bool,
}

impl Owner {
    /// Returns true if `owner_id` holds the lease: the record contains the owner id and, if `token` is not None, that
    /// token, and the lease is not revoked. No other Rust code decides whether an owner id holds a lease. The SQL
    /// contains an equivalent condition.
    #[must_use]
    pub fn is_held_by(&self, owner_id: OwnerId, token: Option<Token>) -> bool {
        let has_token = token.is_none_or(|token| self.token == token);
        mutant::is_disabled(Safeguard::ReadBack)
            || self.owner_id == Some(owner_id) && has_token && !self.is_revoked
    }
}

/// Pause of an action for maintenance.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pause {
    /// End of the pause by the server's clock, as RFC 3339.
    pub until: String,
    /// Remaining time of the pause.
    pub left: Duration,
}

/// Operator and reason of an operator request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Operator {
    /// `--holder` of `dlock release`.
    pub label: String,
    /// `--reason`. Empty if the option is not set.
    pub reason: String,
}

/// Most recent completed run of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LastRun {
    /// Token of the run.
    pub token: Token,
    /// Outcome of the run.
    pub outcome: HistoryOutcome,
    /// Exit status that dlock chose. None as in [`HistoryEntry`](super::HistoryEntry).
    pub dlock_status: Option<u8>,
    /// Time since the run ended.
    pub ago: Duration,
}

/// State of the queue of one action.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QueueState {
    /// Owner of the queue lock.
    pub lock_owner: QueueLockOwner,
    /// Number of waiters ahead of this process. If this process has no queue entry, the number of all waiters. If this
    /// process holds the lease, 0.
    pub ahead: u64,
    /// True if a waiter ahead is alive that does not wait for the queue lock of this server, because it is connected to
    /// another node of the cluster, or because it polls. The queue lock does not order this process and that waiter.
    pub is_behind_other: bool,
    /// True if an entry ahead has the mark of a waiter that waits again for the queue lock of this server, for example
    /// because it has lost its connection. The waiter may be dead.
    pub is_behind_mark: bool,
    /// Time since the first of the current waiters entered the queue. None if the queue is empty, or if the request
    /// does not read the queue.
    pub head_waiting_for: Option<Duration>,
    /// The database that sent the response. None if the request does not read it.
    pub database: Option<DatabaseId>,
}

/// Identity of the database that contains a record: of one server or, in a cluster whose nodes all certify each commit,
/// of the cluster. A commit that one database has confirmed may be missing in another database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DatabaseId(pub u64);

/// Owner of the queue lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QueueLockOwner {
    /// The session of this process owns the queue lock.
    Own,
    /// The session of the holder or of a waiter owns the queue lock, which is the normal case.
    Known,
    /// A session that belongs neither to the holder nor to a waiter owns the queue lock.
    Foreign,
    /// No session owns the queue lock.
    Free,
    /// The request does not read the owner of the queue lock.
    NotQueried,
}

/// Expiry of a lease by the server's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Expiry {
    /// The lease expires after the given duration.
    In(Duration),
    /// The lease expired the given duration ago.
    Ago(Duration),
}

/// State of an action as `status` prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display)]
#[strum(serialize_all = "lowercase")]
pub enum LockState {
    /// A holder has a live lease.
    Held,
    /// There is no lease.
    Free,
    /// The lease has expired, and its holder has not released it. The next contender takes it over as soon as the
    /// take-over rule allows it.
    Expired,
    /// An operator revoked the lease. The lease ends when the command is dead or when the lease expires.
    Revoked,
    /// There is no lease, and the action is not granted until the pause ends.
    Paused,
    /// The row cannot be read.
    Odd,
}

impl LockRecord {
    /// Returns the record of an action that was never held: free, with token 0.
    #[must_use]
    pub fn never_held(action: Action) -> Self {
        Self {
            action,
            is_known: true,
            odd: None,
            lease: Lease {
                owner_id: None,
                version: Version {
                    token: Token(0),
                    renewals: 0,
                },
                holder: Holder::default(),
                ttl: Duration::ZERO,
                acquired_at: None,
                held_for: Duration::ZERO,
                renewed: Renewed::Ago(Duration::ZERO),
                expiry: Expiry::Ago(Duration::ZERO),
                min_hold_until: None,
                had_queue_lock_here: false,
                session_alive: None,
                revoked_ago: None,
            },
            slots: Vec::new(),
            fenced: false,
            last: None,
            pause: None,
            operator: None,
            sessions: None,
            may_have_noted_slots: false,
            done_keys: Vec::new(),
            waits_for: None,
            deadlock_with: None,
        }
    }

    /// Returns the record of an action that the tables do not contain.
    #[must_use]
    pub fn unknown(action: Action) -> Self {
        Self {
            is_known: false,
            ..Self::never_held(action)
        }
    }

    /// Returns this record with a lease that `change` has changed.
    #[must_use]
    pub fn with_lease(mut self, change: impl FnOnce(&mut Lease)) -> Self {
        change(&mut self.lease);
        self
    }

    /// Returns true if the action was never granted, as far as the tables show.
    #[must_use]
    pub const fn is_unused(&self) -> bool {
        self.lease.acquired_at.is_none() && self.last.is_none()
    }

    /// Returns true if `owner_id` holds the lease of this record and, if `token` is not None, the record contains that
    /// token.
    #[must_use]
    pub fn is_held_by(&self, owner_id: OwnerId, token: Option<Token>) -> bool {
        let lease = self.own_lease(owner_id).unwrap_or(&self.lease);
        let owner = Owner {
            owner_id: lease.owner_id,
            token: lease.version.token,
            is_revoked: lease.revoked_ago.is_some(),
        };
        owner.is_held_by(owner_id, token)
    }

    /// Returns the lease with `owner_id`, in the record or in a slot. A revoked lease counts too.
    #[must_use]
    pub fn own_lease(&self, owner_id: OwnerId) -> Option<&Lease> {
        self.leases().find(|lease| lease.owner_id == Some(owner_id))
    }

    /// Returns the grant of the lease with `owner_id`. Without such a lease in a slot, it is the lease in the record.
    #[must_use]
    pub fn own_grant(&self, owner_id: OwnerId) -> Grant {
        let is_own = |slot: &&Slot| slot.lease.owner_id == Some(owner_id);
        match self.slots.iter().find(is_own) {
            Some(slot) => Grant {
                owner_id,
                token: slot.lease.version.token,
                slot: slot.number,
            },
            None => Grant::new(owner_id, self.lease.version.token),
        }
    }

    /// Returns the notes of sessions in the record and in the slots.
    pub fn notes(&self) -> impl Iterator<Item = &SessionNote> {
        let slots = self.slots.iter().flat_map(|slot| &slot.sessions);
        self.sessions.iter().chain(slots).map(AsRef::as_ref)
    }

    /// Returns the leases in slots if there may be one, otherwise the lease in the record, which may have ended.
    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        let in_record = (!self.is_shared()).then_some(&self.lease);
        in_record
            .into_iter()
            .chain(self.slots.iter().map(|slot| &slot.lease))
    }

    /// Returns the numbers of the slots with a lease, each with the token.
    #[must_use]
    pub fn slot_tokens(&self) -> Vec<(u32, Token)> {
        let slots = self.slots.iter();
        slots
            .map(|slot| (slot.number, slot.lease.version.token))
            .collect()
    }

    /// Returns the limit of the lease with `token`. A lease in the record is exclusive.
    #[must_use]
    pub fn limit_of(&self, token: Token) -> Limit {
        let slot = (self.slots.iter()).find(|slot| slot.lease.version.token == token);
        slot.map_or(Limit::ONE, |slot| slot.limit)
    }

    /// Returns the limit that decides whether one more lease is granted: the smallest one among the leases in slots. None
    /// if there is no lease in a slot.
    #[must_use]
    pub fn smallest_limit(&self) -> Option<Limit> {
        self.slots.iter().map(|slot| slot.limit).min()
    }

    /// Returns true if the leases of the action are in slots. The record stays so after the last one has ended, if its
    /// holder could not free the record.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.lease.owner_id == Some(OwnerId::SHARED)
    }

    /// Returns the lease of the leader: the exclusive lease, if it is live by the server's clock, not revoked, and not kept
    /// only by `--min-hold`.
    #[must_use]
    pub fn leader(&self) -> Option<&Lease> {
        let lease = &self.lease;
        let leads = lease.state() == LockState::Held && lease.min_hold_until.is_none();
        (leads && !self.is_shared() && self.odd.is_none()).then_some(lease)
    }

    /// Returns the state of the action. Of several leases, one that its holder may renew counts first.
    #[must_use]
    pub fn state(&self) -> LockState {
        if self.odd.is_some() {
            return LockState::Odd;
        }
        let states = [LockState::Held, LockState::Revoked, LockState::Expired];
        let is_any = |state: &LockState| self.leases().any(|lease| lease.state() == *state);
        states.into_iter().find(is_any).unwrap_or(match self.pause {
            Some(_) => LockState::Paused,
            None => LockState::Free,
        })
    }

    /// Returns true if a holder has a lease. An expired or revoked lease counts, because its command may still be
    /// running.
    #[must_use]
    pub fn is_leased(&self) -> bool {
        matches!(
            self.state(),
            LockState::Held | LockState::Expired | LockState::Revoked
        )
    }
}

/// Records and waiters that `status` shows.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Server time of the snapshot.
    pub server_time: ServerTime,
    /// Records. The server returns them sorted by the bytes of the name.
    pub locks: Vec<LockRecord>,
    /// Waiters, sorted by queue position.
    pub waiters: Vec<Waiter>,
    /// States of the sessions that the records contain.
    pub sessions: SessionStates,
    /// True if the server is read-only. It is then probably a replica, whose data may be old.
    pub is_read_only: bool,
    /// Address of the server.
    pub server: String,
    /// Hosts that dlock did not use. Empty with one host.
    pub skipped: Vec<SkippedHost>,
}

impl Snapshot {
    /// Adds the leases in slots to the records of their actions.
    pub fn add_slots(&mut self, slots: Vec<(Action, Slot)>) {
        let shared = self.locks.iter_mut().filter(|record| record.is_shared());
        let mut records: HashMap<Action, &mut LockRecord> = shared
            .map(|record| (record.action.clone(), record))
            .collect();
        for (action, slot) in slots {
            if let Some(record) = records.get_mut(&action) {
                record.slots.push(slot);
            }
        }
    }

    /// Removes the waiters of free actions whose sessions have ended: nobody waits, and their entries, which a later waiter
    /// removes, have no effect. If `only_active` is true, also removes the actions that were selected because of them.
    pub fn leave_out_dead_waiters(&mut self, only_active: bool) {
        let free: HashSet<&Action> = (self.locks.iter())
            .filter(|record| record.lease.owner_id.is_none() && record.odd.is_none())
            .map(|record| &record.action)
            .collect();
        self.waiters
            .retain(|waiter| waiter.may_be_waiting() || !free.contains(&waiter.action));
        if only_active {
            let waiting: HashSet<&Action> = self.waiters.iter().map(|it| &it.action).collect();
            self.locks.retain(|record| {
                record.state() != LockState::Free || waiting.contains(&record.action)
            });
        }
    }
}

/// A waiter in the queue of an action.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Waiter {
    /// Action that the waiter waits for.
    pub action: Action,
    /// Identity of the waiter.
    pub holder: Holder,
    /// Time since the waiter entered the queue.
    pub waiting_for: Duration,
    /// True if the waiter's session is alive. None if the state of the session is unknown.
    pub alive: Option<bool>,
}

impl Waiter {
    /// Returns true unless the waiter's session has ended. The next contender that waits removes the entry of such a
    /// waiter.
    #[must_use]
    pub fn may_be_waiting(&self) -> bool {
        self.alive != Some(false)
    }
}
