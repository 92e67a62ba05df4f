//! Acquiring: when to ask what, and when to give up. A pure state machine, no clock and no I/O.
//!
//! The caller asks [`Acquire::next`] what to do, does it, and hands every reply to
//! [`Acquire::answered`]. A contender that is not granted the lease at once takes a place in the line
//! and waits at the gate, the named lock that the holder has: the server wakes the waiters one by one,
//! in order of arrival, and they send nothing until then. The waiter that has the gate but finds the row
//! held (its holder lost its session, or died) is the head: it keeps the gate and watches the row.
//! Where the gate does not work, waiters watch the row instead, in order of their places.
//!
//! - `line`: what a look at the row and the line means
//! - `confirm`: when a grant counts, and what to give up in the end
//! - `failure`: what a failure means; `limits`: when to give up; `pace`: when to go on

mod confirm;
mod failure;
mod limits;
mod line;
mod pace;

use std::time::Duration;

pub use self::confirm::AcquiredLease;
pub use self::limits::WaitLimits;
use self::pace::{LONGEST_PAUSE, Pace};
use crate::lease::instant::BootInstant;
use crate::lease::timing::Timing;
use crate::lease::{Claim, Grant, Token};
use crate::store::takeover::Observation;
use crate::store::{
    Answer, Failure, Gate, Mode, Parting, Place, Question, Reply, Sighting, Success, Turn, Wish,
};

/// From this wait of the first in line on, somebody in it may be dead without anybody knowing.
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
    Granted(AcquiredLease),
    /// No lease is needed: what it was for has been done.
    Done(Success),
    /// Out of time; the row as last seen, and when that was.
    Held(Box<Sighting>, BootInstant),
    /// The server did not answer in time; the last failure, if there was one.
    Unreachable(Option<Failure>),
    /// The server refuses in a way that waiting would not change.
    Refused(Failure),
}

/// Where the acquisition stands: what to ask next, or how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Phase {
    /// Try to take the lease.
    Attempt(Mode),
    /// Look at the row and the line, as the head or without a gate.
    Look,
    /// Take a place in the line, or show that we still want it.
    Queue,
    /// Take a place, wait at the gate, then try.
    Stand,
    /// The row is ours, but nobody knows since when: renew before anything is started.
    Confirm {
        token: Token,
        since: BootInstant,
        /// When that lease is over, at the earliest.
        until: BootInstant,
    },
    /// The row has our claim, with this token, and is of no use: an operator has ended the lease, or it may
    /// be over. Free it. By the token, since the request may arrive once more when we hold another lease.
    Settle(Token),
    Acquired(AcquiredLease),
    Done(Success),
    Refused(Failure),
}

/// Our place in the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum OwnPlace {
    None,
    /// It may exist, but does not know our present session.
    Outdated,
    /// It has known our session since then.
    Current(BootInstant),
}

/// What the last look showed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Seen {
    row: Sighting,
    at: BootInstant,
    /// Waiters in front of us.
    ahead: u64,
    /// How long the first in line had waited.
    first_for: Duration,
}

/// One process's acquisition of one action.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Acquire {
    claim: Claim,
    timing: Timing,
    limits: WaitLimits,
    started: BootInstant,
    /// When the server first answered.
    answered: Option<BootInstant>,
    /// Whether it had no connection for us.
    was_full: bool,
    gate: Gate,
    phase: Phase,
    /// Whether a question waits for its reply.
    in_flight: bool,
    next_at: BootInstant,
    pace: Pace,
    /// How often in a row a row that may be taken was tried.
    tries: u32,
    /// How often in a row a look found the gate where it should not be.
    anomalies: u32,
    /// How often in a row a wait at the gate ended without it.
    turned_away: u32,
    observation: Option<Observation>,
    seen: Option<Seen>,
    place: OwnPlace,
    /// Without a gate, since when the row could have been taken.
    free_since: Option<BootInstant>,
    failure: Option<Failure>,
    /// Since when an attempt may have been carried out without our knowing.
    unknown_since: Option<BootInstant>,
}

impl Acquire {
    /// An acquisition that begins at `now`.
    #[must_use]
    pub fn new(claim: Claim, timing: Timing, limits: WaitLimits, now: BootInstant) -> Self {
        Self {
            claim,
            timing,
            limits,
            started: now,
            answered: None,
            was_full: false,
            gate: Gate::Used,
            phase: Phase::Attempt(Mode::First),
            in_flight: false,
            next_at: now,
            pace: Pace::default(),
            tries: 0,
            anomalies: 0,
            turned_away: 0,
            observation: None,
            seen: None,
            place: OwnPlace::None,
            free_since: None,
            failure: None,
            unknown_since: None,
        }
    }

    /// What to do at `now`.
    pub fn next(&mut self, now: BootInstant) -> Step {
        match &self.phase {
            Phase::Acquired(lease) => return Step::Granted(*lease),
            Phase::Done(success) => return Step::Done(success.clone()),
            Phase::Refused(failure) => return Step::Refused(failure.clone()),
            Phase::Confirm { token, until, .. } if now >= *until && !self.in_flight => {
                self.phase = Phase::Settle(*token);
            }
            _ => {}
        }
        let limit = self.limit();
        if limit.is_some_and(|limit| now >= limit) {
            return self.give_up();
        }
        let at_most = |instant: BootInstant| limit.map_or(instant, |limit| instant.min(limit));
        if self.in_flight {
            // Only the reply or the limit ends this; the caller bounds its own sleep.
            return Step::Wait(at_most(now + LONGEST_PAUSE));
        }
        let cost = packets(&self.phase);
        let earliest = self.next_at.max(self.pace.earliest(cost));
        if now < earliest {
            return Step::Wait(at_most(earliest));
        }
        self.in_flight = true;
        self.pace.sent(now, cost);
        let left = limit.map(|limit| limit.since(now));
        Step::Ask(self.question(left))
    }

