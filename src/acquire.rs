//! Acquiring: when to ask what, and when to give up. A pure state machine, no clock and no I/O.
//!
//! The caller asks [`Acquire::next`] what to do, does it, and hands every reply to
//! [`Acquire::answered`]. Who is not granted the lease at once takes a place in the line and waits
//! at the gate, the named lock that the holder has: the server wakes the waiters one by one, in
//! order of arrival, and they cost it nothing until then. Whoever has the gate but finds the row
//! held (its holder lost its session, or died) is the head: it keeps the gate and watches the row.
//!
//! Where the gate does not work, waiters watch the row instead, in order of their places.
//!
//! - `line`: what a look at the row and the line means
//! - `takeover`: when a row that is another's may be taken
//! - `hold`: when a grant counts, and what to give up in the end
//! - `failure`: what a failure means; `pause`, `patience`: when to go on, when to give up

mod failure;
mod hold;
mod line;
mod patience;
mod pause;
mod takeover;

use std::time::Duration;

pub use self::hold::Hold;
pub use self::patience::Patience;
use self::pause::{FIRST_PAUSE, LONGEST_PAUSE};
use self::takeover::Watch;
use crate::lease::instant::BootInstant;
use crate::lease::timing::Timing;
use crate::lease::{Claim, Token};
use crate::store::{
    Answer, Failure, Gate, Keeper, Place, Question, Reply, Sighting, Success, Turn, Version, Wish,
};

/// From this on that the first in line has waited, somebody in it may be dead without anybody knowing.
/// To find out takes the server milliseconds, and MySQL a file that has to be emptied when the session
/// ends: not for a line that moves.
const LONG_WAIT: Duration = Duration::from_secs(10);

/// What to do next.
#[derive(Debug)]
pub enum Step {
    /// Ask this; exactly one reply must come back.
    Ask(Question),
    /// Nothing before this instant, unless something happens.
    Wait(BootInstant),
    /// The lease is ours.
    Granted(Hold),
    /// No lease is needed: what it was for has been done.
    Done(Success),
    /// Out of time; the row as last seen, and when that was.
    Held(Box<Sighting>, BootInstant),
    /// The server did not answer in time; the last failure, if there was one.
    Unreachable(Option<Failure>),
    /// The server said no in a way that waiting would not change.
    Refused(Failure),
}

/// What the next question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Aim {
    Attempt(Option<Version>),
    Look,
    Queue,
    Stand,
    /// Granted, but under doubt about when: renew before anything is started.
    Confirm(Token),
}

/// The state of one process's wish for one action.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each answers a question of its own"
)]
pub struct Acquire {
    claim: Claim,
    timing: Timing,
    patience: Patience,
    started: BootInstant,
    /// When the server first answered.
    answered: Option<BootInstant>,
    /// Whether the server was there but had no connection for us.
    full: bool,
    gate: Gate,
    aim: Aim,
    open: bool,
    next_at: BootInstant,
    turn: u32,
    pause: Duration,
    /// Whether the last answer asks for another look even if time is over.
    undecided: bool,
    eager: u32,
    doubts: u32,
    /// How often in a row a wait at the gate ended without it.
    turned_away: u32,
    watch: Option<Watch>,
    seen: Option<Sighting>,
    looked_at: BootInstant,
    ahead: u64,
    /// Whether there may be a place of ours in the line.
    queued: bool,
    /// When that place last learnt of our present session; none if it does not know it.
    placed: Option<BootInstant>,
    /// How long the first in line had waited when we last looked.
    first_for: Duration,
    /// Without a gate, since when the row could have been taken.
    lying_free: Option<BootInstant>,
    failure: Option<Failure>,
    /// When the first attempt was sent whose outcome we do not know: from then on the row may
    /// be ours without our knowing.
    doubtful: Option<BootInstant>,
    end: Option<Hold>,
    success: Option<Success>,
    refusal: Option<Failure>,
}

impl Acquire {
    /// A wish that begins at `now`.
    #[must_use]
    pub fn new(claim: Claim, timing: Timing, patience: Patience, now: BootInstant) -> Self {
        Self {
            claim,
            timing,
            patience,
            started: now,
            answered: None,
            full: false,
            gate: Gate::Used,
            aim: Aim::Attempt(None),
            open: false,
            next_at: now,
            turn: 0,
            pause: FIRST_PAUSE,
            undecided: false,
            eager: 0,
            doubts: 0,
            turned_away: 0,
            watch: None,
            seen: None,
            looked_at: now,
            ahead: 0,
            queued: false,
            placed: None,
            first_for: Duration::ZERO,
            lying_free: None,
            failure: None,
            doubtful: None,
            end: None,
            success: None,
            refusal: None,
        }
    }

