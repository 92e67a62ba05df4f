//! Renews a lease: decides when the next renewal is due, and handles its response. Pure, without a clock or I/O.
//!
//! The deadline moves only when dlock has read the record and found the lease renewed. The new deadline is measured
//! from the instant immediately before the renewal is sent. If the record no longer belongs to this process, no further
//! renewal is sent. If a renewal fails for any other reason, it is tried again until the command has to be stopped.

use std::time::Duration;

use crate::lease::Grant;
use crate::lease::instant::{BootInstant, Deadline};
use crate::lease::timing::Timing;
use crate::protocol::silence::SilenceLimit;
use crate::store::session::FoundSessions;
use crate::store::{
    Failure, FailureKind, LockRecord, Loss, QueueLock, RenewRequest, Response, TimedResponse,
};

/// Longest pause before a failed renewal is tried again. After a short network fault, renewals normally continue within
/// this time.
const MAX_RETRY_DELAY: Duration = Duration::from_millis(500);

/// Shortest pause before a failed renewal is tried again. If the ttl is short and the server fails, this pause limits
/// the rate to 10 renewals per second.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(100);

/// The renewals of one grant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Renewals {
    grant: Grant,
    queue_lock: QueueLock,
    timing: Timing,
    deadline: Deadline,
    /// Instant at which the next renewal is due. None while a renewal is in flight, and after the loss of the lease is
    /// detected.
    next_at: Option<BootInstant>,
    /// Send time of the most recent renewal, or of the request that proves the grant.
    last_sent: BootInstant,
    /// Send time of the most recent renewal that succeeded, or of the request that proves the grant.
    proven: BootInstant,
    /// The state of the heartbeat since the most recent renewal was sent.
    liveness: Liveness,
    silence: SilenceLimit,
    /// True if no command runs under the lease: it has not started yet, or its whole tree is dead.
    is_without_command: bool,
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
    /// The renewal failed, or its outcome is unknown. It is tried again unless the command has to be stopped.
    Failed(Failure),
}

impl Renewals {
    /// Creates the renewals of a grant.
    ///
    /// `sent` is the send time of the request that proves the grant. If `queue_lock` is available, a renewal on a new
    /// connection also acquires the queue lock. If `liveness` is pending, the lease is renewed only after
    /// [heartbeats](Self::record_heartbeat).
    #[must_use]
    pub fn new(
        grant: Grant,
        queue_lock: QueueLock,
        timing: Timing,
        sent: BootInstant,
        liveness: Liveness,
    ) -> Self {
        Self {
            grant,
            queue_lock,
            timing,
            deadline: timing.deadline(sent),
            next_at: Some(sent + timing.renew_interval),
            last_sent: sent,
            proven: sent,
            liveness,
            silence: SilenceLimit::default(),
            is_without_command: false,
        }
    }

    /// Renews the lease before a connection has been silent for as long as `silence` allows.
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

