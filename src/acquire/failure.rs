//! What a failure means for the acquisition: whether to go on, with what, and when.

use std::time::Duration;

use super::pace::MOMENT;
use super::{Acquire, OwnPlace, Phase};
use crate::lease::instant::BootInstant;
use crate::store::{Failure, FailureKind, Gate, Mode, Reply};

/// Longest pause after a failure: a server that restarts is found again within this time.
const LONGEST_RETRY: Duration = Duration::from_secs(2);

impl Acquire {
    pub(super) fn failed(&mut self, now: BootInstant, reply: &Reply, failure: &Failure) {
        // The connection is gone, and with it the gate and what our place knows of us.
        self.disconnected();
        (self.tries, self.anomalies) = (0, 0);
        if reply.could_grant {
            self.unknown_since.get_or_insert(reply.sent);
        }
        match failure.kind {
            FailureKind::NotAdmitted if self.answered.is_some() => {}
            FailureKind::NotAdmitted | FailureKind::Denied | FailureKind::Config => {
                self.phase = Phase::Refused(failure.clone());
                return;
            }
            FailureKind::NoGate if self.gate == Gate::Used => {
                self.poll_from_now_on();
                if matches!(self.phase, Phase::Look | Phase::Stand | Phase::Queue) {
                    self.phase = Phase::Attempt(Mode::IfFree);
                }
                return;
            }
            FailureKind::Full => self.was_full = true,
            _ => {}
        }
        match self.phase {
            // Somebody dropped them; an attempt makes them again.
            _ if failure.kind == FailureKind::NoTables => {
                self.phase = Phase::Attempt(Mode::First);
            }
            Phase::Look | Phase::Stand | Phase::Queue
                if self.unknown_since.is_none() && self.place != OwnPlace::None =>
            {
                self.phase = Phase::Look;
            }
            // Only an attempt reads back whether the row is ours by an earlier one of unknown outcome.
            Phase::Look | Phase::Stand | Phase::Queue | Phase::Attempt(Mode::TakeOver { .. }) => {
                self.phase = Phase::Attempt(Mode::IfFree);
            }
            _ => {}
        }
        let pause = match failure.kind {
            FailureKind::Conflict => MOMENT,
            _ => self.next_pause(LONGEST_RETRY),
        };
        self.next_at = now + pause;
        self.failure = Some(failure.clone());
        // No sense in sleeping towards a limit that comes first.
        if self.answered.is_none() && self.next_at >= self.started + self.limits.connect {
            self.limits.connect = Duration::ZERO;
        }
    }
}
