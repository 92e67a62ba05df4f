//! What a failure means for the wish: whether to go on, with what, and when.

use std::time::Duration;

use super::pause::MOMENT;
use super::{Acquire, Aim};
use crate::lease::instant::BootInstant;
use crate::store::{Failure, FailureKind, Gate};

/// Longest pause after a failure: a server that restarts is found again within this time.
const LONGEST_RETRY: Duration = Duration::from_secs(2);

impl Acquire {
    pub(super) fn failed(&mut self, now: BootInstant, sent: BootInstant, failure: &Failure) {
        // The connection is gone, and with it the gate and what our place knows of us.
        self.placed = None;
        self.eager = 0;
        match failure.kind {
            FailureKind::NoGate if self.gate == Gate::Used => {
                self.poll_from_now_on();
                if !matches!(self.aim, Aim::Confirm(_)) {
                    self.aim = Aim::Attempt(None);
                }
                return;
            }
            // Somebody dropped them; an attempt makes them anew.
            FailureKind::NoTables => self.aim = Aim::Attempt(None),
            FailureKind::NotAdmitted if self.answered.is_some() => {}
            FailureKind::NotAdmitted | FailureKind::Denied | FailureKind::Config => {
                self.refusal = Some(failure.clone());
                return;
            }
            FailureKind::Full => self.full = true,
            FailureKind::Unknown if matches!(self.aim, Aim::Attempt(_) | Aim::Stand) => {
                self.doubtful.get_or_insert(sent);
            }
            _ => {}
        }
        if matches!(self.aim, Aim::Look | Aim::Stand | Aim::Queue) {
            // With a lost answer in the past only an attempt reads back whether the row is ours.
            self.aim = match (self.doubtful, self.queued) {
                (None, true) => Aim::Look,
                _ => Aim::Attempt(None),
            };
        }
        let pause = match failure.kind {
            FailureKind::Conflict | FailureKind::Unprepared => MOMENT,
            _ => self.next_pause(LONGEST_RETRY),
        };
        self.next_at = now + pause;
        self.failure = Some(failure.clone());
        // No sense in sleeping towards a limit that comes first.
        if self.answered.is_none() && self.next_at >= self.started + self.patience.reach {
            self.patience.reach = Duration::ZERO;
        }
    }
}
