//! Renews a lease: decides when the next renewal is due, and handles its response. Pure, without a clock or I/O.
//!
//! The deadline moves only when dlock has read the record and found the lease renewed. The new deadline is measured
//! from the instant immediately before the renewal is sent. If the record no longer belongs to this process, no further
//! renewal is sent. If a renewal fails for any other reason, it is tried again until the command has to be stopped.
//!
//! If the database has lost the grant, as after a fail-over to an older replica, the next renewal writes the grant again,
//! provided that the command does not have to be stopped yet. A renewal whose response is lost may have written the grant,
//! so a plain renewal follows it.

use std::time::Duration;

use crate::lease::Grant;
use crate::lease::instant::{BootInstant, Deadline};
use crate::lease::limit::Limit;
use crate::lease::timing::Timing;
use crate::protocol::silence::SilenceLimit;
use crate::store::lost_grant::{can_reassert, has_lost};
use crate::store::session::FoundSessions;
use crate::store::{
    Failure, FailureKind, LockRecord, Loss, QueueLock, Reassertion, RenewRequest, Response,
    TimedResponse,
};

/// Longest pause before a failed renewal is tried again. After a short network fault, renewals normally continue within
/// this time.
const MAX_RETRY_DELAY: Duration = Duration::from_millis(500);

/// Shortest pause before a failed renewal is tried again. If the ttl is short and the server fails, this pause limits
/// the rate to 10 renewals per second.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Maximum number of consecutive refusals of named locks. After more refusals, named locks count as broken.
const MAX_REFUSALS: u32 = 1;

/// When a grant is written again, its number of renewals is set to this number plus one for each millisecond since the
/// grant. The result is larger than each earlier number of renewals, because the holder renews much less often, even if
/// it also needed renewals to confirm the grant.
const REASSERTED_RENEWALS: u64 = 1000;

/// The renewals of one grant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Renewals {
    grant: Grant,
    limit: Limit,
    queue_lock: QueueLock,
    timing: Timing,
    deadline: Deadline,
    /// Instant at which the next renewal is due. None while a renewal is in flight, and after the loss of the lease is
    /// detected.
    next_at: Option<BootInstant>,
    /// Send time of the request that proves the grant.
    granted: BootInstant,
    reasserting: Reasserting,
    /// Send time of the most recent renewal, or of the request that proves the grant.
    last_sent: BootInstant,
    /// The state of the heartbeat since the most recent renewal was sent.
    liveness: Liveness,
    silence: SilenceLimit,
    /// Number of consecutive renewals in which the server refused named locks.
    refusals: u32,
    /// True if no command runs under the lease: it has not started yet, or its whole tree is dead.
    is_without_command: bool,
}

/// Whether renewals write the grant again, because the database has lost it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Reasserting {
    /// The most recent renewal was a plain one, and so is the next one.
    No,
    /// The next renewal writes the grant, and advances the fence if `fenced` is true.
    Next { fenced: bool },
    /// The most recent renewal tried to write the grant. The next one is a plain one.
    Tried,
}

/// The proof that the command is alive. The heartbeat that permitted a failed renewal also permits the next renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Liveness {
    /// No heartbeat is required. The command counts as alive while it runs.
    NotRequired,
    /// A heartbeat has arrived since the most recent renewal was sent.
    Proven,
    /// No heartbeat has arrived since the most recent renewal was sent.
    Pending,
}

/// The result of a renewal.
#[derive(Debug)]
pub enum RenewalOutcome {
    /// The lease is renewed. Contains its new deadline, and the result of the look for sessions if the renewal asked for
    /// one.
    Renewed(Deadline, Option<Box<Result<FoundSessions, Failure>>>),
    /// This process no longer holds the lease. Contains the reason and the record that dlock read.
    Lost(Loss, Box<LockRecord>),
    /// The database has lost the grant. The next renewal writes the grant again unless the command has to be stopped.
    GrantLost {
        /// False if the renewal was already an attempt to write the grant again.
        is_first: bool,
    },
    /// The renewal failed, or its outcome is unknown. It is tried again unless the command has to be stopped.
    Failed(Failure),
}

