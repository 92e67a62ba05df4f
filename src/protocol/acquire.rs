//! Acquires a lease: decides when to send which request, and when to give up. A pure state machine without a clock or
//! I/O.
//!
//! The caller calls [`Acquire::next`], carries out the result, and passes every response to
//! [`Acquire::handle_response`]. If the first attempt does not acquire the lease, the contender inserts a queue entry
//! and waits for the queue lock, the named lock that the holder keeps. The server grants the queue lock to the waiters
//! one by one, in the order in which they start to wait. A waiter that reconnects starts a new wait but keeps its queue
//! entry, and waiters with later queue entries let it pass once. A waiter sends nothing until the server grants it the queue
//! lock; the reads for reminders are not part of the acquisition. If the holder loses its session or dies, the next
//! waiter gets the queue lock but normally finds the record held. This waiter is the queue head. The queue head keeps
//! the queue lock and watches the record. If the queue lock does not work, waiters poll the record, and normally
//! acquire the lease in the order of their queue entries.
//!
//! - `queue`: decides the next request from the record and the queue; `queue_lock`: decides whether the queue lock works
//! - `confirm`: decides when a grant counts, and creates the request that releases everything when the contender gives
//!   up
//! - `failure`: handles failed requests; `limits`: computes the time limits; `backoff`: computes pauses and limits the
//!   packet rate

mod backoff;
mod confirm;
mod failure;
mod limits;
mod queue;
mod queue_lock;

use std::time::Duration;

use self::backoff::{Backoff, LONGEST_PAUSE};
pub use self::limits::WaitLimits;
use self::limits::{FinalStep, TimeLimits};
use self::queue_lock::QueueLockHealth;
use crate::lease::instant::BootInstant;
use crate::lease::limit::Limit;
use crate::lease::timing::Timing;
use crate::lease::{Grant, OwnerId, Token};
use crate::protocol::silence::SilenceLimit;
use crate::store::admission::Observations;
use crate::store::lost_grant::LostGrants;
use crate::store::{
    AcquireMode, AcquireRequest, EarlierSessions, Failure, LastRead, LockRecord, POLLER_TIMEOUT,
    QueueLock, ReleaseRequest, RenewRequest, Request, Response, RoomWait, Success, TimedResponse,
    WaitRequest,
};

/// If the contender at the head of the queue has waited at least this long, the next wait also prunes the queue entries
/// of dead sessions.
///
/// During such a long wait, a waiter may have died without being detected. The pruning takes the server several
/// milliseconds. On MySQL, the pruning also creates a file that the server must truncate when the session ends. This
/// cost is too high for a queue that moves quickly.
const LONG_WAIT: Duration = Duration::from_secs(10);

/// Time for which a waiter leaves a free record to an earlier waiter that polls or is on another node. After this time,
/// it tries to acquire the record, because it cannot quickly detect that the earlier waiter is dead.
const HEAD_PRIORITY: Duration = Duration::from_secs(3);

/// The next step for the caller.
#[derive(Debug)]
pub enum NextRequest {
    /// Send this request, then pass exactly one response to [`Acquire::handle_response`].
    Send(Request),
    /// Send nothing before this instant, unless an event arrives earlier.
    Wait(BootInstant),
    /// This process holds the lease.
    Granted(AcquiredLease),
    /// The wait has ended without a grant.
    NotGranted(NotGranted),
}

/// Why the wait for a lease has ended without a grant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum NotGranted {
    /// No lease is needed, because this success makes the run unnecessary.
    AlreadyDone(Success),
    /// The wait limit has expired. Contains the most recently read record, the instant at which it was read, and the
    /// instant until which this contender acquires nothing because the database may have lost a grant.
    HeldByOther {
        /// The most recently read record.
        record: Box<LockRecord>,
        /// Instant at which it was read.
        read_at: BootInstant,
        /// Instant until which this contender acquires nothing, because the database may have lost a grant. None if it has
        /// lost none.
        lost_until: Option<BootInstant>,
    },
    /// The server did not respond in time. Contains the latest failure. None if no request has failed since the latest
    /// response.
    Unreachable(Option<Failure>),
    /// The server refuses the request, and a retry would not help.
    Refused(Failure),
}

