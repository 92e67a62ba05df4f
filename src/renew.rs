//! Renewing: when the next renewal is due and what its reply means. Pure, no clock and no I/O.
//!
//! Only a renewal that was read back moves the deadline, and it moves it to what counts from before
//! its send. Only a row that is another's ends the hold; everything else is tried again until the
//! deadline itself ends it.

use std::time::Duration;

use crate::lease::Grant;
use crate::lease::instant::{BootInstant, Deadline};
use crate::lease::timing::Timing;
use crate::store::{Answer, Failure, FailureKind, Gate, Loss, Question, Reply, Sighting};

/// Pause before a failed renewal is tried again, at most: a blip of the network costs no more.
const RETRY: Duration = Duration::from_millis(500);

/// And at least, so that a short lease on a server that fails sends no more than 10 requests a second.
const SHORTEST_RETRY: Duration = Duration::from_millis(100);

/// The renewals of one grant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Renewals {
    grant: Grant,
    gate: Gate,
    timing: Timing,
    deadline: Deadline,
    /// When the next one is due. None while one is open, and once the lease is another's, so that there
    /// is nothing left to renew.
    next_at: Option<BootInstant>,
    /// When the last one was due, or the lease was granted.
    asked: BootInstant,
    /// Whether the command has shown that it is alive since the last renewal that was sent.
    life: Life,
}

/// What is known of the command's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Life {
    /// Nobody asks for more than that the process is there.
    Assumed,
    /// It has shown it.
    Shown,
    /// It has not shown it yet.
    Awaited,
}

/// What a reply means.
#[derive(Debug)]
pub enum Verdict {
    /// The lease goes on; this is its new deadline.
    Renewed(Deadline),
    /// The row is not ours any more, and why; as it stands now.
    Lost(Loss, Box<Sighting>),
    /// Nothing is known; it will be tried again.
    Failed(Failure),
}

impl Renewals {
    /// For a grant whose proof was sent at `sent`; `gate` tells whether to take the gate, which a new
    /// connection does not have; with `life` awaited nothing is renewed without
    /// [signs of life](Self::beat).
    #[must_use]
    pub fn new(grant: Grant, gate: Gate, timing: Timing, sent: BootInstant, life: Life) -> Self {
        Self {
            grant,
            gate,
            timing,
            deadline: timing.deadline(sent),
            next_at: Some(sent + timing.interval),
            asked: sent,
            life,
        }
    }

    /// The command has shown that it is alive.
    pub fn beat(&mut self) {
        if self.life == Life::Awaited {
            self.life = Life::Shown;
        }
    }

    /// The connection has ended: renew soon, which looks at the row and takes the gate again. The pause
    /// after the last renewal is that of a failed one, since something on the way may end each connection.
    pub fn hasten(&mut self, now: BootInstant) {
        let soon = now.max(self.asked + self.retry());
        self.next_at = self.next_at.map(|next| next.min(soon));
    }

    fn retry(&self) -> Duration {
        RETRY.min(self.timing.interval / 4).max(SHORTEST_RETRY)
    }

