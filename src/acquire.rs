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
//! When a row that is another's may be taken over:
//! - the lease lapsed [`GATE_ALLOWANCE`] ago by the server's clock and we have the gate that its
//!   holder had, or it lapsed [`ALLOWANCE`] ago;
//! - or it has not changed for a full ttl *on our own clock* since we first saw it: then under the
//!   condition that it still stands so, and no clock of the server is trusted.

use std::time::Duration;

use crate::lease::instant::BootInstant;
use crate::lease::timing::Timing;
use crate::lease::{Claim, Grant, Token};
use crate::store::{
    ALLOWANCE, Answer, Failure, FailureKind, GATE_ALLOWANCE, Gate, GonePlace, Keeper, POLLER_LIFE,
    Parting, Place, Question, Remainder, Reply, Run, Sighting, Success, Turn, Version, View, Wish,
};

/// First and longest pause between two looks of whoever is next: fast enough that a short command
/// hands over soon, slow enough to be nothing to the server.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The same for those behind, who only have to notice that they moved up.
const LONGEST_PAUSE_BEHIND: Duration = Duration::from_secs(3);

/// Longest pause after a failure: a server that restarts is found again within this time.
const LONGEST_RETRY: Duration = Duration::from_secs(2);

/// How often in a row a row that looks free is attempted without a pause in between.
const EAGER_ATTEMPTS: u32 = 3;

/// How often in a row the gate may look broken before it counts as broken. A session that is
/// granted the lease by its first packet has the gate for a moment before anything else tells so.
const DOUBTS: u32 = 3;

/// Pause before another look at a gate or a row that is changing hands.
const MOMENT: Duration = Duration::from_millis(25);

/// Time for these last looks when the user's time is over: not to be noticed, but enough to tell
/// a free row from a held one.
const LAST_LOOKS: Duration = Duration::from_millis(90);

/// Without a gate, how long a row may lie free before others than the first in line attempt it:
/// the first may be dead without anybody being able to see it.
const PRIVILEGE: Duration = Duration::from_secs(3);

/// How long to keep trying.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Patience {
    /// In line, from the server's first answer on; none: for ever.
    pub wait: Option<Duration>,
    /// For that first answer. At least one attempt is always made.
    pub reach: Duration,
}

/// A lease that is ours, and what else we have on its account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hold {
    /// What to renew and release with.
    pub grant: Grant,
    /// When the request that proves it was sent: deadlines count from here.
    pub sent: BootInstant,
    /// Whether the gate is to be taken anew on a new connection and released in the end.
    pub gate: Gate,
}

impl Hold {
    /// What to give up in the end; `run` is what came of the command, if it was started, and
    /// `keep` how long nobody else is to have the lease.
    #[must_use]
    pub const fn parting(&self, run: Option<Run>, keep: Option<Duration>) -> Parting {
        Parting {
            claim: self.grant.claim,
            token: Some(self.grant.token),
            gate: self.gate,
            // It went with the grant.
            queued: false,
            keep,
            run,
        }
    }
}

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