/// A lease that this process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AcquiredLease {
    /// The owner id and the token for renewals and the release.
    pub grant: Grant,
    /// Send time of the request that proves the grant. The deadline is measured from this instant.
    pub sent: BootInstant,
    /// Availability of the queue lock. If the queue lock is available, a renewal on a new connection acquires it again,
    /// and the release of the lease also releases the queue lock.
    pub queue_lock: QueueLock,
    /// True if the queue entry may still exist. While this process holds the lease, the entry does not count as a
    /// waiter. The release deletes the entry.
    pub has_entry: bool,
    /// Sessions of an earlier holder that may still execute statements on the server. The command must not start before
    /// they have ended.
    pub earlier_sessions: EarlierSessions,
    /// The silences after which connections have ended during the wait.
    pub silence: SilenceLimit,
}

/// The phase of the acquisition: the next request to send, or the result.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum AcquirePhase {
    /// Try to acquire the lease.
    TryAcquire(AcquireMode),
    /// Read the record and the queue, as the queue head or as a poller without a queue lock.
    Get,
    /// Insert the queue entry, or refresh it.
    Enqueue,
    /// Insert the queue entry, wait for the queue lock, then try to acquire the lease. If `lets_pass` is true, first let an
    /// earlier waiter pass that waits again.
    WaitTurn {
        lets_pass: bool,
    },
    /// As the queue head, wait on the server for room among the leases in slots, then try to acquire the lease.
    WaitRoom(RoomWait),
    /// The record has this owner id, but the time of the grant is unknown or the response arrived late. Renew the lease
    /// before the command starts.
    Confirm {
        grant: Grant,
        since: BootInstant,
        /// The `kill` of the deadline that the lease has if it was granted at the earliest possible instant.
        until: BootInstant,
    },
    /// The record has this owner id and this token, but the lease is unusable, because an operator has revoked it or
    /// because it may have expired. Free the record. The request contains the token, because the server may carry out a
    /// delayed request when this process already holds a later lease. If there is a success, it makes the run unnecessary.
    FreeOwnRecord(Token, Option<Success>),
    Acquired(AcquiredLease),
    Done(Success),
    Refused(Failure),
}

impl AcquirePhase {
    /// Returns true if the request of the phase waits on the server.
    const fn is_wait(&self) -> bool {
        matches!(self, Self::WaitTurn { .. } | Self::WaitRoom(_))
    }
}

/// The usual wait for the queue lock.
const WAIT: AcquirePhase = AcquirePhase::WaitTurn { lets_pass: false };

/// The state of this contender's queue entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum OwnEntry {
    None,
    /// The entry may exist, but may not name the current session.
    Outdated,
    /// The entry has named the current session since this instant.
    Current(BootInstant),
}

/// The most recently read record and queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct LastObserved {
    record: LockRecord,
    at: BootInstant,
    /// Since when the versions of the leases have been unchanged.
    observed: Observations,
    /// Tokens of the leases in slots whose sessions have lost their holder locks.
    without_lock: Vec<Token>,
    /// Number of waiters ahead of this contender.
    ahead: u64,
    /// Time for which the contender at the head of the queue had waited. Zero if the queue was empty.
    head_waiting_for: Duration,
}

/// The place of this contender in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Place {
    entry: OwnEntry,
    /// Position of the latest waiter that this contender has let pass. Zero if there is none.
    let_pass: u64,
    /// Instant since which this contender leaves the record, which can be acquired, to an earlier waiter that the queue
    /// lock does not order. None if there is no such waiter, or if the record cannot be acquired.
    free_since: Option<BootInstant>,
}