impl Renewals {
    /// Creates the renewals of a grant of a lease with `limit`.
    ///
    /// `sent` is the send time of the request that proves the grant. If `queue_lock` is available, a renewal on a new
    /// connection also acquires the queue lock. If `liveness` is pending, the lease is renewed only after
    /// [heartbeats](Self::record_heartbeat).
    #[must_use]
    pub fn new(
        (grant, limit): (Grant, Limit),
        queue_lock: QueueLock,
        timing: Timing,
        sent: BootInstant,
        liveness: Liveness,
    ) -> Self {
        Self {
            grant,
            limit,
            queue_lock,
            timing,
            deadline: timing.deadline(sent),
            next_at: Some(sent + timing.renew_interval),
            granted: sent,
            reasserting: Reasserting::No,
            last_sent: sent,
            liveness,
            silence: SilenceLimit::default(),
            refusals: 0,
            is_without_command: false,
        }
    }

    /// Creates the renewals of a lease with `deadline` that is not renewed any more. None is due.
    #[must_use]
    pub fn stopped(grant: Grant, timing: Timing, deadline: Deadline) -> Self {
        let (queue_lock, liveness) = (QueueLock::Unavailable, Liveness::NotRequired);
        Self {
            deadline,
            next_at: None,
            ..Self::new(
                (grant, Limit::ONE),
                queue_lock,
                timing,
                deadline.kill,
                liveness,
            )
        }
    }

    /// Returns the owner id and the token of the lease.
    #[must_use]
    pub const fn grant(&self) -> Grant {
        self.grant
    }

    /// Returns the availability of the queue lock, which renewals turn off if the server refuses named locks.
    #[must_use]
    pub const fn queue_lock(&self) -> QueueLock {
        self.queue_lock
    }

    /// Makes renewals so frequent that a connection is not silent for longer than `silence` allows.
    pub fn limit_silence(&mut self, silence: SilenceLimit) {
        self.silence = silence;
        let next = self.last_sent + self.interval();
        self.next_at = self.next_at.map(|at| at.min(next));
    }

    /// Returns the time from the start of one renewal to the start of the next one.
    fn interval(&self) -> Duration {
        let longest = self.silence.longest_silence();
        longest.map_or(self.timing.renew_interval, |longest| {
            longest.min(self.timing.renew_interval)
        })
    }

    /// Handles the end of a connection between two renewals. The next renewal is due soon, as after
    /// [`expedite`](Self::expedite). Returns the limit if something ends connections that are silent for that time, and
    /// this was not known.
    pub fn disconnected(&mut self, now: BootInstant) -> Option<Duration> {
        self.expedite(now);
        self.silence.ended_after(now.since(self.last_sent))
    }

    /// Renews the lease even after its deadline and without heartbeats, because no command runs under it.
    pub fn continue_without_command(&mut self) {
        self.is_without_command = true;
        self.liveness = Liveness::NotRequired;
    }

    /// Renews the lease only before its deadline from now on, because work starts under it. If `liveness` is pending, only after
    /// [heartbeats](Self::record_heartbeat).
    pub const fn start_command(&mut self, liveness: Liveness) {
        self.is_without_command = false;
        self.liveness = liveness;
    }

    /// Returns true from the start of the work until its whole tree is dead.
    #[must_use]
    pub const fn has_command(&self) -> bool {
        !self.is_without_command
    }

    /// Makes the next renewal due soon, so that it notes a new session of the command. A renewal that follows the
    /// previous one too closely waits for the shortest pause.
    pub fn expedite_note(&mut self, now: BootInstant) {
        let soon = now.max(self.last_sent + MIN_RETRY_DELAY);
        self.next_at = self.next_at.map(|next| next.min(soon));
    }

    /// Records a heartbeat from the command.
    pub fn record_heartbeat(&mut self) {
        if self.liveness == Liveness::Pending {
            self.liveness = Liveness::Proven;
        }
    }

    /// Makes the next renewal due soon. Call this method when the connection has ended. The renewal reads the record
    /// and acquires the queue lock again. At least the pause of a failed renewal passes between two renewals, because a
    /// device on the network path may close every new connection.
    pub fn expedite(&mut self, now: BootInstant) {
        let soon = now.max(self.last_sent + self.retry_delay());
        self.next_at = self.next_at.map(|next| next.min(soon));
    }