    /// Whether it is the command's silence that keeps the lease from being renewed.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.life == Life::Awaited && self.next_at.is_some()
    }

    /// The instants by which the command must be told to stop and be dead.
    #[must_use]
    pub const fn deadline(&self) -> Deadline {
        self.deadline
    }

    /// The renewal to send at `now`, if one is due. None once the command has to be stopped: a
    /// lease that comes back then would come back to a dying command.
    pub fn due(&mut self, now: BootInstant) -> Option<Question> {
        let is_due = self.next_at.is_some_and(|next| now >= next);
        if !is_due || self.life == Life::Awaited || now >= self.deadline.term {
            return None;
        }
        self.next_at = None;
        self.asked = now;
        if self.life == Life::Shown {
            self.life = Life::Awaited;
        }
        Some(Question::Renew(self.grant, self.gate))
    }

    /// When the next renewal is due; none while one is open, or when there is nothing left to renew.
    #[must_use]
    pub const fn wake_at(&self) -> Option<BootInstant> {
        self.next_at
    }

    /// Takes in the reply to the open renewal.
    pub fn answered(&mut self, now: BootInstant, reply: Reply) -> Verdict {
        match reply.outcome {
            Ok(Answer::Renewed) => {
                self.deadline = self.deadline.max(self.timing.deadline(reply.sent));
                self.next_at = Some(reply.sent + self.timing.interval);
                Verdict::Renewed(self.deadline)
            }
            // The row would say the same again and again, for as long as the command takes to die.
            Ok(Answer::Lost(seen)) => {
                let loss = match seen.broken_ago {
                    Some(_) => Loss::Revoked,
                    None => Loss::TakenOver,
                };
                Verdict::Lost(loss, Box::new(seen))
            }
            Ok(other) => self.failed(now, Failure::unexpected(&other)),
            Err(failure) => self.failed(now, failure),
        }
    }

    fn failed(&mut self, now: BootInstant, failure: Failure) -> Verdict {
        if failure.kind == FailureKind::NoGate {
            self.gate = Gate::Absent;
        }
        self.next_at = Some(now + self.retry());
        // What the failed renewal was sent for still stands.
        self.beat();
        Verdict::Failed(failure)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Life, Renewals, Verdict};
    use crate::lease::instant::BootInstant;
    use crate::lease::timing::Timing;
    use crate::lease::{Claim, Grant, Token};
    use crate::store::{Answer, Failure, FailureKind, Gate, Loss, Reply, Sighting};

    const START: BootInstant = BootInstant::new(Duration::from_secs(1000));

    fn renewals() -> Renewals {
        renewals_of(Life::Assumed)
    }

    fn renewals_of(life: Life) -> Renewals {
        let grant = Grant {
            claim: Claim::new([1; 16]),
            token: Token(1),
        };
        let timing = Timing::new(Duration::from_secs(30), None).expect("fits");
        Renewals::new(grant, Gate::Used, timing, START, life)
    }

    fn reply(sent: BootInstant, outcome: Result<Answer, Failure>) -> Reply {
        Reply {
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
    fn only_a_renewal_that_was_read_back_moves_the_deadline_and_from_before_its_send() {
        let mut renewals = renewals();
        let first = renewals.deadline();
        assert!(renewals.due(after(4_999)).is_none());
        assert!(renewals.due(after(5_000)).is_some());
        assert!(renewals.due(after(5_001)).is_none(), "one at a time");
        let failure = Failure {
            kind: FailureKind::Unknown,
            message: String::new(),
        };
        let verdict = renewals.answered(after(7_000), reply(after(5_000), Err(failure)));
        assert!(matches!(verdict, Verdict::Failed(_)));
        assert_eq!(renewals.deadline(), first);
        assert!(renewals.due(after(7_500)).is_some());
        let verdict = renewals.answered(after(9_000), reply(after(7_600), Ok(Answer::Renewed)));
        assert!(matches!(verdict, Verdict::Renewed(_)));
        let moved = renewals.deadline().kill.since(first.kill);
        assert_eq!(moved, Duration::from_millis(7_600));
    }

    #[test]
    fn a_lost_lease_is_not_asked_for_again() {
        let mut renewals = renewals();
        assert!(renewals.due(after(5_000)).is_some());
        let row = Sighting::never_held("init".parse().expect("a name"));
        let verdict = renewals.answered(after(5_100), reply(after(5_000), Ok(Answer::Lost(row))));
        assert!(matches!(verdict, Verdict::Lost(Loss::TakenOver, _)));
        assert!(renewals.due(after(5_100)).is_none());
        assert!(renewals.wake_at().is_none());
        renewals.hasten(after(6_000));
        assert!(renewals.due(after(20_000)).is_none());
    }

    #[test]
    fn a_command_that_must_show_its_life_is_renewed_once_for_each_sign_or_more() {
        let mut renewals = renewals_of(Life::Awaited);
        assert!(renewals.due(after(6_000)).is_none());
        assert!(renewals.is_silent());
        renewals.beat();
        assert!(renewals.due(after(6_500)).is_some());
        let failure = Failure {
            kind: FailureKind::Unknown,
            message: String::new(),
        };
        renewals.answered(after(7_000), reply(after(6_500), Err(failure)));
        assert!(
            renewals.due(after(7_500)).is_some(),
            "the sign still stands"
        );
        renewals.answered(after(7_600), reply(after(7_500), Ok(Answer::Renewed)));
        assert!(renewals.due(after(13_000)).is_none(), "no sign since");
    }

    #[test]
    fn a_connection_that_ends_again_and_again_brings_no_storm_of_renewals() {
        let mut renewals = renewals();
        renewals.hasten(after(2_000));
        assert!(renewals.due(after(2_000)).is_some(), "at once");
        renewals.answered(after(2_001), reply(after(2_000), Ok(Answer::Renewed)));
        renewals.hasten(after(2_002));
        assert!(renewals.due(after(2_499)).is_none());
        assert!(renewals.due(after(2_500)).is_some());
    }

    #[test]
    fn nothing_is_renewed_once_the_command_has_to_be_stopped() {
        let mut renewals = renewals();
        let term = renewals.deadline().term;
        assert!(renewals.due(term).is_none());
        assert!(renewals.due(term - Duration::from_millis(1)).is_some());
    }
}
