//! Acquiring: when to ask what, and when to give up. A pure state machine, no clock and no I/O.
//!
//! The caller asks [`Acquire::next`] what to do, does it, and hands every reply to
//! [`Acquire::answered`]. The take-over rule lives here and in the attempt's SQL:
//! - a free row is attempted at once;
//! - a lapsed lease is attempted once it lapsed [`ALLOWANCE`] ago by the server's clock;
//! - a row that has not changed for a full ttl *on our own clock* since we first saw it is
//!   attempted under the condition that it still stands so: no clock of the server is trusted.
//!
//! While it waits it only looks (plain SELECTs, 100 ms growing to 1 s), it does not write.

use std::time::Duration;

use crate::lease::instant::BootInstant;
use crate::lease::timing::Timing;
use crate::lease::{Claim, Grant, Token};
use crate::store::{
    ALLOWANCE, Answer, Failure, FailureKind, Question, Remainder, Reply, Sighting, Version, Wish,
};

/// First and longest pause between two looks: fast enough that a short command hands over soon,
/// slow enough that a hundred waiters cost the server a hundred small reads a second.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Longest pause after a failure: a server that restarts is found again within this time.
const LONGEST_RETRY: Duration = Duration::from_secs(2);

/// How often in a row a row that looks free is attempted without a pause in between.
const EAGER_ATTEMPTS: u32 = 3;

/// How long to keep trying.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// In line, from the server's first answer on; none: for ever.
    pub wait: Option<Duration>,
    /// For that first answer. At least one attempt is always made.
    pub reach: Duration,
}

