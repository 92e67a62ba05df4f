//! Acquiring a lease: which request to send when, and when to give up. A pure state machine without a clock or I/O.
//!
//! The caller calls [`Acquire::next`], carries out the result, and passes every response to
//! [`Acquire::handle_response`]. A contender that is not granted the lease at once inserts a queue entry
//! and waits for the queue lock, the named lock that the holder has: the server wakes the waiters one by one,
//! in order of arrival, and they send nothing until then. A waiter that has the queue lock but finds the row
//! held (its holder lost its session, or died) is the queue head: it keeps the queue lock and watches the row.
//! If the queue lock does not work, waiters poll the row instead, in order of their queue entries.
//!
//! - `queue`: decides the next request from the row and the queue
//! - `confirm`: decides when a grant counts, and what to release in the end
//! - `failure`: handles failures; `limits`: when to give up; `backoff`: pauses and the rate limit

mod backoff;
mod confirm;
mod failure;
mod lease;
mod limits;
mod queue;

use std::time::Duration;

use self::backoff::{Backoff, LONGEST_PAUSE};
pub use self::lease::AcquiredLease;
use crate::lease::instant::BootInstant;
use crate::lease::timing::Timing;
use crate::lease::{Grant, OwnerId, Token};
use crate::store::takeover::Observation;
use crate::store::{
    AcquireMode, AcquireRequest, Failure, LockRecord, QueueEntry, QueueLock, ReleaseRequest,
    Request, Response, Success, TimedResponse, WaitRequest,
};

/// Wait of the first queue entry from which on the next wait also prunes dead queue entries.
///
/// After such a wait, a waiter may be dead without being noticed. The check costs the server milliseconds, and
/// MySQL a file that it must truncate when the session ends: too expensive for a queue that moves.
const LONG_WAIT: Duration = Duration::from_secs(10);

/// Time limits of an acquisition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WaitLimits {
    /// Maximum time to wait, from the server's first response on. None waits forever.
    pub wait: Option<Duration>,
    /// Maximum time to that first response, and to the confirmation of a grant. At least one attempt is
    /// always sent.
    pub connect: Duration,
}

/// The next step of the caller.
#[derive(Debug)]
pub enum NextRequest {
    /// Send this request and pass back exactly one response.
    Send(Request),
    /// Send nothing before this instant, unless an event arrives.
    Wait(BootInstant),
    /// This process holds the lease.
    Granted(AcquiredLease),
    /// No lease is needed: this success makes the run unnecessary.
    AlreadyDone(Success),
    /// The wait limit is over. Contains the row as last read, and when it was read.
    HeldByOther(Box<LockRecord>, BootInstant),
    /// The server did not respond in time. Contains the last failure, if there was one.
    Unreachable(Option<Failure>),
    /// The server refuses permanently; a retry would not help.
    Refused(Failure),
}

/// The phase of the acquisition: the next request to send, or the result.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum AcquirePhase {
    /// Try to acquire the lease.
    TryAcquire(AcquireMode),
    /// Read the row and the queue, as the queue head or without a queue lock.
    Get,
    /// Insert the queue entry, or refresh it.
    Enqueue,
    /// Insert the queue entry, wait for the queue lock, then try to acquire the lease.
    WaitTurn,
    /// The row has this owner id, but the time of the grant is unknown: renew before the command starts.
    Confirm {
        token: Token,
        since: BootInstant,
        /// The earliest instant at which that lease may end.
        until: BootInstant,
    },
    /// The row has this owner id and this token, but the lease is unusable: an operator has revoked it, or it may
    /// have expired. Free the row. The request names the token because the server may receive it again when this
    /// process holds a later lease.
    FreeOwnRecord(Token),
    Acquired(AcquiredLease),
    Done(Success),
    Refused(Failure),
}

/// The state of this contender's queue entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum OwnEntry {
    None,
    /// The entry may exist, but does not name the current session.
    Outdated,
    /// The entry has named the current session since this instant.
    Current(BootInstant),
}

/// The row and the queue as last read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct LastObserved {
    row: LockRecord,
    at: BootInstant,
    /// Number of waiters ahead of this one.
    ahead: u64,
    /// Time that the first queue entry had waited.
    head_waiting_for: Duration,
}