/// The acquisition of one action by one process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Acquire {
    owner_id: OwnerId,
    timing: Timing,
    /// The limit of the lease.
    limit: Limit,
    time: TimeLimits,
    queue_lock: QueueLockHealth,
    phase: AcquirePhase,
    /// True after a request is returned to the caller, until its response is handled.
    in_flight: bool,
    backoff: Backoff,
    place: Place,
    observed: Option<LastObserved>,
    lost_grants: LostGrants,
    /// Failure of the latest request. None if it has succeeded.
    failure: Option<Failure>,
    /// Send time of the first attempt with an unknown outcome. None if the outcome of every attempt is known.
    unknown_since: Option<BootInstant>,
}

impl Acquire {
    /// Creates an acquisition of a lease with `limit` that starts at `now`.
    #[must_use]
    pub fn new(
        owner_id: OwnerId,
        timing: Timing,
        limit: Limit,
        limits: WaitLimits,
        now: BootInstant,
    ) -> Self {
        Self {
            owner_id,
            timing,
            limit,
            time: TimeLimits::new(limits, now),
            queue_lock: QueueLockHealth::new(),
            phase: AcquirePhase::TryAcquire(AcquireMode::First),
            in_flight: false,
            backoff: Backoff::new(now),
            place: Place {
                entry: OwnEntry::None,
                let_pass: 0,
                free_since: None,
            },
            observed: None,
            lost_grants: LostGrants::new(timing.ttl),
            failure: None,
            unknown_since: None,
        }
    }

    /// Returns the instant from which the limits of the acquisition are measured.
    #[must_use]
    pub const fn started(&self) -> BootInstant {
        self.time.started()
    }

    /// Returns the next step at `now`.
    pub fn next(&mut self, now: BootInstant) -> NextRequest {
        match &self.phase {
            AcquirePhase::Acquired(lease) => return NextRequest::Granted(*lease),
            AcquirePhase::Done(success) => {
                return NextRequest::NotGranted(NotGranted::AlreadyDone(success.clone()));
            }
            AcquirePhase::Refused(failure) => {
                return NextRequest::NotGranted(NotGranted::Refused(failure.clone()));
            }
            AcquirePhase::Confirm { grant, until, .. } if now >= *until && !self.in_flight => {
                self.phase = AcquirePhase::FreeOwnRecord(grant.token, None);
            }
            _ => {}
        }
        let limit = self.limit();
        if limit.is_some_and(|limit| now >= limit) {
            return NextRequest::NotGranted(self.give_up(now));
        }
        let at_most = |instant: BootInstant| limit.map_or(instant, |limit| instant.min(limit));
        if self.in_flight {
            // Only the response or the time limit ends this wait. The caller also limits its own sleep.
            return NextRequest::Wait(at_most(now + LONGEST_PAUSE));
        }
        if let AcquirePhase::TryAcquire(_) = self.phase
            && self.lost_grants.live_until(now).is_some()
        {
            self.phase = AcquirePhase::Get;
        }
        let cost = packets(&self.phase);
        let earliest = self.backoff.earliest(cost);
        if now < earliest {
            return NextRequest::Wait(at_most(earliest));
        }
        self.in_flight = true;
        self.backoff.sent(now, cost);
        let left = limit.map(|limit| limit.since(now));
        NextRequest::Send(self.request(now, left))
    }

    /// Returns the instant at which to give up. None if no limit applies in the current phase.
    fn limit(&self) -> Option<BootInstant> {
        let step = match self.phase {
            AcquirePhase::Confirm { since, .. } => FinalStep::Confirm { since },
            AcquirePhase::TryAcquire(_) | AcquirePhase::FreeOwnRecord(..) => FinalStep::Attempt,
            _ => FinalStep::None,
        };
        let has_failed = self.failure.is_some();
        self.time
            .limit(step, has_failed, self.timing.request_timeout)
    }