    /// What to do at `now`.
    pub fn next(&mut self, now: BootInstant) -> Step {
        if let Some(hold) = self.end {
            return Step::Granted(hold);
        }
        if let Some(success) = self.success.take() {
            return Step::Done(success);
        }
        if let Some(failure) = self.refusal.take() {
            return Step::Refused(failure);
        }
        let limit = self.limit();
        if limit.is_some_and(|limit| now >= limit) {
            return match self.seen.take() {
                Some(seen) => Step::Held(Box::new(seen), self.looked_at),
                None => Step::Unreachable(self.failure.take()),
            };
        }
        let at_most = |instant: BootInstant| limit.map_or(instant, |limit| instant.min(limit));
        if self.open {
            // Only the reply or the limit ends this; the caller bounds its own sleep.
            return Step::Wait(at_most(now + LONGEST_PAUSE));
        }
        if now < self.next_at {
            return Step::Wait(at_most(self.next_at));
        }
        self.open = true;
        self.turn = self.turn.wrapping_add(1);
        Step::Ask(self.question(limit.map(|limit| limit.since(now))))
    }

    fn question(&mut self, left: Option<Duration>) -> Question {
        let place = Place {
            claim: self.claim,
            gate: self.gate,
        };
        match self.aim {
            Aim::Attempt(seen) => Question::Attempt(self.wish(seen)),
            Aim::Look => Question::Inspect(place),
            Aim::Queue => {
                self.queued = true;
                Question::Queue(place)
            }
            Aim::Stand => {
                self.queued = true;
                Question::Stand(Turn {
                    wish: self.wish(None),
                    patience: left,
                    tidy: self.first_for >= LONG_WAIT,
                })
            }
            Aim::Confirm(token) => Question::Renew(self.grant(token), self.gate),
        }
    }

    const fn wish(&self, seen: Option<Version>) -> Wish {
        Wish {
            claim: self.claim,
            seen,
            gate: self.gate,
            queued: self.queued,
        }
    }

    /// Takes in the reply to the open question.
    pub fn answered(&mut self, now: BootInstant, reply: &Reply) {
        self.open = false;
        self.undecided = false;
        self.next_at = now;
        if reply.outcome.is_ok() {
            self.answered.get_or_insert(now);
            if self.failure.take().is_some() {
                self.pause = FIRST_PAUSE;
            }
        }
        match &reply.outcome {
            Ok(Answer::Granted(token)) => self.granted(now, *token, reply.sent),
            Ok(Answer::Renewed) => {
                if let Aim::Confirm(token) = self.aim {
                    self.confirmed(now, token, reply.sent);
                }
            }
            Ok(Answer::Seen(sighting, view)) => {
                let stood = self.aim == Aim::Stand;
                self.saw(now, reply.received, sighting, view);
                // The server said that the gate is ours. If it is not, it only pretends.
                if stood && view.keeper != Keeper::Us {
                    self.turned_away(now);
                }
            }
            Ok(Answer::Queued(sighting, view)) => {
                self.placed = Some(now);
                self.saw(now, reply.received, sighting, view);
            }
            Ok(Answer::Done(success)) => self.success = Some(success.clone()),
            Ok(Answer::TurnedAway) => self.turned_away(now),
            Ok(Answer::Lost(sighting)) => {
                self.seen = Some(sighting.clone());
                self.aim = Aim::Attempt(None);
            }
            // Not asked for here.
            Ok(
                Answer::Looked(_) | Answer::Released | Answer::ReleasedOnly(_) | Answer::NotOurs,
            ) => {}
            Err(failure) => self.failed(now, reply.sent, failure),
        }
    }

    /// Whether we wait at the gate: the open question takes as long as the line does.
    #[must_use]
    pub fn is_standing(&self) -> bool {
        self.open && self.aim == Aim::Stand
    }

    /// Whether the gate is of use.
    #[must_use]
    pub const fn gate(&self) -> Gate {
        self.gate
    }

    /// The row as last seen, while it is another's, and how many were in front of us then.
    #[must_use]
    pub fn seen(&self) -> Option<(&Sighting, u64)> {
        self.seen.as_ref().map(|seen| (seen, self.ahead))
    }

    /// Forgets the past: how often and since when things were tried, what is only told to people.
    /// Two wishes that are equal after this go on alike from `now` on, but for the length of pauses.
    /// The model of the protocol needs it, to know a state again.
    pub fn forget_past(&mut self, now: BootInstant) {
        let past = BootInstant::new(Duration::ZERO);
        (self.turn, self.pause) = (0, FIRST_PAUSE);
        if self.next_at <= now {
            self.next_at = past;
        }
        if let Some(watch) = &mut self.watch
            && now >= watch.ripe()
        {
            watch.since = past;
        }
        self.doubtful = self.doubtful.map(|_| past);
        if self.gate == Gate::Used {
            (self.placed, self.ahead) = (self.placed.map(|_| past), 0);
        }
        if self.answered.is_some() && self.patience.wait.is_none() {
            (self.started, self.answered, self.looked_at) = (past, Some(past), past);
            (self.seen, self.failure, self.undecided, self.full) = (None, None, false, false);
        }
    }
}

#[cfg(test)]
mod tests;
