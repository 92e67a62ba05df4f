//! Releases a lease: hand-off, release, and retries. A pure state machine without a clock or I/O.
//!
//! The release and the next grant are two commits. If a contender is likely to be waiting, dlock normally sends a
//! hand-off before the release. The hand-off shows the next contender that the command is dead, so a hand-over waits
//! for one commit instead of two. The release follows a few milliseconds later and records the run, even if the record
//! already belongs to the next holder.
//!
//! A release that finds no lease is followed by a renewal, which changes nothing if the lease is lost. Its response tells
//! whether the database has lost the grant. A node of a cluster that lags may have answered the release, and then the
//! release is tried again.

use std::time::Duration;

use crate::lease::instant::BootInstant;
use crate::lease::{Grant, Token};
use crate::mutant::{self, Safeguard};
use crate::store::lost_grant::has_lost;
use crate::store::{
    Failure, FailureKind, Loss, QueueLock, ReleaseRequest, RenewRequest, Request, Response,
    RunHistory, TimedResponse,
};

/// Pause between a hand-off and the release. During this pause, the next contender can take over the record.
///
/// If there were no pause, the release would lock the record and use the disk when the next contender needs both. That
/// contender's attempt normally arrives about 0.3 ms after the hand-off. If the attempt arrives after the release, the
/// attempt finds the record free.
const HANDOFF_TIME: Duration = Duration::from_millis(5);

/// Pause before a failed release is tried again. The pause is long enough for a server to recover from a short fault,
/// and short enough for many tries within the time limit of the release.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// The next step for the caller.
#[derive(Debug)]
pub enum ReleaseStep {
    /// Send this request, then pass exactly one response to [`Releasing::handle_response`].
    Send(Request),
    /// End the earlier request, which is still in flight.
    Interrupt,
    /// Send nothing before this instant.
    Wait(BootInstant),
    /// The release has ended with this result.
    Finished(Released),
    /// The time limit has passed. Contains the most recent failure of a release request.
    GivenUp(Option<Failure>),
}

/// The time limits of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReleaseLimits {
    /// Instant at which the release is given up.
    pub until: BootInstant,
    /// Instant from which the caller can give up the release earlier.
    pub persists_until: BootInstant,
    /// Instant at which an earlier request, which is still in flight, is interrupted. None if it is not.
    pub interrupt_at: Option<BootInstant>,
}

impl ReleaseLimits {
    /// Returns the limits of a release that is given up at `until`.
    #[must_use]
    pub const fn until(until: BootInstant) -> Self {
        Self {
            until,
            persists_until: until,
            interrupt_at: None,
        }
    }
}

/// The result of a release.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Released {
    /// The lease is released, or held only for `--min-hold`. The run is recorded if the request contained one.
    Recorded,
    /// The lease is released, or held only for `--min-hold`, but the history could not be written.
    Unrecorded(Failure),
    /// This process no longer held the lease, and no success was recorded.
    NotHolder(Loss),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum ReleasePhase {
    HandOff,
    Release,
    /// The release has found no lease. A renewal tells whether the database has lost the grant, or had not applied it yet.
    CheckLoss,
    Over(Released),
}

/// The state of one release.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Releasing {
    request: ReleaseRequest,
    phase: ReleasePhase,
    in_flight: bool,
    next_at: BootInstant,
    /// True if an earlier release request was sent and failed, so its outcome is unknown.
    is_unknown: bool,
    failure: Option<Failure>,
    /// The result if the release has found no lease and nothing better becomes known. None if it has not.
    no_lease: Option<Released>,
    /// The failure because of which the history is not written. None if it is written.
    unrecorded: Option<Failure>,
    limits: ReleaseLimits,
}

impl Releasing {
    /// Creates a release that sends `request` within `limits`. If `hand_off` is true, a hand-off precedes the request, provided that
    /// the queue lock is available and that the request frees the record immediately and records a run.
    #[must_use]
    pub fn new(
        request: ReleaseRequest,
        hand_off: bool,
        limits: ReleaseLimits,
        now: BootInstant,
    ) -> Self {
        let is_plain = request.token.is_some() && request.run.is_some() && request.keep.is_none();
        let has_queue_lock = matches!(request.queue_lock, QueueLock::Available);
        Self {
            request,
            phase: match hand_off
                && is_plain
                && has_queue_lock
                && !mutant::is_disabled(Safeguard::HandOff)
            {
                true => ReleasePhase::HandOff,
                false => ReleasePhase::Release,
            },
            in_flight: false,
            next_at: now,
            is_unknown: false,
            failure: None,
            no_lease: None,
            unrecorded: None,
            limits,
        }
    }

    /// Returns the next step at `now`. `is_open` is true while any request is in flight.
    pub fn next(&mut self, now: BootInstant, is_open: bool) -> ReleaseStep {
        let until = self.limits.until;
        if let ReleasePhase::Over(released) = &self.phase {
            return ReleaseStep::Finished(released.clone());
        }
        if now >= until {
            return match &self.no_lease {
                Some(released) => ReleaseStep::Finished(released.clone()),
                None => ReleaseStep::GivenUp(self.failure.clone()),
            };
        }
        if self.in_flight {
            return ReleaseStep::Wait(until);
        }
        if is_open {
            return match self.limits.interrupt_at {
                Some(at) if now >= at => {
                    self.limits.interrupt_at = None;
                    ReleaseStep::Interrupt
                }
                at => ReleaseStep::Wait(at.map_or(until, |at| at.min(until))),
            };
        }
        if now < self.next_at {
            return ReleaseStep::Wait(self.next_at.min(until));
        }
        self.in_flight = true;
        ReleaseStep::Send(match (&self.phase, self.request.token) {
            (ReleasePhase::HandOff, Some(token)) => {
                let owner_id = self.request.owner_id;
                Request::HandOff(Grant::new(owner_id, token))
            }
            (ReleasePhase::CheckLoss, Some(token)) => {
                let owner_id = self.request.owner_id;
                let grant = Grant::new(owner_id, token);
                Request::Renew(RenewRequest::new(grant, QueueLock::Unavailable))
            }
            _ => Request::Release(self.request),
        })
    }