/// One process's acquisition of one action.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Acquire {
    owner_id: OwnerId,
    timing: Timing,
    limits: WaitLimits,
    started: BootInstant,
    /// Instant of the server's first response. None before it.
    first_response: Option<BootInstant>,
    /// True if the server once refused a connection because it had too many.
    was_full: bool,
    queue_lock: QueueLock,
    phase: AcquirePhase,
    /// True while a request waits for its response.
    in_flight: bool,
    next_at: BootInstant,
    backoff: Backoff,
    /// Consecutive attempts on a row that could be acquired.
    consecutive_tries: u32,
    /// Consecutive reads that found an unexpected owner of the queue lock.
    queue_lock_anomalies: u32,
    /// Consecutive waits that ended without the queue lock.
    failed_waits: u32,
    observation: Option<Observation>,
    observed: Option<LastObserved>,
    entry: OwnEntry,
    /// Without a queue lock, the instant since which the row could have been acquired.
    free_since: Option<BootInstant>,
    failure: Option<Failure>,
    /// Send time of the first attempt with an unknown outcome. None if there is no such attempt.
    unknown_since: Option<BootInstant>,
}

impl Acquire {
    /// Creates an acquisition that starts at `now`.
    #[must_use]
    pub fn new(owner_id: OwnerId, timing: Timing, limits: WaitLimits, now: BootInstant) -> Self {
        Self {
            owner_id,
            timing,
            limits,
            started: now,
            first_response: None,
            was_full: false,
            queue_lock: QueueLock::Available,
            phase: AcquirePhase::TryAcquire(AcquireMode::First),
            in_flight: false,
            next_at: now,
            backoff: Backoff::default(),
            consecutive_tries: 0,
            queue_lock_anomalies: 0,
            failed_waits: 0,
            observation: None,
            observed: None,
            entry: OwnEntry::None,
            free_since: None,
            failure: None,
            unknown_since: None,
        }
    }

    /// Returns the next step at `now`.
    pub fn next(&mut self, now: BootInstant) -> NextRequest {
        match &self.phase {
            AcquirePhase::Acquired(lease) => return NextRequest::Granted(*lease),
            AcquirePhase::Done(success) => return NextRequest::AlreadyDone(success.clone()),
            AcquirePhase::Refused(failure) => return NextRequest::Refused(failure.clone()),
            AcquirePhase::Confirm { token, until, .. } if now >= *until && !self.in_flight => {
                self.phase = AcquirePhase::FreeOwnRecord(*token);
            }
            _ => {}
        }
        let limit = self.limit();
        if limit.is_some_and(|limit| now >= limit) {
            return self.give_up();
        }
        let at_most = |instant: BootInstant| limit.map_or(instant, |limit| instant.min(limit));
        if self.in_flight {
            // Only the response or the limit ends this wait; the caller limits its own sleep.
            return NextRequest::Wait(at_most(now + LONGEST_PAUSE));
        }
        let cost = packets(&self.phase);
        let earliest = self.next_at.max(self.backoff.earliest(cost));
        if now < earliest {
            return NextRequest::Wait(at_most(earliest));
        }
        self.in_flight = true;
        self.backoff.sent(now, cost);
        let left = limit.map(|limit| limit.since(now));
        NextRequest::Send(self.request(left))
    }

    fn give_up(&mut self) -> NextRequest {
        let has_own_record = matches!(
            self.phase,
            AcquirePhase::Confirm { .. } | AcquirePhase::FreeOwnRecord(_)
        );
        match self.observed.take().filter(|_| !has_own_record) {
            Some(last) => NextRequest::HeldByOther(Box::new(last.row), last.at),
            None => NextRequest::Unreachable(self.failure.take()),
        }
    }

    fn request(&mut self, left: Option<Duration>) -> Request {
        let entry = QueueEntry {
            owner_id: self.owner_id,
            queue_lock: self.queue_lock,
        };
        if matches!(self.phase, AcquirePhase::Enqueue | AcquirePhase::WaitTurn) {
            self.entry = OwnEntry::Outdated;
        }
        match self.phase {
            AcquirePhase::TryAcquire(mode) => Request::TryAcquire(AcquireRequest {
                owner_id: self.owner_id,
                mode,
                queue_lock: self.queue_lock,
            }),
            AcquirePhase::Enqueue => Request::Enqueue(entry),
            AcquirePhase::WaitTurn => Request::WaitTurn(WaitRequest {
                owner_id: self.owner_id,
                limit: self.wait_turn_limit(left),
                prune_dead: (self.observed.as_ref())
                    .is_some_and(|last| last.head_waiting_for >= LONG_WAIT),
            }),
            AcquirePhase::Confirm { token, .. } => {
                Request::Renew(self.grant(token), self.queue_lock)
            }
            AcquirePhase::FreeOwnRecord(token) => Request::Release(ReleaseRequest {
                token: Some(token),
                has_entry: false,
                // A queue lock that this session owns is kept, and with it the turn.
                queue_lock: QueueLock::Unavailable,
                ..self.release_everything()
            }),
            AcquirePhase::Get
            | AcquirePhase::Acquired(_)
            | AcquirePhase::Done(_)
            | AcquirePhase::Refused(_) => Request::GetWithQueue(entry),
        }
    }

