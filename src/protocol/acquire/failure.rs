//! Handles failed requests: decides whether the acquisition continues, which request it sends next,
//! and when.

use std::time::Duration;

use super::backoff::RETRY_DELAY;
use super::limits::FINAL_TRY;
use super::queue_lock::Reaction;
use super::{Acquire, AcquirePhase, OwnEntry};
use crate::lease::instant::BootInstant;
use crate::store::{AcquireMode, Failure, FailureKind, TimedResponse};

/// Longest pause after a failure, before the jitter is applied. dlock normally reconnects to a restarted server within
/// about this time.
const LONGEST_RETRY: Duration = Duration::from_secs(2);

impl Acquire {
    pub(super) fn failed(&mut self, now: BootInstant, response: &TimedResponse, failure: &Failure) {
        // dlock closes the connection after every failure. Therefore this process no longer owns the queue lock, and
        // the session in the queue entry ends.
        self.disconnected();
        self.backoff.consecutive_tries = 0;
        if response.could_grant {
            self.unknown_since.get_or_insert(response.sent);
        }
        if !self.refused_or_kept(now, response, failure) {
            self.try_again(now, failure);
        }
    }

    /// Handles a failure that ends the wait or concerns the queue lock. Returns true if nothing else has to be done.
    fn refused_or_kept(
        &mut self,
        now: BootInstant,
        response: &TimedResponse,
        failure: &Failure,
    ) -> bool {
        let is_cut = self.phase.is_wait() && failure.kind == FailureKind::Unknown;
        let waited = is_cut.then(|| response.received.since(response.sent));
        self.queue_lock.connection_lost(waited);
        match failure.kind {
            FailureKind::LoginRefused if self.time.has_response() => {}
            FailureKind::LoginRefused
            | FailureKind::Denied
            | FailureKind::Config
            | FailureKind::SharedSessions => {
                self.phase = AcquirePhase::Refused(failure.clone());
                return true;
            }
            FailureKind::NoQueueLock if self.queue_lock.is_available() => {
                if let Reaction::TryAgain(pause) = self.queue_lock.refused() {
                    self.backoff.next_at = now + pause;
                }
                if matches!(
                    self.phase,
                    AcquirePhase::Get
                        | AcquirePhase::WaitTurn { .. }
                        | AcquirePhase::WaitRoom(_)
                        | AcquirePhase::Enqueue
                ) {
                    self.phase = AcquirePhase::TryAcquire(AcquireMode::IfFree);
                }
                return true;
            }
            FailureKind::TooManyConnections => self.time.was_full = true,
            _ => {}
        }
        false
    }

    /// Chooses the next request after a failure, and its pause.
    fn try_again(&mut self, now: BootInstant, failure: &Failure) {
        match self.phase {
            // The tables do not exist, for example because they were dropped. An attempt creates them.
            _ if failure.kind == FailureKind::NoTables => {
                self.phase = AcquirePhase::TryAcquire(AcquireMode::First);
            }
            AcquirePhase::Get
            | AcquirePhase::WaitTurn { .. }
            | AcquirePhase::WaitRoom(_)
            | AcquirePhase::Enqueue
                if self.unknown_since.is_none() && self.place.entry != OwnEntry::None =>
            {
                self.phase = AcquirePhase::Get;
            }
            // An earlier attempt with an unknown outcome may have been granted the lease. Only a new attempt can detect
            // that grant.
            AcquirePhase::Get
            | AcquirePhase::WaitTurn { .. }
            | AcquirePhase::WaitRoom(_)
            | AcquirePhase::Enqueue
            | AcquirePhase::TryAcquire(AcquireMode::TakeOver { .. }) => {
                self.phase = AcquirePhase::TryAcquire(AcquireMode::IfFree);
            }
            _ => {}
        }
        let pause = match failure.kind {
            FailureKind::Conflict => RETRY_DELAY,
            _ => self.backoff.next_pause(self.owner_id, LONGEST_RETRY),
        };
        self.backoff.next_at = now + pause;
        self.failure = Some(failure.clone());
        // Before the first response, the last attempt starts shortly before the limit.
        if !self.time.has_response()
            && let Some(limit) = self.limit()
            && now < limit - FINAL_TRY
        {
            self.backoff.next_at = self.backoff.next_at.min(limit - FINAL_TRY);
        }
    }
}