    /// Returns the send time of the request that proves the lease. The deadline is measured from this instant.
    #[must_use]
    pub const fn proven(&self) -> BootInstant {
        self.proven
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
        let is_stopping = !self.is_without_command && now >= self.deadline.term;
        if !is_due || self.liveness == Liveness::Pending || is_stopping {
            return None;
        }
        self.next_at = None;
        self.last_sent = now;
        if self.liveness == Liveness::Proven {
            self.liveness = Liveness::Pending;
        }
        Some(RenewRequest::new(self.grant, self.queue_lock))
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
                self.proven = self.proven.max(response.sent);
                self.deadline = self.deadline.max(self.timing.deadline(response.sent));
                self.next_at = Some(response.sent + self.interval());
                RenewalOutcome::Renewed(self.deadline, look)
            }
            // Send no further renewal, because each response would report the loss again until the command is dead.
            Ok(Response::Lost(record)) => {
                let loss = match record.revoked_ago {
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
        if failure.kind == FailureKind::NoQueueLock {
            self.queue_lock = QueueLock::Unavailable;
        }
        self.next_at = Some(now + self.retry_delay());
        // The heartbeat that permitted the failed renewal also permits the next renewal.
        self.record_heartbeat();
        RenewalOutcome::Failed(failure)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Liveness, RenewalOutcome, Renewals};
    use crate::lease::instant::BootInstant;
    use crate::lease::timing::Timing;
    use crate::lease::{Grant, OwnerId, Token};
    use crate::store::{
        Failure, FailureKind, LockRecord, Loss, QueueLock, Response, TimedResponse,
    };

    const START: BootInstant = BootInstant::new(Duration::from_secs(1000));

    fn renewals() -> Renewals {
        renewals_with(Liveness::NotRequired)
    }

    fn renewals_with(liveness: Liveness) -> Renewals {
        let grant = Grant {
            owner_id: OwnerId::new([1; 16]),
            token: Token(1),
        };
        let timing = Timing::new(Duration::from_secs(30), None).expect("a valid ttl");
        Renewals::new(grant, QueueLock::Available, timing, START, liveness)
    }

    fn timed_response(sent: BootInstant, outcome: Result<Response, Failure>) -> TimedResponse {
        TimedResponse {
            sent,
            received: sent,
            server_time: None,
            could_grant: false,
            outcome,
        }
    }

    fn after(millis: u64) -> BootInstant {
        START + Duration::from_millis(millis)
    }

    #[test]
    fn only_a_read_back_renewal_moves_the_deadline() {
        let mut renewals = renewals();
        let first = renewals.deadline();
        assert!(renewals.due(after(4_999)).is_none());
        assert!(renewals.due(after(5_000)).is_some());
        assert!(renewals.due(after(5_001)).is_none(), "one at a time");
        let failure = Failure {
            kind: FailureKind::Unknown,
            message: String::new(),
        };
        let outcome =
            renewals.handle_response(after(7_000), timed_response(after(5_000), Err(failure)));
        assert!(matches!(outcome, RenewalOutcome::Failed(_)));
        assert_eq!(renewals.deadline(), first);
        assert!(renewals.due(after(7_500)).is_some());
        let outcome = renewals.handle_response(
            after(9_000),
            timed_response(after(7_600), Ok(Response::Renewed(None))),
        );
        assert!(matches!(outcome, RenewalOutcome::Renewed(..)));
        let moved = renewals.deadline().kill.since(first.kill);
        assert_eq!(moved, Duration::from_millis(7_600));
    }

    #[test]
    fn lost_lease_is_not_renewed() {
        let mut renewals = renewals();
        assert!(renewals.due(after(5_000)).is_some());
        let record = LockRecord::never_held("init".parse().expect("a valid action"));
        let outcome = renewals.handle_response(
            after(5_100),
            timed_response(after(5_000), Ok(Response::Lost(record))),
        );
        assert!(matches!(outcome, RenewalOutcome::Lost(Loss::TakenOver, _)));
        assert!(renewals.due(after(5_100)).is_none());
        assert!(renewals.wake_at().is_none());
        renewals.expedite(after(6_000));
        assert!(renewals.due(after(20_000)).is_none());
    }

    #[test]
    fn required_heartbeat_allows_one_successful_renewal() {
        let mut renewals = renewals_with(Liveness::Pending);
        assert!(renewals.due(after(6_000)).is_none());
        assert!(renewals.is_silent());
        renewals.record_heartbeat();
        assert!(renewals.due(after(6_500)).is_some());
        let failure = Failure {
            kind: FailureKind::Unknown,
            message: String::new(),
        };
        renewals.handle_response(after(7_000), timed_response(after(6_500), Err(failure)));
        assert!(
            renewals.due(after(7_500)).is_some(),
            "the heartbeat still counts"
        );
        renewals.handle_response(
            after(7_600),
            timed_response(after(7_500), Ok(Response::Renewed(None))),
        );
        assert!(renewals.due(after(13_000)).is_none(), "no heartbeat since");
    }

    #[test]
    fn repeated_disconnects_do_not_cause_a_burst_of_renewals() {
        let mut renewals = renewals();
        renewals.expedite(after(2_000));
        assert!(renewals.due(after(2_000)).is_some(), "due immediately");
        renewals.handle_response(
            after(2_001),
            timed_response(after(2_000), Ok(Response::Renewed(None))),
        );
        renewals.expedite(after(2_002));
        assert!(renewals.due(after(2_499)).is_none());
        assert!(renewals.due(after(2_500)).is_some());
    }

    #[test]
    fn lease_is_not_renewed_once_the_command_has_to_be_stopped() {
        let mut renewals = renewals();
        let term = renewals.deadline().term;
        assert!(renewals.due(term).is_none());
        assert!(renewals.due(term - Duration::from_millis(1)).is_some());
    }
}