    /// Handles the response to the request in flight.
    pub fn handle_response(&mut self, now: BootInstant, response: &TimedResponse) {
        self.in_flight = false;
        self.next_at = now;
        match (&self.phase, &response.outcome) {
            (ReleasePhase::HandOff, outcome) => {
                self.phase = ReleasePhase::Release;
                // Even after a failure, another contender may have received the hand-off.
                self.request.handed_off = !matches!(outcome, Ok(Response::NotHolder(_)));
                if let Ok(Response::HandedOff) = outcome {
                    self.next_at = now + HANDOFF_TIME;
                }
            }
            (_, Ok(Response::Released)) => {
                self.phase = ReleasePhase::Over(match self.unrecorded.take() {
                    Some(failure) => Released::Unrecorded(failure),
                    None => Released::Recorded,
                });
            }
            (ReleasePhase::CheckLoss, outcome) => self.loss_checked(now, outcome),
            (_, Ok(Response::NotHolder(loss))) => self.found_no_lease(*loss),
            (_, Ok(_)) => {}
            (_, Err(failure)) => {
                self.is_unknown |= response.could_release;
                let is_refused =
                    matches!(failure.kind, FailureKind::Denied | FailureKind::NoTables);
                let has_history =
                    self.request.run.is_some() && self.request.history == RunHistory::Written;
                if is_refused && has_history {
                    // The account may be able to release the lease, but not to write the history.
                    self.request.history = RunHistory::Skipped;
                    self.unrecorded = Some(failure.clone());
                    return;
                }
                if failure.kind == FailureKind::NoQueueLock {
                    // The error has ended the session, and with it the queue lock.
                    self.request.queue_lock = QueueLock::Unavailable;
                }
                self.failed(now, failure);
            }
        }
    }

    /// Handles a release that has found no lease, with the reason if it is known.
    fn found_no_lease(&mut self, loss: Option<Loss>) {
        // A later release may fail, which must not hide that this one has found no lease.
        let released = match self.no_lease.take() {
            Some(earlier) => earlier,
            None => self.not_holder(loss),
        };
        if self.request.token.is_none() || loss == Some(Loss::Revoked) {
            self.phase = ReleasePhase::Over(released);
        } else {
            self.phase = ReleasePhase::CheckLoss;
            self.no_lease = Some(released);
        }
    }

    /// Handles the response to the renewal after a release that has found no lease.
    fn loss_checked(&mut self, now: BootInstant, outcome: &Result<Response, Failure>) {
        let next = match outcome {
            Ok(Response::Lost(record)) => {
                let is_lost_grant =
                    (self.request.token).is_some_and(|token| has_lost(record, token));
                ReleasePhase::Over(match (is_lost_grant, self.no_lease.take()) {
                    (false, Some(released)) => released,
                    (false, None) => Released::NotHolder(Loss::TakenOver),
                    (true, _) => Released::NotHolder(Loss::LostGrant),
                })
            }
            // The server had not applied the grant when it sent the response to the release.
            Ok(_) => {
                self.no_lease = None;
                self.next_at = now + RETRY_DELAY;
                ReleasePhase::Release
            }
            Err(failure) => {
                self.failed(now, failure);
                ReleasePhase::Release
            }
        };
        self.phase = next;
    }

    fn failed(&mut self, now: BootInstant, failure: &Failure) {
        self.failure = Some(failure.clone());
        self.next_at = now + RETRY_DELAY;
    }

    /// Returns the result of a release that has found no lease, with the reason if it is known.
    fn not_holder(&self, loss: Option<Loss>) -> Released {
        match loss {
            // An earlier release request released the lease, but its response was lost.
            None if self.is_unknown => Released::Recorded,
            loss => Released::NotHolder(loss.unwrap_or(Loss::TakenOver)),
        }
    }

    /// Gives up, unless the release must still be tried.
    pub fn give_up(&mut self, now: BootInstant) {
        if now > self.limits.persists_until {
            self.limits.until = self.limits.until.min(now);
        }
    }

    /// Handles a connection that the server closed. If the hand-off was sent and no release request has failed, the
    /// release follows immediately.
    pub fn disconnected(&mut self, now: BootInstant) {
        if self.request.handed_off && self.failure.is_none() {
            self.next_at = self.next_at.min(now);
        }
    }

    /// Returns the token of the lease. None if the request releases any lease of the owner id.
    #[must_use]
    pub const fn token(&self) -> Option<Token> {
        self.request.token
    }

    /// Removes history that does not affect the behaviour from `now` on. The protocol model calls this method to
    /// recognise a state that it has already visited.
    pub fn normalize_for_model(&mut self, now: BootInstant) {
        if self.next_at <= now {
            self.next_at = BootInstant::new(Duration::ZERO);
        }
        self.failure = None;
    }
}

#[cfg(test)]
mod tests;