    fn give_up(&mut self, now: BootInstant) -> NotGranted {
        let has_own_record = matches!(
            self.phase,
            AcquirePhase::Confirm { .. } | AcquirePhase::FreeOwnRecord(..)
        );
        match self.observed.take().filter(|_| !has_own_record) {
            Some(last) => NotGranted::HeldByOther {
                record: Box::new(last.record),
                read_at: last.at,
                lost_until: self.lost_grant_until(now),
            },
            None => NotGranted::Unreachable(self.failure.take()),
        }
    }

    fn request(&mut self, now: BootInstant, left: Option<Duration>) -> Request {
        let entry = self.queue_entry();
        if matches!(
            self.phase,
            AcquirePhase::Enqueue | AcquirePhase::WaitTurn { .. }
        ) {
            self.place.entry = OwnEntry::Outdated;
        }
        match self.phase {
            AcquirePhase::TryAcquire(mode) => Request::TryAcquire(AcquireRequest {
                owner_id: self.owner_id,
                mode,
                queue_lock: self.queue_lock(),
                last_read: self.lost_grants.last_read(),
                // Any other attempt follows a read of the queue immediately.
                in_order: self.queue_lock.is_available()
                    && matches!(mode, AcquireMode::First | AcquireMode::IfFree)
                    && !self.is_left_free(now),
                prune_dead: mode != AcquireMode::IfFree,
            }),
            AcquirePhase::Enqueue => Request::Enqueue(entry),
            AcquirePhase::WaitTurn { lets_pass } => {
                let limit = self.wait_turn_limit(left);
                Request::WaitTurn(self.wait(now, limit, None, lets_pass))
            }
            AcquirePhase::WaitRoom(room) => {
                let limits = [left, Some(room.longest), self.queue_lock.longest_wait()];
                let limit = limits.into_iter().flatten().min();
                Request::WaitTurn(self.wait(now, limit, Some(room), false))
            }
            AcquirePhase::Confirm { grant, .. } => {
                Request::Renew(RenewRequest::new(grant, self.queue_lock()))
            }
            AcquirePhase::FreeOwnRecord(token, ref done) => Request::Release(ReleaseRequest {
                token: Some(token),
                has_entry: false,
                // A contender that tries again keeps its queue lock, so it stays the queue head.
                queue_lock: match done {
                    Some(_) => self.queue_lock(),
                    None => QueueLock::Unavailable,
                },
                ..self.release_everything()
            }),
            AcquirePhase::Get
            | AcquirePhase::Acquired(_)
            | AcquirePhase::Done(_)
            | AcquirePhase::Refused(_) => Request::GetWithQueue(entry),
        }
    }

    fn wait(
        &self,
        now: BootInstant,
        limit: Option<Duration>,
        room: Option<RoomWait>,
        lets_pass: bool,
    ) -> WaitRequest {
        let head_waiting_for = self.observed.as_ref().map(|last| last.head_waiting_for);
        WaitRequest {
            owner_id: self.owner_id,
            limit,
            room,
            prune_dead: room.is_none() && head_waiting_for.is_some_and(|time| time >= LONG_WAIT),
            lets_pass,
            let_pass: self.place.let_pass,
            may_acquire: self.lost_grants.live_until(now).is_none(),
            last_read: self.lost_grants.last_read(),
        }
    }

    const fn grant(&self, token: Token, slot: u32) -> Grant {
        Grant {
            owner_id: self.owner_id,
            token,
            slot,
        }
    }