    fn give_up(&mut self) -> Step {
        let is_ours = matches!(self.phase, Phase::Confirm { .. } | Phase::Settle(_));
        match self.seen.take().filter(|_| !is_ours) {
            Some(seen) => Step::Held(Box::new(seen.row), seen.at),
            None => Step::Unreachable(self.failure.take()),
        }
    }

    fn question(&mut self, left: Option<Duration>) -> Question {
        let place = Place {
            claim: self.claim,
            gate: self.gate,
        };
        if matches!(self.phase, Phase::Queue | Phase::Stand) {
            self.place = OwnPlace::Outdated;
        }
        match self.phase {
            Phase::Attempt(mode) => Question::Attempt(Wish {
                claim: self.claim,
                mode,
                gate: self.gate,
            }),
            Phase::Queue => Question::Queue(place),
            Phase::Stand => Question::Stand(Turn {
                claim: self.claim,
                patience: self.stand_limit(left),
                tidy: (self.seen.as_ref()).is_some_and(|seen| seen.first_for >= LONG_WAIT),
            }),
            Phase::Confirm { token, .. } => Question::Renew(self.grant(token), self.gate),
            Phase::Settle(token) => Question::Release(Parting {
                token: Some(token),
                queued: false,
                // If the gate is ours we keep it, and with it our turn.
                gate: Gate::Absent,
                ..self.all_of_ours()
            }),
            Phase::Look | Phase::Acquired(_) | Phase::Done(_) | Phase::Refused(_) => {
                Question::Inspect(place)
            }
        }
    }

    const fn grant(&self, token: Token) -> Grant {
        Grant {
            claim: self.claim,
            token,
        }
    }

    /// Takes in the reply to the open question.
    pub fn answered(&mut self, now: BootInstant, reply: &Reply) {
        self.in_flight = false;
        self.next_at = now;
        if reply.outcome.is_ok() {
            self.answered.get_or_insert(now);
            if self.failure.take().is_some() {
                self.pace.recover();
            }
        }
        match &reply.outcome {
            Ok(Answer::Granted(token)) => self.granted(now, *token, reply.sent),
            Ok(Answer::AlreadyOurs(token)) => self.confirm(now, *token),
            Ok(Answer::Renewed) => self.confirmed(now, reply.sent),
            Ok(Answer::Lost(row) | Answer::Seen(row, _) | Answer::Queued(row, _))
                if row.claim == Some(self.claim) =>
            {
                // Ours and still not to be had: an operator has ended the lease.
                self.phase = Phase::Settle(row.version.token);
            }
            Ok(Answer::Seen(row, view)) => self.saw(now, reply.received, row, view),
            Ok(Answer::Queued(row, view)) => {
                self.place = OwnPlace::Current(now);
                self.saw(now, reply.received, row, view);
            }
            Ok(Answer::Done(success)) => self.phase = Phase::Done(success.clone()),
            Ok(Answer::TurnedAway) => self.turned_away(now),
            Ok(Answer::Lost(_)) => self.phase = Phase::Attempt(Mode::IfFree),
            Ok(Answer::Released | Answer::ReleasedOnly(_) | Answer::NotOurs(_)) => {
                self.unknown_since = None;
                self.phase = Phase::Attempt(Mode::IfFree);
            }
            // Not asked for here.
            Ok(Answer::Looked(_) | Answer::HandedOff) => {}
            Err(failure) => self.failed(now, reply, failure),
        }
    }

    /// Takes in that the server has ended the connection while nothing was asked: the gate is gone, and
    /// our place does not know the next session.
    pub fn disconnected(&mut self) {
        if let OwnPlace::Current(_) = self.place {
            self.place = OwnPlace::Outdated;
        }
    }

    /// Whether the gate is of use.
    #[must_use]
    pub const fn gate(&self) -> Gate {
        self.gate
    }

    /// The row as last seen, while it is another's, and how many were in front of us then.
    #[must_use]
    pub fn seen(&self) -> Option<(&Sighting, u64)> {
        self.seen.as_ref().map(|seen| (&seen.row, seen.ahead))
    }

    /// Forgets the past: how often and since when things were tried, and what is only shown to people.
    /// Two acquisitions that are equal after this go on alike from `now` on, but for the length of
    /// pauses. The model of the protocol needs it, to recognise a state.
    pub fn forget_past(&mut self, now: BootInstant) {
        let past = BootInstant::new(Duration::ZERO);
        self.pace = Pace::default();
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
        if let Phase::Confirm { since, until, .. } = &mut self.phase {
            *since = past;
            if now >= *until {
                *until = past;
            }
        }
        if self.gate == Gate::Used {
            if let OwnPlace::Current(since) = &mut self.place {
                *since = past;
            }
            if let Some(seen) = &mut self.seen {
                seen.ahead = 0;
            }
        }
        if (self.answered.is_some() || self.was_full) && self.limits.wait.is_none() {
            (self.started, self.answered) = (past, Some(past));
            (self.seen, self.failure) = (None, None);
        }
    }
}

/// How many packets the question of a phase sends at most, but for the first of a process, and once in a
/// while to clear the line.
const fn packets(phase: &Phase) -> usize {
    match phase {
        // The statement and a look; the release, and what frees a row that was revoked.
        Phase::Attempt(_) | Phase::Settle(_) => 2,
        // The wait, the statement and a look.
        Phase::Stand => 3,
        _ => 1,
    }
}

#[cfg(test)]
mod tests;