/// A version of the row, when we first saw it and how long its lease is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Watch {
    version: Version,
    since: BootInstant,
    ttl: Duration,
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
    /// Whether the last wait at the gate is said to have ended with it.
    at_gate: bool,
    watch: Option<Watch>,
    seen: Option<Sighting>,
    looked_at: BootInstant,
    ahead: u64,
    /// Whether there may be a place of ours in the line.
    queued: bool,
    /// When that place last learnt of our present session; none if it does not know it.
    placed: Option<BootInstant>,
    gone: Vec<GonePlace>,
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
            at_gate: false,
            watch: None,
            seen: None,
            looked_at: now,
            ahead: 0,
            queued: false,
            placed: None,
            gone: Vec::new(),
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
            Aim::Stand => Question::Stand(Turn {
                wish: self.wish(None),
                patience: left,
                gone: std::mem::take(&mut self.gone),
            }),
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
                self.at_gate |= self.aim == Aim::Stand;
                self.saw(now, reply.received, sighting, view);
                if view.keeper != Keeper::Unasked && std::mem::take(&mut self.at_gate) {
                    // The server said that the gate is ours. If it is not, it only pretends.
                    if view.keeper != Keeper::Us {
                        self.turned_away(now);
                    }
                }
            }
            Ok(Answer::Queued(sighting, view)) => {
                self.placed = Some(now);
                self.gone.clone_from(&view.gone);
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

    /// What has to be given up on leaving, if there is anything: a lease may have been granted to
    /// us without our knowing, and our place in the line is to go.
    #[must_use]
    pub fn parting(&self) -> Option<Parting> {
        let may_hold = self.doubtful.is_some()
            || matches!(self.aim, Aim::Confirm(_))
            || (self.open && matches!(self.aim, Aim::Attempt(_)));
        (may_hold || self.queued).then_some(Parting {
            claim: self.claim,
            token: None,
            gate: self.gate,
            queued: self.queued,
            keep: None,
            run: None,
        })
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
            && now >= watch.since + watch.ttl
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

    const fn grant(&self, token: Token) -> Grant {
        Grant {
            claim: self.claim,
            token,
        }
    }

    /// When to give up, as far as that is known by now.
    fn limit(&self) -> Option<BootInstant> {
        let Patience { wait, reach } = self.patience;
        if let Some(answered) = self.answered {
            if matches!(self.aim, Aim::Confirm(_)) {
                return None;
            }
            let least = match self.undecided {
                true => LAST_LOOKS,
                false => Duration::ZERO,
            };
            return wait.map(|wait| answered + wait.max(least));
        }
        if self.full {
            // It has been reached; what we wait for is a turn like any other.
            return wait.map(|wait| self.started + wait.max(reach));
        }
        // The first attempt may use its own limits up: one connect and one reply.
        let least = match self.failure {
            None => 2 * self.timing.attempt,
            Some(_) => Duration::ZERO,
        };
        Some(self.started + reach.max(least))
    }

    fn granted(&mut self, now: BootInstant, token: Token, sent: BootInstant) {
        // After a lost answer the grant may be older than this attempt; and an answer that took
        // too long (this process was frozen) may be to a lease that is over. A renewal tells.
        if self.doubtful.is_some() || now >= self.timing.deadline(sent).term {
            self.aim = Aim::Confirm(token);
        } else {
            self.hold(token, sent);
        }
    }

    fn confirmed(&mut self, now: BootInstant, token: Token, sent: BootInstant) {
        if now < self.timing.deadline(sent).term {
            self.hold(token, sent);
        }
    }

    fn hold(&mut self, token: Token, sent: BootInstant) {
        self.end = Some(Hold {
            grant: self.grant(token),
            sent,
            gate: self.gate,
        });
    }

    fn saw(&mut self, now: BootInstant, received: BootInstant, sighting: &Sighting, view: &View) {
        self.seen = Some(sighting.clone());
        self.looked_at = received;
        self.ahead = view.ahead;
        let watch = self.watch(received, sighting);
        match (self.gate, view.keeper) {
            (Gate::Used, Keeper::Line) => {
                self.doubts = 0;
                self.aim = match self.placed {
                    Some(_) => Aim::Stand,
                    None => Aim::Queue,
                };
            }
            // The gate came free between two packets, and we have a place: ask for it.
            (Gate::Used, Keeper::Nobody) if self.aim == Aim::Queue => self.aim = Aim::Stand,
            (Gate::Used, Keeper::Us) => {
                (self.doubts, self.turned_away) = (0, 0);
                self.lead(now, received, sighting, watch);
            }
            // An attempt does not tell of the line: look.
            (Gate::Used, Keeper::Unasked) => {
                self.aim = Aim::Look;
                self.undecided = true;
            }
            (Gate::Used, Keeper::Nobody | Keeper::Stranger) => {
                self.doubts += 1;
                self.aim = Aim::Attempt(None);
                self.undecided = true;
                if self.doubts > DOUBTS {
                    self.poll_from_now_on();
                } else {
                    self.next_at = now + MOMENT;
                }
            }
            (Gate::Absent, _) => self.poll(now, received, sighting, watch),
        }
    }

    /// After a wait at the gate that ended without it: tries again, but not for ever.
    fn turned_away(&mut self, now: BootInstant) {
        self.aim = Aim::Attempt(None);
        self.turned_away += 1;
        if self.turned_away > DOUBTS {
            self.poll_from_now_on();
        } else {
            self.next_at = now + MOMENT;
        }
    }

    /// Gives the gate up for good: what does not work once will not be worth another try.
    fn poll_from_now_on(&mut self) {
        self.gate = Gate::Absent;
        // Our place has to say so, or nobody knows that we are alive.
        self.placed = None;
    }

    /// Since when the row has stood as it stands.
    fn watch(&mut self, received: BootInstant, sighting: &Sighting) -> Watch {
        let watch = match self.watch {
            Some(watch) if watch.version == sighting.version => watch,
            // The lease that we see ends, at the latest, a ttl after the server showed it to us.
            _ => Watch {
                version: sighting.version,
                since: received,
                ttl: sighting.ttl,
            },
        };
        self.watch = Some(watch);
        watch
    }

    /// As the head, who has the gate: watches the row and takes it as soon as that is allowed.
    fn lead(&mut self, now: BootInstant, received: BootInstant, seen: &Sighting, watch: Watch) {
        let allowance = match seen.gated_here {
            true => GATE_ALLOWANCE,
            false => ALLOWANCE,
        };
        let takeable = takeable(received, seen, watch, allowance);
        if self.attempt_if(now, takeable, seen, watch) {
            return;
        }
        self.aim = match self.placed {
            Some(_) => Aim::Look,
            None => Aim::Queue,
        };
        if self.placed.is_some() {
            // A row that looks free and is refused to who has the gate is behind its fence, for as
            // long as a transaction takes: no reason for haste.
            let takeable = match takeable <= now {
                true => now + LONGEST_PAUSE,
                false => takeable,
            };
            self.pause_until(now, takeable, LONGEST_PAUSE);
        }
    }

    /// Without a gate: watches the row, and attempts it when it is our turn.
    fn poll(&mut self, now: BootInstant, received: BootInstant, seen: &Sighting, watch: Watch) {
        let takeable = takeable(received, seen, watch, ALLOWANCE);
        self.lying_free = match self.lying_free {
            _ if takeable > now => None,
            None => Some(now),
            since => since,
        };
        let left_lying = |since| now.since(since) >= PRIVILEGE;
        let ours_to_try = self.ahead == 0 || self.lying_free.is_some_and(left_lying);
        if ours_to_try && self.attempt_if(now, takeable, seen, watch) {
            return;
        }
        let fresh = self
            .placed
            .is_some_and(|placed| now.since(placed) < POLLER_LIFE / 3);
        self.aim = match fresh {
            true => Aim::Look,
            false => Aim::Queue,
        };
        if self.placed.is_some() {
            match self.ahead {
                0 => self.pause_until(now, takeable, LONGEST_PAUSE),
                _ => self.pause_until(now, now + LONGEST_PAUSE_BEHIND, LONGEST_PAUSE_BEHIND),
            }
        }
    }

    /// Aims at an attempt if the row may be taken by now; without a pause, but not without end.
    fn attempt_if(
        &mut self,
        now: BootInstant,
        takeable: BootInstant,
        seen: &Sighting,
        watch: Watch,
    ) -> bool {
        if takeable > now || self.eager >= EAGER_ATTEMPTS {
            self.eager = 0;
            return false;
        }
        self.eager += 1;
        self.undecided = true;
        let ripe = seen.claim.is_some() && now >= watch.since + watch.ttl;
        self.aim = Aim::Attempt(ripe.then_some(seen.version));
        true
    }

    /// Pauses, but not past the moment when the row may be taken.
    fn pause_until(&mut self, now: BootInstant, takeable: BootInstant, longest: Duration) {
        let pause = self.next_pause(longest);
        self.next_at = (now + pause).min(takeable.max(now + MOMENT));
    }

    fn failed(&mut self, now: BootInstant, sent: BootInstant, failure: &Failure) {
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
                (None, true) => Aim::Queue,
                _ => Aim::Attempt(None),
            };
        }
        let pause = match failure.kind {
            FailureKind::Conflict => MOMENT,
            _ => self.next_pause(LONGEST_RETRY),
        };
        self.next_at = now + pause;
        self.failure = Some(failure.clone());
        // No sense in sleeping towards a limit that comes first.
        if self.answered.is_none() && self.next_at >= self.started + self.patience.reach {
            self.patience.reach = Duration::ZERO;
        }
    }

    /// The next pause: half as long again each time up to `longest`, spread by a quarter.
    fn next_pause(&mut self, longest: Duration) -> Duration {
        let pause = self.pause.min(longest);
        self.pause = (pause * 3 / 2).min(longest);
        pause * (192 + u32::from(self.claim.jitter(self.turn)) / 2) / 256
    }
}

/// When the row may be taken, as far as can be told from this look.
fn takeable(
    received: BootInstant,
    seen: &Sighting,
    watch: Watch,
    allowance: Duration,
) -> BootInstant {
    let ripe = watch.since + watch.ttl;
    // The allowance is for a command that may still run; there is none when the lease is only kept.
    let allowance = match seen.kept_until {
        Some(_) => Duration::ZERO,
        None => allowance,
    };
    match (&seen.claim, seen.remainder) {
        (None, _) => received,
        (Some(_), Remainder::Left(left)) => ripe.min(received + left + allowance),
        (Some(_), Remainder::Lapsed(ago)) => ripe.min(received + allowance.saturating_sub(ago)),
    }
}

#[cfg(test)]
mod tests;