/// What to do next.
#[derive(Debug)]
pub enum Step {
    /// Ask this; exactly one reply must come back.
    Ask(Question),
    /// Nothing before this instant, unless something happens.
    Wait(BootInstant),
    /// The lease is ours; deadlines count from `sent`.
    Granted {
        /// What to renew and release with.
        grant: Grant,
        /// When the request that proves it was sent.
        sent: BootInstant,
    },
    /// Out of time; the row as last seen.
    Held(Box<Sighting>),
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
pub struct Acquire {
    claim: Claim,
    timing: Timing,
    patience: Patience,
    started: BootInstant,
    answered: Option<BootInstant>,
    aim: Aim,
    open: bool,
    next_at: BootInstant,
    turn: u32,
    pause: Duration,
    eager: u32,
    watch: Option<Watch>,
    seen: Option<Sighting>,
    failure: Option<Failure>,
    /// When the first attempt was sent whose outcome we do not know: from then on the row may
    /// be ours without our knowing.
    doubtful: Option<BootInstant>,
    end: Option<(Grant, BootInstant)>,
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
            aim: Aim::Attempt(None),
            open: false,
            next_at: now,
            turn: 0,
            pause: FIRST_PAUSE,
            eager: 0,
            watch: None,
            seen: None,
            failure: None,
            doubtful: None,
            end: None,
            refusal: None,
        }
    }

    /// What to do at `now`.
    pub fn next(&mut self, now: BootInstant) -> Step {
        if let Some((grant, sent)) = self.end {
            return Step::Granted { grant, sent };
        }
        if let Some(failure) = self.refusal.take() {
            return Step::Refused(failure);
        }
        let limit = self.limit();
        if limit.is_some_and(|limit| now >= limit) {
            return match self.seen.take() {
                Some(seen) => Step::Held(Box::new(seen)),
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
        Step::Ask(match self.aim {
            Aim::Attempt(seen) => Question::Attempt(Wish {
                claim: self.claim,
                seen,
            }),
            Aim::Look => Question::Inspect,
            Aim::Confirm(token) => Question::Renew(self.grant(token)),
        })
    }

    /// Takes in the reply to the open question.
    pub fn answered(&mut self, now: BootInstant, reply: &Reply) {
        self.open = false;
        self.next_at = now;
        match &reply.outcome {
            Ok(Answer::Granted(token)) => {
                self.hear(now);
                self.granted(now, *token, reply.sent);
            }
            Ok(Answer::Renewed) => {
                if let Aim::Confirm(token) = self.aim {
                    self.confirmed(now, token, reply.sent);
                }
            }
            Ok(Answer::Seen(sighting) | Answer::Lost(sighting)) => {
                self.hear(now);
                self.saw(now, reply.received, sighting);
            }
            // Not asked for here.
            Ok(Answer::Released | Answer::NotOurs) => {}
            Err(failure) => self.failed(now, reply.sent, failure),
        }
    }

    /// Whether a lease may have been granted to us without our knowing: then the claim has to be
    /// released on giving up.
    #[must_use]
    pub fn may_hold(&self) -> bool {
        self.doubtful.is_some()
            || matches!(self.aim, Aim::Confirm(_))
            || (self.open && matches!(self.aim, Aim::Attempt(_)))
    }

    /// What every attempt is made with.
    #[must_use]
    pub const fn claim(&self) -> Claim {
        self.claim
    }

    /// The row as last seen, while it is another's.
    #[must_use]
    pub const fn seen(&self) -> Option<&Sighting> {
        self.seen.as_ref()
    }

    const fn grant(&self, token: Token) -> Grant {
        Grant {
            claim: self.claim,
            token,
        }
    }

    /// When to give up, as far as that is known by now.
    fn limit(&self) -> Option<BootInstant> {
        if let Some(answered) = self.answered {
            // A row that looks free is worth one more packet even to who would not wait.
            let eager = self.eager > 0 && matches!(self.aim, Aim::Attempt(_));
            if matches!(self.aim, Aim::Confirm(_)) || (eager && self.failure.is_none()) {
                return None;
            }
            return self.patience.wait.map(|wait| answered + wait);
        }
        let first = self.failure.is_none();
        // The first attempt may use its own limits up: one connect and one reply.
        let least = if first {
            2 * self.timing.attempt
        } else {
            Duration::ZERO
        };
        Some(self.started + self.patience.reach.max(least))
    }

    fn hear(&mut self, now: BootInstant) {
        self.answered.get_or_insert(now);
        self.failure = None;
        if self.answered.is_some_and(|first| first == now) {
            self.pause = FIRST_PAUSE;
        }
    }

    fn granted(&mut self, now: BootInstant, token: Token, sent: BootInstant) {
        // After a lost answer the grant may be older than this attempt; and an answer that took
        // too long (this process was frozen) may be to a lease that is over. A renewal tells.
        if self.doubtful.is_some() || now >= self.timing.deadline(sent).term {
            self.aim = Aim::Confirm(token);
        } else {
            self.end = Some((self.grant(token), sent));
        }
    }

    fn confirmed(&mut self, now: BootInstant, token: Token, sent: BootInstant) {
        if now < self.timing.deadline(sent).term {
            self.end = Some((self.grant(token), sent));
        }
    }

    fn saw(&mut self, now: BootInstant, received: BootInstant, sighting: &Sighting) {
        let version = sighting.version;
        let watch = match self.watch {
            Some(watch) if watch.version == version => watch,
            // The lease that we see ends, at the latest, a ttl after the server showed it to us.
            _ => Watch {
                version,
                since: received,
                ttl: sighting.ttl,
            },
        };
        self.watch = Some(watch);
        let ripe = watch.since + watch.ttl;
        let takeable = match (&sighting.claim, sighting.remainder) {
            (None, _) => received,
            (Some(_), Remainder::Left(left)) => ripe.min(received + left + ALLOWANCE),
            (Some(_), Remainder::Lapsed(ago)) => ripe.min(received + ALLOWANCE.saturating_sub(ago)),
        };
        let seen = (sighting.claim.is_some() && now >= ripe).then_some(version);
        self.seen = Some(sighting.clone());
        if takeable <= now && self.eager < EAGER_ATTEMPTS {
            self.eager += 1;
            self.aim = Aim::Attempt(seen);
            return;
        }
        self.eager = 0;
        self.aim = if takeable <= now {
            Aim::Attempt(seen)
        } else {
            Aim::Look
        };
        let pause = self.next_pause(LONGEST_PAUSE);
        self.next_at = (now + pause).min(takeable.max(now + FIRST_PAUSE / 4));
    }

    fn failed(&mut self, now: BootInstant, sent: BootInstant, failure: &Failure) {
        if failure.kind == FailureKind::Unknown && matches!(self.aim, Aim::Attempt(_)) {
            self.doubtful.get_or_insert(sent);
        }
        if failure.kind == FailureKind::NoTables {
            // Somebody dropped them; an attempt makes them anew.
            self.aim = Aim::Attempt(None);
        } else if !failure.kind.is_transient() {
            self.refusal = Some(failure.clone());
            return;
        } else if self.doubtful.is_some() && self.aim == Aim::Look {
            self.aim = Aim::Attempt(None);
        }
        self.eager = 0;
        let pause = if failure.kind == FailureKind::Conflict {
            FIRST_PAUSE / 4
        } else {
            self.next_pause(LONGEST_RETRY)
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
        let pause = self.pause;
        self.pause = (pause * 3 / 2).min(longest);
        pause * (192 + u32::from(self.claim.jitter(self.turn)) / 2) / 256
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
        Answer, Failure, FailureKind, Holder, Question, Remainder, Reply, Sighting, Version, Wish,
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

    fn held(renewals: u64, remainder: Remainder) -> Answer {
        Answer::Seen(Sighting {
            action: "init".parse().expect("a name"),
            claim: Some(Claim::new([1; 16])),
            version: Version {
                token: Token(17),
                renewals,
            },
            holder: Holder::default(),
            ttl: secs(30),
            acquired_at: None,
            held_for: secs(1),
            renewed_ago: secs(1),
            remainder,
        })
    }

    fn unknown() -> Result<Answer, Failure> {
        Err(Failure {
            kind: FailureKind::Unknown,
            message: "timed out".to_owned(),
        })
    }

    /// Goes on from `now`, answering every look with `answer`, until an attempt is made.
    fn until_attempt(
        acquire: &mut Acquire,
        mut now: BootInstant,
        answer: &dyn Fn(BootInstant) -> Answer,
    ) -> (BootInstant, Wish) {
        loop {
            match acquire.next(now) {
                Step::Ask(Question::Attempt(wish)) => return (now, wish),
                Step::Ask(_) => acquire.answered(now, &reply(now, Ok(answer(now)))),
                Step::Wait(until) => now = until,
                other => panic!("unexpected: {other:?}"),
            }
            assert!(now.since(START) < secs(300), "no attempt in 300 s");
        }
    }

    fn first_attempt(acquire: &mut Acquire) {
        assert!(matches!(
            acquire.next(START),
            Step::Ask(Question::Attempt(Wish { seen: None, .. }))
        ));
    }

    #[test]
    fn a_grant_counts_from_before_its_send() {
        let mut acquire = wish(None);
        first_attempt(&mut acquire);
        acquire.answered(
            START + secs(1),
            &reply(START, Ok(Answer::Granted(Token(5)))),
        );
        assert!(matches!(
            acquire.next(START + secs(1)),
            Step::Granted { sent, grant } if sent == START && grant.token == Token(5)
        ));
    }

    #[test]
    fn a_row_that_does_not_change_is_taken_over_a_ttl_after_it_was_first_seen() {
        // The server's clock says that the lease never ends: it must not matter.
        let forever = |_| held(3, Remainder::Left(secs(999_999)));
        let mut acquire = wish(None);
        first_attempt(&mut acquire);
        acquire.answered(START, &reply(START, Ok(forever(START))));
        let (at, wish) = until_attempt(&mut acquire, START, &forever);
        let waited = at.since(START);
        assert!(waited >= secs(30) && waited < secs(31), "{waited:?}");
        assert_eq!(wish.seen.map(|seen| seen.renewals), Some(3));
    }

    #[test]
    fn a_row_that_is_renewed_is_never_taken_over() {
        let renewing =
            |now: BootInstant| held(now.since(START).as_secs() / 5, Remainder::Left(secs(25)));
        let mut acquire = wish(Some(secs(200)));
        first_attempt(&mut acquire);
        acquire.answered(START, &reply(START, Ok(renewing(START))));
        let mut now = START;
        loop {
            match acquire.next(now) {
                Step::Ask(Question::Inspect) => {
                    acquire.answered(now, &reply(now, Ok(renewing(now))));
                }
                Step::Wait(until) => now = until,
                Step::Held(_) => break,
                other => panic!("unexpected: {other:?}"),
            }
        }
        assert_eq!(now.since(START), secs(200));
    }

    #[test]
    fn a_lapsed_lease_is_left_alone_until_the_allowance_is_over() {
        let lapsing = |now: BootInstant| held(0, Remainder::Lapsed(secs(1) + now.since(START)));
        let mut acquire = wish(None);
        first_attempt(&mut acquire);
        acquire.answered(START, &reply(START, Ok(lapsing(START))));
        let (at, wish) = until_attempt(&mut acquire, START, &lapsing);
        let waited = at.since(START);
        assert!(waited >= secs(4) && waited < secs(5), "{waited:?}");
        assert_eq!(wish.seen, None);
    }

    #[test]
    fn who_would_not_wait_is_told_at_once() {
        let mut acquire = wish(Some(Duration::ZERO));
        first_attempt(&mut acquire);
        acquire.answered(START, &reply(START, Ok(held(0, Remainder::Left(secs(9))))));
        assert!(matches!(acquire.next(START), Step::Held(_)));
    }

    #[test]
    fn after_a_lost_answer_a_grant_is_confirmed_by_a_renewal_before_it_counts() {
        let mut acquire = wish(None);
        first_attempt(&mut acquire);
        let later = START + secs(2);
        acquire.answered(later, &reply(START, unknown()));
        assert!(acquire.may_hold());
        let (at, _) = until_attempt(&mut acquire, later, &|_| unreachable!());
        acquire.answered(at, &reply(at, Ok(Answer::Granted(Token(5)))));
        assert!(matches!(
            acquire.next(at),
            Step::Ask(Question::Renew(grant)) if grant.token == Token(5)
        ));
        acquire.answered(at, &reply(at, Ok(Answer::Renewed)));
        assert!(matches!(acquire.next(at), Step::Granted { sent, .. } if sent == at));
    }

    #[test]
    fn a_grant_that_comes_too_late_is_confirmed_first() {
        let mut acquire = wish(None);
        first_attempt(&mut acquire);
        let late = START + secs(25);
        acquire.answered(late, &reply(START, Ok(Answer::Granted(Token(5)))));
        assert!(matches!(acquire.next(late), Step::Ask(Question::Renew(_))));
    }

    #[test]
    fn a_server_that_is_away_is_tried_until_the_time_for_it_is_over() {
        let mut acquire = wish(None);
        let mut now = START;
        let mut tries = 0;
        let failure = loop {
            match acquire.next(now) {
                Step::Ask(_) => {
                    tries += 1;
                    let failure = Failure {
                        kind: FailureKind::Unreachable,
                        message: "refused".to_owned(),
                    };
                    acquire.answered(now, &reply(now, Err(failure)));
                }
                Step::Wait(until) => now = until,
                Step::Unreachable(failure) => break failure,
                other => panic!("unexpected: {other:?}"),
            }
        };
        let waited = now.since(START);
        assert!(waited >= secs(57) && waited <= secs(60), "{waited:?}");
        assert!(tries > 25, "{tries}");
        assert_eq!(
            failure.map(|failure| failure.message),
            Some("refused".to_owned())
        );
    }

    #[test]
    fn a_refusal_ends_it_at_once() {
        let mut acquire = wish(None);
        first_attempt(&mut acquire);
        let failure = Failure {
            kind: FailureKind::Denied,
            message: "no".to_owned(),
        };
        acquire.answered(START, &reply(START, Err(failure.clone())));
        assert!(matches!(acquire.next(START), Step::Refused(refusal) if refusal == failure));
    }
}