    /// Handles the response to the request in flight.
    pub fn handle_response(&mut self, now: BootInstant, response: &TimedResponse) {
        let times = (response.sent, response.received);
        self.in_flight = false;
        self.backoff.next_at = now;
        if response.outcome.is_ok() {
            self.time.responded(now);
            if self.failure.take().is_some() {
                self.backoff.recover();
            }
        }
        match &response.outcome {
            Ok(Response::Granted(token, slot, sessions)) => {
                let grant = self.grant(*token, *slot);
                self.granted(now, grant, *sessions, response.sent);
            }
            Ok(Response::AlreadyHeld(token, slot)) => {
                let grant = self.grant(*token, *slot);
                self.confirm(now, grant);
            }
            Ok(Response::Renewed(_)) => self.confirmed(now, response.sent),
            Ok(
                Response::Lost(record)
                | Response::NotAcquired(record, _)
                | Response::Enqueued(record, _),
            ) if record.own_lease(self.owner_id).is_some() => {
                let own = record.own_grant(self.owner_id);
                match record.is_held_by(self.owner_id, None) {
                    true => self.confirm(now, own),
                    // The lease is unusable, because an operator has revoked it.
                    false => self.phase = AcquirePhase::FreeOwnRecord(own.token, None),
                }
            }
            Ok(Response::NotAcquired(record, queue)) => {
                self.observe(now, times, record, queue);
            }
            Ok(Response::Enqueued(record, queue)) => {
                self.place.entry = OwnEntry::Current(now);
                self.observe(now, times, record, queue);
            }
            Ok(Response::AlreadyDone(success)) => self.phase = AcquirePhase::Done(success.clone()),
            Ok(Response::HeldThoughDone(token, success)) => {
                self.phase = AcquirePhase::FreeOwnRecord(*token, Some(success.clone()));
            }
            Ok(Response::WaitEnded | Response::WaitSliced) if self.is_slice(response) => {}
            Ok(Response::WaitEnded | Response::WaitSliced) => self.wait_ended(now),
            Ok(Response::HasLetPass(position)) => {
                self.place.let_pass = *position;
                self.phase = WAIT;
                self.backoff.has_let_pass();
            }
            Ok(Response::Lost(_)) => self.phase = AcquirePhase::TryAcquire(AcquireMode::IfFree),
            Ok(Response::Released | Response::NotHolder(_)) => self.own_record_freed(),
            // An acquisition does not send the requests to which these responses belong.
            Ok(
                Response::Record(_)
                | Response::Note(_)
                | Response::NoteRemoved
                | Response::HandedOff
                | Response::Sessions(_),
            ) => {}
            Err(failure) => self.failed(now, response, failure),
        }
    }

    fn own_record_freed(&mut self) {
        self.unknown_since = None;
        let try_again = AcquirePhase::TryAcquire(AcquireMode::IfFree);
        let before = std::mem::replace(&mut self.phase, try_again);
        if let AcquirePhase::FreeOwnRecord(token, done) = before {
            self.lost_grants.add_spent(token);
            if let Some(success) = done {
                self.phase = AcquirePhase::Done(success);
            }
        }
    }

    /// Handles the response to a read on another connection.
    pub fn handle_read(&mut self, response: &TimedResponse) {
        if let Ok(Response::NotAcquired(record, queue)) = &response.outcome
            && record.own_lease(self.owner_id).is_none()
        {
            self.lost_grants
                .observe_elsewhere(response.received, record, queue.database);
        }
    }

    /// Handles a connection that the server closed while no request was in flight. This process no longer owns the
    /// queue lock, and the queue entry still names the session that has ended.
    pub fn disconnected(&mut self) {
        if let OwnEntry::Current(_) = self.place.entry {
            self.place.entry = OwnEntry::Outdated;
        }
    }

    /// Handles a grant on a server to which the address does not lead any more. The contender then frees its record, if the
    /// server of the address has it, and tries again there.
    pub fn address_moved(&mut self) {
        if let AcquirePhase::Acquired(lease) = self.phase {
            self.disconnected();
            self.phase = AcquirePhase::FreeOwnRecord(lease.grant.token, None);
        }
    }

