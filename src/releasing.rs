//! Releasing: hand-off, release, and when to try again. A pure state machine, no clock and no I/O.
//!
//! A release is a commit and the next grant is another. Where somebody is likely to wait, a hand-off
//! goes before the release: it tells the next contender that the command is dead, so that a hand-over
//! waits for one commit and not for two. The release follows a moment later, records the run, and finds
//! the row free or another's.

use std::time::Duration;

use crate::lease::instant::BootInstant;
use crate::lease::{Grant, Token};
use crate::store::{Answer, Failure, Gate, Loss, Parting, Question, Reply};
use crate::twin::{self, Mechanism};

/// How long the row is left to the next contender after a hand-off. To free it then and there would have
/// it locked, and the disk at work, just when that one wants both. It takes some 0.3 ms to come; if it
/// takes longer than this it finds the row free.
const LEFT_ALONE: Duration = Duration::from_millis(5);

/// Pause before a failed release is tried again: enough for a server to come back, not so much
/// that the bounded time holds only a few tries.
const RETRY: Duration = Duration::from_millis(200);

/// What to do next.
#[derive(Debug)]
pub enum Step {
    /// Ask this; exactly one reply must come back.
    Ask(Question),
    /// Nothing before this instant, or before the reply.
    Wait(Option<BootInstant>),
    /// It is over.
    Over(Released),
}

/// What came of a release.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Released {
    /// The lease is given up, and what had to be recorded is.
    Recorded,
    /// The lease is given up, but the history could not be written.
    Unrecorded(Failure),
    /// The lease was not ours any more: the run does not count.
    NotOurs(Loss),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Phase {
    HandOff,
    Release,
    Over(Released),
}

/// One release.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Releasing {
    parting: Parting,
    phase: Phase,
    in_flight: bool,
    next_at: BootInstant,
    /// Whether a release may have been carried out without our knowing.
    is_unknown: bool,
    failure: Option<Failure>,
}

impl Releasing {
    /// Gives up what `parting` says. With `hands_off`, and where nothing has to be read from the row by
    /// the next contender, a hand-off goes before.
    #[must_use]
    pub fn new(parting: Parting, hands_off: bool, now: BootInstant) -> Self {
        let is_plain = parting.token.is_some() && parting.run.is_some() && parting.keep.is_none();
        let has_gate = matches!(parting.gate, Gate::Used);
        Self {
            parting,
            phase: match hands_off && is_plain && has_gate && !twin::is_out(Mechanism::HandOff) {
                true => Phase::HandOff,
                false => Phase::Release,
            },
            in_flight: false,
            next_at: now,
            is_unknown: false,
            failure: None,
        }
    }

    /// What to do at `now`.
    pub fn next(&mut self, now: BootInstant) -> Step {
        if let Phase::Over(released) = &self.phase {
            return Step::Over(released.clone());
        }
        if self.in_flight {
            return Step::Wait(None);
        }
        if now < self.next_at {
            return Step::Wait(Some(self.next_at));
        }
        self.in_flight = true;
        Step::Ask(match (&self.phase, self.parting.token) {
            (Phase::HandOff, Some(token)) => {
                let claim = self.parting.claim;
                Question::HandOff(Grant { claim, token })
            }
            _ => Question::Release(self.parting),
        })
    }

    /// Takes in the reply to the open question.
    pub fn answered(&mut self, now: BootInstant, reply: &Reply) {
        self.in_flight = false;
        self.next_at = now;
        match (&self.phase, &reply.outcome) {
            (Phase::HandOff, outcome) => {
                self.phase = Phase::Release;
                // Whatever becomes of the answer, somebody may act on it.
                self.parting.handed_off = !matches!(outcome, Ok(Answer::NotOurs(_)));
                if let Ok(Answer::HandedOff) = outcome {
                    self.next_at = now + LEFT_ALONE;
                }
            }
            (_, Ok(Answer::Released)) => self.phase = Phase::Over(Released::Recorded),
            (_, Ok(Answer::ReleasedOnly(failure))) => {
                self.phase = Phase::Over(Released::Unrecorded(failure.clone()));
            }
            (_, Ok(Answer::NotOurs(loss))) => {
                self.phase = Phase::Over(match loss {
                    // An earlier release was carried out, and its answer was lost.
                    None if self.is_unknown => Released::Recorded,
                    loss => Released::NotOurs(loss.unwrap_or(Loss::TakenOver)),
                });
            }
            (_, Ok(_)) => {}
            (_, Err(failure)) => {
                self.is_unknown = true;
                self.failure = Some(failure.clone());
                self.next_at = now + RETRY;
            }
        }
    }

    /// Whether a question of the release waits for its reply.
    #[must_use]
    pub const fn is_asked(&self) -> bool {
        self.in_flight
    }

    /// The server has ended the connection: there is nothing to leave alone any more.
    pub fn disconnected(&mut self, now: BootInstant) {
        if self.parting.handed_off && self.failure.is_none() {
            self.next_at = self.next_at.min(now);
        }
    }

    /// The token of the lease, if it is known.
    #[must_use]
    pub const fn token(&self) -> Option<Token> {
        self.parting.token
    }

    /// The last failure, if there was one.
    #[must_use]
    pub const fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Forgets what makes no difference from `now` on. The model of the protocol needs it, to recognise
    /// a state.
    pub fn forget_past(&mut self, now: BootInstant) {
        if self.next_at <= now {
            self.next_at = BootInstant::new(Duration::ZERO);
        }
        self.failure = None;
    }
}
