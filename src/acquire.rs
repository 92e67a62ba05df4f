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
    Parting, Place, Question, Remainder, Reply, Sighting, Turn, Version, View, Wish,
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
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// In line, from the server's first answer on; none: for ever.
    pub wait: Option<Duration>,
    /// For that first answer. At least one attempt is always made.
    pub reach: Duration,
}

/// A lease that is ours, and what else we have on its account.
#[derive(Debug, Clone, Copy)]
pub struct Hold {
    /// What to renew and release with.
    pub grant: Grant,
    /// When the request that proves it was sent: deadlines count from here.
    pub sent: BootInstant,
    /// Whether the gate is to be taken anew on a new connection and released in the end.
    pub gate: Gate,
}

impl Hold {
    /// What to give up in the end.
    #[must_use]
    pub const fn parting(&self) -> Parting {
        Parting {
            claim: self.grant.claim,
            token: Some(self.grant.token),
            gate: self.gate,
            // It went with the grant.
            queued: false,
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
    /// Out of time; the row as last seen, and when that was.
    Held(Box<Sighting>, BootInstant),
    /// The server did not answer in time; the last failure, if there was one.
    Unreachable(Option<Failure>),
    /// The server said no in a way that waiting would not change.
    Refused(Failure),
}

/// What the next question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aim {
    Attempt(Option<Version>),
    Look,
    Queue,
    Stand,
    /// Granted, but under doubt about when: renew before anything is started.
    Confirm(Token),
}

/// A version of the row, when we first saw it and how long its lease is.
#[derive(Debug, Clone, Copy)]
struct Watch {
    version: Version,
    since: BootInstant,
    ttl: Duration,
}

/// The state of one process's wish for one action.
#[derive(Debug)]
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
    gone: Vec<GonePlace>,
    /// Without a gate, since when the row could have been taken.
    lying_free: Option<BootInstant>,
    failure: Option<Failure>,
    /// When the first attempt was sent whose outcome we do not know: from then on the row may
    /// be ours without our knowing.
    doubtful: Option<BootInstant>,
    end: Option<Hold>,
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
            gone: Vec::new(),
            lying_free: None,
            failure: None,
            doubtful: None,
            end: None,
            refusal: None,
        }
    }

    /// What to do at `now`.
    pub fn next(&mut self, now: BootInstant) -> Step {
        if let Some(hold) = self.end {
            return Step::Granted(hold);
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
                // The server said that the gate is ours, and it is not: it only pretends.
                let pretended = self.aim == Aim::Stand && view.keeper != Keeper::Us;
                self.saw(now, reply.received, sighting, view);
                if pretended {
                    self.turned_away(now);
                }
            }
            Ok(Answer::Queued(sighting, view)) => {
                self.placed = Some(now);
                self.gone.clone_from(&view.gone);
                self.saw(now, reply.received, sighting, view);
            }
            Ok(Answer::TurnedAway) => self.turned_away(now),
            Ok(Answer::Lost(sighting)) => {
                self.seen = Some(sighting.clone());
                self.aim = Aim::Attempt(None);
            }
            // Not asked for here.
            Ok(Answer::Released | Answer::NotOurs) => {}
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
            (Gate::Used, Keeper::Nobody | Keeper::Stranger | Keeper::Unasked) => {
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
    match (&seen.claim, seen.remainder) {
        (None, _) => received,
        (Some(_), Remainder::Left(left)) => ripe.min(received + left + allowance),
        (Some(_), Remainder::Lapsed(ago)) => ripe.min(received + allowance.saturating_sub(ago)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Acquire, Patience, Step};
    use crate::lease::instant::BootInstant;
    use crate::lease::timing::Timing;
    use crate::lease::{Claim, Token};
    use crate::store::{
        Answer, Failure, FailureKind, Gate, Holder, Keeper, Question, Remainder, Reply, Sighting,
        Version, View, Wish,
    };

    const START: BootInstant = BootInstant::new(Duration::from_secs(1000));

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn wish(wait: Option<Duration>) -> Acquire {
        let timing = Timing::new(secs(30), None).expect("fits");
        let patience = Patience {
            wait,
            reach: secs(60),
        };
        Acquire::new(Claim::new([9; 16]), timing, patience, START)
    }

    fn reply(sent: BootInstant, outcome: Result<Answer, Failure>) -> Reply {
        Reply {
            sent,
            received: sent,
            server_time: None,
            outcome,
        }
    }

    fn failure(kind: FailureKind) -> Result<Answer, Failure> {
        Err(Failure {
            kind,
            message: "a failure".to_owned(),
        })
    }

    fn sighting(renewals: u64, remainder: Remainder) -> Sighting {
        Sighting {
            claim: Some(Claim::new([1; 16])),
            version: Version {
                token: Token(17),
                renewals,
            },
            holder: Holder::default(),
            ttl: secs(30),
            held_for: secs(1),
            renewed_ago: secs(1),
            remainder,
            ..Sighting::never_held("init".parse().expect("a name"))
        }
    }

    fn view(keeper: Keeper, ahead: u64) -> View {
        View {
            keeper,
            ahead,
            gone: Vec::new(),
        }
    }

    const LEFT: Remainder = Remainder::Left(Duration::from_secs(25));

    /// What a test's server answers to a look or a place in the line.
    type Server<'a> = &'a dyn Fn(BootInstant) -> (Sighting, View);

    /// Goes on from `now` with a server that answers as `server` does and lets nobody through the
    /// gate, up to the next attempt after the first.
    fn until_attempt(
        acquire: &mut Acquire,
        mut now: BootInstant,
        server: Server,
    ) -> (BootInstant, Wish) {
        loop {
            match acquire.next(now) {
                Step::Ask(Question::Attempt(wish)) => return (now, wish),
                Step::Ask(Question::Inspect(_)) => {
                    let (sighting, view) = server(now);
                    acquire.answered(now, &reply(now, Ok(Answer::Seen(sighting, view))));
                }
                Step::Ask(Question::Queue(_)) => {
                    let (sighting, view) = server(now);
                    acquire.answered(now, &reply(now, Ok(Answer::Queued(sighting, view))));
                }
                Step::Wait(until) => now = until,
                other => panic!("unexpected: {other:?}"),
            }
            assert!(now.since(START) < secs(300), "no attempt in 300 s");
        }
    }

    /// Makes the first attempt and answers it as `server` does.
    fn first_attempt(acquire: &mut Acquire, server: Server) {
        ask_first(acquire);
        let (sighting, view) = server(START);
        acquire.answered(START, &reply(START, Ok(Answer::Seen(sighting, view))));
    }

    fn ask_first(acquire: &mut Acquire) {
        assert!(matches!(
            acquire.next(START),
            Step::Ask(Question::Attempt(Wish {
                seen: None,
                gate: Gate::Used,
                ..
            }))
        ));
    }

    #[test]
    fn a_grant_counts_from_before_its_send() {
        let mut acquire = wish(None);
        ask_first(&mut acquire);
        acquire.answered(
            START + secs(1),
            &reply(START, Ok(Answer::Granted(Token(5)))),
        );
        assert!(matches!(
            acquire.next(START + secs(1)),
            Step::Granted(hold) if hold.sent == START && hold.grant.token == Token(5)
        ));
    }

    #[test]
    fn who_is_not_granted_the_lease_takes_a_place_and_waits_at_the_gate_without_a_word() {
        let server = |_| (sighting(0, LEFT), view(Keeper::Line, 3));
        let mut acquire = wish(None);
        first_attempt(&mut acquire, &server);
        assert!(matches!(acquire.next(START), Step::Ask(Question::Queue(_))));
        let queued = Answer::Queued(sighting(0, LEFT), view(Keeper::Line, 3));
        acquire.answered(START, &reply(START, Ok(queued)));
        assert!(matches!(acquire.next(START), Step::Ask(Question::Stand(_))));
        let later = START + secs(3600);
        assert!(matches!(acquire.next(later), Step::Wait(_)));
        assert!(acquire.is_standing());
        assert_eq!(acquire.seen().map(|(_, ahead)| ahead), Some(3));
        acquire.answered(later, &reply(later, Ok(Answer::Granted(Token(5)))));
        assert!(matches!(acquire.next(later), Step::Granted(hold) if hold.sent == later));
    }

    #[test]
    fn the_head_takes_a_row_that_does_not_change_a_ttl_after_it_first_saw_it() {
        // The server's clock says that the lease never ends: it must not matter.
        let forever = Remainder::Left(secs(999_999));
        let server = |_| (sighting(3, forever), view(Keeper::Us, 0));
        let mut acquire = wish(None);
        first_attempt(&mut acquire, &server);
        let (at, wish) = until_attempt(&mut acquire, START, &server);
        let waited = at.since(START);
        assert!(waited >= secs(30) && waited < secs(31), "{waited:?}");
        assert_eq!(wish.seen.map(|seen| seen.renewals), Some(3));
    }

    #[test]
    fn a_row_that_is_renewed_is_never_taken_over() {
        for keeper in [Keeper::Us, Keeper::Nobody] {
            let server = |now: BootInstant| {
                (
                    sighting(now.since(START).as_secs() / 5, LEFT),
                    view(keeper, 0),
                )
            };
            let mut acquire = wish(Some(secs(200)));
            first_attempt(&mut acquire, &server);
            let mut now = START;
            loop {
                match acquire.next(now) {
                    Step::Ask(Question::Attempt(wish)) => {
                        assert_eq!(wish.seen, None);
                        let (sighting, view) = server(now);
                        acquire.answered(now, &reply(now, Ok(Answer::Seen(sighting, view))));
                    }
                    Step::Ask(Question::Inspect(_)) => {
                        let (sighting, view) = server(now);
                        acquire.answered(now, &reply(now, Ok(Answer::Seen(sighting, view))));
                    }
                    Step::Ask(Question::Queue(_)) => {
                        let (sighting, view) = server(now);
                        acquire.answered(now, &reply(now, Ok(Answer::Queued(sighting, view))));
                    }
                    Step::Wait(until) => now = until,
                    Step::Held(..) => break,
                    other => panic!("unexpected: {other:?}"),
                }
            }
            assert_eq!(now.since(START), secs(200));
        }
    }

    #[test]
    fn a_lapsed_lease_is_left_alone_until_the_allowance_is_over() {
        let lapsing = |gated_here: bool| {
            move |now: BootInstant| {
                let sighting = Sighting {
                    gated_here,
                    ..sighting(0, Remainder::Lapsed(now.since(START)))
                };
                (sighting, view(Keeper::Us, 0))
            }
        };
        for (gated_here, least, most) in [(true, 0.9, 1.0), (false, 5.0, 5.1)] {
            let server = lapsing(gated_here);
            let mut acquire = wish(None);
            first_attempt(&mut acquire, &server);
            let (at, wish) = until_attempt(&mut acquire, START, &server);
            let waited = at.since(START).as_secs_f64();
            assert!(waited >= least && waited < most, "{waited}");
            assert_eq!(wish.seen, None);
        }
    }

    #[test]
    fn who_would_not_wait_is_told_at_once() {
        let mut acquire = wish(Some(Duration::ZERO));
        first_attempt(&mut acquire, &|_| {
            (sighting(0, LEFT), view(Keeper::Line, 0))
        });
        assert!(matches!(acquire.next(START), Step::Held(..)));
    }

    #[test]
    fn a_gate_that_a_stranger_keeps_or_that_nobody_can_take_is_given_up() {
        for keeper in [Keeper::Stranger, Keeper::Nobody] {
            let server = |_| {
                (
                    Sighting::never_held("init".parse().expect("a name")),
                    view(keeper, 0),
                )
            };
            let mut acquire = wish(Some(Duration::ZERO));
            first_attempt(&mut acquire, &server);
            let mut now = START;
            let wish = loop {
                let (at, wish) = until_attempt(&mut acquire, now, &server);
                now = at;
                if wish.gate == Gate::Absent {
                    break wish;
                }
                let (sighting, view) = server(now);
                acquire.answered(now, &reply(now, Ok(Answer::Seen(sighting, view))));
            };
            assert_eq!(wish.seen, None);
            assert!(now.since(START) < Duration::from_millis(100));
            acquire.answered(now, &reply(now, Ok(Answer::Granted(Token(1)))));
            assert!(matches!(acquire.next(now), Step::Granted(hold) if hold.gate == Gate::Absent));
        }
    }

    #[test]
    fn without_a_gate_the_first_in_line_attempts_and_the_others_only_after_a_while() {
        let free = |ahead: u64| {
            move |now: BootInstant| {
                let sighting = match now.since(START) < secs(10) {
                    true => sighting(0, Remainder::Left(secs(25))),
                    false => Sighting::never_held("init".parse().expect("a name")),
                };
                (sighting, view(Keeper::Unasked, ahead))
            }
        };
        for (ahead, least, most) in [(0, 10.0, 11.3), (2, 13.0, 18.0)] {
            let server = free(ahead);
            let mut acquire = wish(None);
            ask_first(&mut acquire);
            acquire.answered(START, &reply(START, failure(FailureKind::NoGate)));
            let (at, wish) = until_attempt(&mut acquire, START, &server);
            assert_eq!((at, wish.gate), (START, Gate::Absent));
            let (sighting, view) = server(START);
            acquire.answered(START, &reply(START, Ok(Answer::Seen(sighting, view))));
            let (at, _) = until_attempt(&mut acquire, START, &server);
            let waited = at.since(START).as_secs_f64();
            assert!(waited >= least && waited < most, "{ahead} ahead: {waited}");
        }
    }

    #[test]
    fn a_waiter_that_lost_its_connection_takes_up_its_place_again() {
        let server = |_| (sighting(0, LEFT), view(Keeper::Line, 3));
        let mut acquire = wish(None);
        first_attempt(&mut acquire, &server);
        for _ in 0..3 {
            assert!(matches!(
                acquire.next(START + secs(9)),
                Step::Ask(Question::Queue(_))
            ));
            let queued = Answer::Queued(sighting(0, LEFT), view(Keeper::Line, 3));
            acquire.answered(START, &reply(START, Ok(queued)));
            assert!(matches!(acquire.next(START), Step::Ask(Question::Stand(_))));
            acquire.answered(START, &reply(START, failure(FailureKind::Unknown)));
            assert!(acquire.parting().is_some_and(|parting| parting.queued));
            // The failure may have come after the gate, in the attempt: look whether it is ours.
            let later = START + secs(5);
            assert!(matches!(
                acquire.next(later),
                Step::Ask(Question::Attempt(_))
            ));
            let seen = Answer::Seen(sighting(0, LEFT), view(Keeper::Line, 3));
            acquire.answered(later, &reply(later, Ok(seen)));
        }
    }

    #[test]
    fn after_a_lost_answer_a_grant_is_confirmed_by_a_renewal_before_it_counts() {
        let mut acquire = wish(None);
        ask_first(&mut acquire);
        let later = START + secs(2);
        acquire.answered(later, &reply(START, failure(FailureKind::Unknown)));
        assert!(acquire.parting().is_some());
        let (at, _) = until_attempt(&mut acquire, later, &|_| unreachable!());
        acquire.answered(at, &reply(at, Ok(Answer::Granted(Token(5)))));
        assert!(matches!(
            acquire.next(at),
            Step::Ask(Question::Renew(grant, _)) if grant.token == Token(5)
        ));
        acquire.answered(at, &reply(at, Ok(Answer::Renewed)));
        assert!(matches!(acquire.next(at), Step::Granted(hold) if hold.sent == at));
    }

    #[test]
    fn a_grant_that_comes_too_late_is_confirmed_first() {
        let mut acquire = wish(None);
        ask_first(&mut acquire);
        let late = START + secs(25);
        acquire.answered(late, &reply(START, Ok(Answer::Granted(Token(5)))));
        assert!(matches!(acquire.next(late), Step::Ask(Question::Renew(..))));
    }

    /// Answers every question with a failure of `kind` until the end; how long that takes and how
    /// many questions were asked.
    fn fail_on(acquire: &mut Acquire, kind: FailureKind, most: Duration) -> (Duration, u32) {
        let mut now = START;
        let mut tries = 0;
        while now.since(START) < most {
            match acquire.next(now) {
                Step::Ask(_) => {
                    tries += 1;
                    acquire.answered(now, &reply(now, failure(kind)));
                }
                Step::Wait(until) => now = until,
                Step::Unreachable(Some(_)) => break,
                other => panic!("unexpected: {other:?}"),
            }
        }
        (now.since(START), tries)
    }

    #[test]
    fn a_server_that_is_away_is_tried_until_the_time_for_it_is_over() {
        let (waited, tries) = fail_on(&mut wish(None), FailureKind::Unreachable, secs(200));
        assert!(waited >= secs(57) && waited <= secs(60), "{waited:?}");
        assert!(tries > 25, "{tries}");
    }

    #[test]
    fn a_server_that_is_full_is_waited_for_like_a_lock() {
        let (waited, _) = fail_on(&mut wish(None), FailureKind::Full, secs(200));
        assert!(waited >= secs(200), "{waited:?}");
        let (waited, _) = fail_on(&mut wish(Some(secs(90))), FailureKind::Full, secs(200));
        assert!(waited >= secs(87) && waited <= secs(90), "{waited:?}");
    }

    #[test]
    fn a_refusal_ends_it_at_once() {
        let mut acquire = wish(None);
        ask_first(&mut acquire);
        acquire.answered(START, &reply(START, failure(FailureKind::Denied)));
        assert!(matches!(acquire.next(START), Step::Refused(_)));
    }

    #[test]
    fn who_was_let_in_before_is_not_put_off_by_a_server_that_does_not_know_it() {
        let server = |_| (sighting(0, LEFT), view(Keeper::Line, 0));
        let mut acquire = wish(None);
        first_attempt(&mut acquire, &server);
        assert!(matches!(acquire.next(START), Step::Ask(Question::Queue(_))));
        acquire.answered(START, &reply(START, failure(FailureKind::NotAdmitted)));
        assert!(matches!(acquire.next(START), Step::Wait(_)));
        let mut newcomer = wish(None);
        ask_first(&mut newcomer);
        newcomer.answered(START, &reply(START, failure(FailureKind::NotAdmitted)));
        assert!(matches!(newcomer.next(START), Step::Refused(_)));
    }
}