    /// Returns true while a wait on the server is in flight. Its duration depends on the queue and the holders.
    #[must_use]
    pub const fn is_waiting_turn(&self) -> bool {
        self.in_flight && self.phase.is_wait()
    }

    /// Returns the availability of the queue lock for this acquisition.
    #[must_use]
    pub const fn queue_lock(&self) -> QueueLock {
        self.queue_lock.state()
    }

    /// If the queue lock is unavailable, returns true if this contender tries it again later. The reason is then that a
    /// foreign session has kept the queue lock for too long.
    #[must_use]
    pub fn retries_queue_lock(&self) -> bool {
        self.queue_lock.is_tried_again()
    }

    /// Returns the silences after which connections have ended.
    #[must_use]
    pub const fn silence(&self) -> SilenceLimit {
        self.queue_lock.silence()
    }

    /// Returns the most recently read record, the number of waiters that were ahead of this contender, and the instant at
    /// which they were read. None before the first read.
    #[must_use]
    pub fn observed(&self) -> Option<(&LockRecord, u64, BootInstant)> {
        self.observed
            .as_ref()
            .map(|last| (&last.record, last.ahead, last.at))
    }

    /// Returns the database and the version that this contender has read last. None before the first read.
    #[must_use]
    pub fn last_read(&self) -> Option<LastRead> {
        self.lost_grants.last_read()
    }

    /// Returns the time until which this contender acquires nothing, because the database may have lost a grant. None if
    /// there is no such time, or if it has passed.
    #[must_use]
    pub fn lost_grant_until(&self, now: BootInstant) -> Option<BootInstant> {
        self.lost_grants.live_until(now)
    }

    /// Removes the history of the acquisition: counts and start times of attempts, and values that are only displayed.
    ///
    /// Two acquisitions that are equal after this call behave identically from `now` on, except for the length of
    /// pauses. The protocol model calls this method to recognise a state that it has already visited.
    pub fn normalize_for_model(&mut self, now: BootInstant) {
        let past = BootInstant::new(Duration::ZERO);
        self.backoff.normalize_for_model(now);
        self.queue_lock.normalize_for_model(now);
        self.lost_grants.normalize_for_model(now);
        if let Some(last) = &mut self.observed {
            last.observed.normalize_for_model(now);
        }
        if let Some(since) = &mut self.unknown_since
            && now >= self.timing.deadline(*since).kill
        {
            *since = past;
        }
        if let AcquirePhase::Confirm { since, until, .. } = &mut self.phase {
            *since = past;
            if now >= *until {
                *until = past;
            }
        }
        if let OwnEntry::Current(since) = &mut self.place.entry
            && now.since(*since) >= POLLER_TIMEOUT / 3
        {
            *since = past;
        }
        if let Some(since) = &mut self.place.free_since
            && now.since(*since) >= HEAD_PRIORITY
        {
            *since = past;
        }
        if self.queue_lock.is_available()
            && let Some(last) = &mut self.observed
        {
            last.ahead = 0;
        }
        if self.time.normalize_for_model() {
            self.failure = None;
            if let Some(last) = &mut self.observed {
                last.record = LockRecord::never_held(last.record.action.clone());
                (last.at, last.ahead, last.head_waiting_for) = (past, 0, Duration::ZERO);
            }
        }
    }
}

/// Returns the maximum number of packets that the request of a phase sends. The first request of a process, and a wait
/// that prunes the queue, may send more packets.
const fn packets(phase: &AcquirePhase) -> usize {
    match phase {
        // An attempt sends the statement and a read. A release sends the release and the statement that frees a revoked
        // record.
        AcquirePhase::TryAcquire(_) | AcquirePhase::FreeOwnRecord(..) => 2,
        // This request sends the wait, the statement of the attempt and a read.
        AcquirePhase::WaitTurn { .. } => 3,
        // A wait for room sends as many, but it ends when a holder has left, and all waiters wait for its attempt.
        _ => 1,
    }
}

#[cfg(test)]
mod tests;