    const fn grant(&self, token: Token) -> Grant {
        Grant {
            owner_id: self.owner_id,
            token,
        }
    }

    /// Handles the response to the request in flight.
    pub fn handle_response(&mut self, now: BootInstant, response: &TimedResponse) {
        self.in_flight = false;
        self.next_at = now;
        if response.outcome.is_ok() {
            self.first_response.get_or_insert(now);
            if self.failure.take().is_some() {
                self.backoff.recover();
            }
        }
        match &response.outcome {
            Ok(Response::Granted(token)) => self.granted(now, *token, response.sent),
            Ok(Response::AlreadyHeld(token)) => self.confirm(now, *token),
            Ok(Response::Renewed) => self.confirmed(now, response.sent),
            Ok(
                Response::Lost(row) | Response::NotAcquired(row, _) | Response::Enqueued(row, _),
            ) if row.owner_id == Some(self.owner_id) => {
                // The row has this owner id, but the lease is unusable: an operator has revoked it.
                self.phase = AcquirePhase::FreeOwnRecord(row.version.token);
            }
            Ok(Response::NotAcquired(row, queue)) => {
                self.observe(now, response.received, row, queue);
            }
            Ok(Response::Enqueued(row, queue)) => {
                self.entry = OwnEntry::Current(now);
                self.observe(now, response.received, row, queue);
            }
            Ok(Response::AlreadyDone(success)) => self.phase = AcquirePhase::Done(success.clone()),
            Ok(Response::WaitEnded) => self.wait_ended(now),
            Ok(Response::Lost(_)) => self.phase = AcquirePhase::TryAcquire(AcquireMode::IfFree),
            Ok(Response::Released | Response::ReleasedUnrecorded(_) | Response::NotHolder(_)) => {
                self.unknown_since = None;
                self.phase = AcquirePhase::TryAcquire(AcquireMode::IfFree);
            }
            // Responses to requests that an acquisition does not send.
            Ok(Response::Record(_) | Response::HandedOff) => {}
            Err(failure) => self.failed(now, response, failure),
        }
    }

    /// Handles a connection that the server closed while no request was in flight: the queue lock is lost, and
    /// the queue entry does not name the next session.
    pub fn disconnected(&mut self) {
        if let OwnEntry::Current(_) = self.entry {
            self.entry = OwnEntry::Outdated;
        }
    }

    /// Returns whether the queue lock is in use.
    #[must_use]
    pub const fn queue_lock(&self) -> QueueLock {
        self.queue_lock
    }

    /// Returns the row as last read while another contender holds it, and the number of waiters that were ahead.
    /// None before the first read.
    #[must_use]
    pub fn observed(&self) -> Option<(&LockRecord, u64)> {
        self.observed.as_ref().map(|last| (&last.row, last.ahead))
    }

    /// Removes history: counts and start times of tries, and values that are only displayed.
    ///
    /// Two acquisitions that are equal after this call behave the same from `now` on, except for the length of
    /// pauses. The protocol model needs this to recognise a state that it has visited.
    pub fn normalize_for_model(&mut self, now: BootInstant) {
        let past = BootInstant::new(Duration::ZERO);
        self.backoff = Backoff::default();
        if self.next_at <= now {
            self.next_at = past;
        }
        if let Some(observation) = &mut self.observation
            && now >= observation.stale_at()
        {
            observation.since = past;
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
        if self.queue_lock == QueueLock::Available {
            if let OwnEntry::Current(since) = &mut self.entry {
                *since = past;
            }
            if let Some(last) = &mut self.observed {
                last.ahead = 0;
            }
        }
        if (self.first_response.is_some() || self.was_full) && self.limits.wait.is_none() {
            (self.started, self.first_response) = (past, Some(past));
            (self.observed, self.failure) = (None, None);
        }
    }
}

/// Returns the maximum number of packets that the request of a phase sends. The first request of a process and an
/// occasional pruning of the queue may send more.
const fn packets(phase: &AcquirePhase) -> usize {
    match phase {
        // The statement and a read; the release, and the statement that frees a revoked row.
        AcquirePhase::TryAcquire(_) | AcquirePhase::FreeOwnRecord(_) => 2,
        // The wait, the statement and a read.
        AcquirePhase::WaitTurn => 3,
        _ => 1,
    }
}

#[cfg(test)]
mod tests;