    fn retry_delay(&self) -> Duration {
        MAX_RETRY_DELAY
            .min(self.timing.renew_interval / 4)
            .max(MIN_RETRY_DELAY)
    }

    /// Returns true if a missing heartbeat prevents the next renewal.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.liveness == Liveness::Pending && self.next_at.is_some()
    }

    /// Returns the instants at which the command receives the stop signal and SIGKILL unless the lease is renewed.
    #[must_use]
    pub const fn deadline(&self) -> Deadline {
        self.deadline
    }

    /// Returns the renewal to send at `now`. None if no renewal is due, if a required heartbeat is missing, or if the
    /// command has to be stopped. In the last case, a renewal would extend the lease of a command that is being
    /// stopped.
    pub fn due(&mut self, now: BootInstant) -> Option<RenewRequest> {
        let is_due = self.next_at.is_some_and(|next| now >= next);
        let is_late = now >= self.deadline.term;
        let is_stopping = !self.is_without_command && is_late;
        if !is_due || self.liveness == Liveness::Pending || is_stopping {
            return None;
        }
        self.next_at = None;
        self.last_sent = now;
        if self.liveness == Liveness::Proven {
            self.liveness = Liveness::Pending;
        }
        let (after, reassertion) = match self.reasserting {
            Reasserting::Next { fenced } if !is_late => {
                let renewals = millis(now.since(self.granted)).saturating_add(REASSERTED_RENEWALS);
                (Reasserting::Tried, Some(Reassertion { renewals, fenced }))
            }
            _ => (Reasserting::No, None),
        };
        self.reasserting = after;
        Some(RenewRequest {
            reassertion,
            ..RenewRequest::new(self.grant, self.queue_lock)
        })
    }

    /// Returns the instant at which the next renewal is due. None while a renewal is in flight, and after the loss of
    /// the lease is detected.
    #[must_use]
    pub const fn wake_at(&self) -> Option<BootInstant> {
        self.next_at
    }

    /// Handles the response to the renewal in flight.
    pub fn handle_response(&mut self, now: BootInstant, response: TimedResponse) -> RenewalOutcome {
        match response.outcome {
            Ok(Response::Renewed(look)) => {
                self.refusals = 0;
                self.deadline = self.deadline.max(self.timing.deadline(response.sent));
                self.next_at = Some(response.sent + self.interval());
                RenewalOutcome::Renewed(self.deadline, look)
            }
            Ok(Response::Lost(record))
                if can_reassert(&record, self.grant, self.limit) && now < self.deadline.term =>
            {
                let is_first = self.reasserting != Reasserting::Tried;
                self.reasserting = Reasserting::Next {
                    fenced: record.fenced,
                };
                // If the grant was not written although the record allows it, a transaction has locked the fence.
                let pause = match is_first {
                    true => Duration::ZERO,
                    false => self.retry_delay(),
                };
                self.next_at = Some(now + pause);
                self.record_heartbeat();
                RenewalOutcome::GrantLost { is_first }
            }
            // Send no further renewal, because each response would report the loss again until the command is dead.
            Ok(Response::Lost(record)) => {
                let own = record.own_lease(self.grant.owner_id);
                let loss = match own.unwrap_or(&record.lease).revoked_ago {
                    _ if has_lost(&record, self.grant.token) => Loss::LostGrant,
                    Some(_) => Loss::Revoked,
                    None => Loss::TakenOver,
                };
                RenewalOutcome::Lost(loss, Box::new(record))
            }
            Ok(other) => self.failed(now, other.unexpected()),
            Err(failure) => self.failed(now, failure),
        }
    }

    fn failed(&mut self, now: BootInstant, failure: Failure) -> RenewalOutcome {
        // A server or a proxy may also refuse a single request.
        self.refusals = match failure.kind {
            FailureKind::NoQueueLock => self.refusals + 1,
            _ => 0,
        };
        if self.refusals > MAX_REFUSALS {
            self.queue_lock = QueueLock::Unavailable;
        }
        self.next_at = Some(now + self.retry_delay());
        // The heartbeat that permitted the failed renewal also permits the next renewal.
        self.record_heartbeat();
        RenewalOutcome::Failed(failure)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
