//! Claims about acquiring: a server made of closures, a clock made of numbers.

use std::time::Duration;

use super::{Acquire, Step, WaitLimits};
use crate::lease::instant::BootInstant;
use crate::lease::timing::Timing;
use crate::lease::{Claim, Token};
use crate::store::{
    Answer, Failure, FailureKind, Gate, Holder, Keeper, Mode, Question, Remainder, Reply, Sighting,
    Version, View, Wish,
};

const START: BootInstant = BootInstant::new(Duration::from_secs(1000));
const OURS: Claim = Claim::new([9; 16]);

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn wish(wait: Option<Duration>) -> Acquire {
    let timing = Timing::new(secs(30), None).expect("fits");
    let limits = WaitLimits {
        wait,
        connect: secs(60),
    };
    Acquire::new(OURS, timing, limits, START)
}

fn reply(sent: BootInstant, outcome: Result<Answer, Failure>) -> Reply {
    Reply {
        sent,
        received: sent,
        server_time: None,
        could_grant: true,
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
        first_for: Some(secs(1)),
    }
}

/// The version that an attempt takes over.
fn taken_over(wish: &Wish) -> Option<Version> {
    match wish.mode {
        Mode::TakeOver { version, .. } => Some(version),
        Mode::First | Mode::IfFree => None,
    }
}

const LEFT: Remainder = Remainder::Left(Duration::from_secs(25));

/// What a test's server answers to an attempt, a look or a place in the line.
type Server<'a> = &'a dyn Fn(BootInstant) -> (Sighting, View);

/// Answers `question` as `server` does.
fn answer(acquire: &mut Acquire, now: BootInstant, server: Server, question: &Question) {
    let (sighting, view) = server(now);
    let answer = match question {
        Question::Queue(_) => Answer::Queued(sighting, view),
        Question::Attempt(_) | Question::Inspect(_) => Answer::Seen(sighting, view),
        other => panic!("unexpected: {other:?}"),
    };
    acquire.answered(now, &reply(now, Ok(answer)));
}

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
            Step::Ask(question) => answer(acquire, now, server, &question),
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
            mode: Mode::First,
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
        Step::Granted(lease) if lease.sent == START && lease.grant.token == Token(5)
    ));
}

#[test]
fn who_is_not_granted_the_lease_takes_a_place_and_waits_at_the_gate_without_a_word() {
    let server = |_| (sighting(0, LEFT), view(Keeper::Line, 3));
    let mut acquire = wish(None);
    first_attempt(&mut acquire, &server);
    assert!(matches!(acquire.next(START), Step::Ask(Question::Stand(_))));
    let later = START + secs(3600);
    assert!(matches!(acquire.next(later), Step::Wait(_)));
    assert_eq!(acquire.seen().map(|(_, ahead)| ahead), Some(3));
    acquire.answered(later, &reply(later, Ok(Answer::Granted(Token(5)))));
    assert!(matches!(acquire.next(later), Step::Granted(lease) if lease.sent == later));
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
    assert_eq!(taken_over(&wish).map(|seen| seen.renewals), Some(3));
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
                Step::Ask(question) => {
                    if let Question::Attempt(wish) = &question {
                        assert_eq!(taken_over(wish), None);
                    }
                    answer(&mut acquire, now, &server, &question);
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
        assert_eq!(taken_over(&wish).map(|seen| seen.renewals), Some(0));
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
        assert_eq!(taken_over(&wish), None);
        assert!(now.since(START) < Duration::from_millis(200));
        acquire.answered(now, &reply(now, Ok(Answer::Granted(Token(1)))));
        assert!(matches!(acquire.next(now), Step::Granted(lease) if lease.gate == Gate::Absent));
    }
}

#[test]
fn a_stranger_at_the_gate_is_waited_for_up_to_a_ttl() {
    let server = |_| (sighting(0, LEFT), view(Keeper::Stranger, 0));
    for (wait, expected) in [(None, 30), (Some(secs(200)), 30), (Some(secs(20)), 10)] {
        let mut acquire = wish(wait);
        first_attempt(&mut acquire, &server);
        let (mut now, mut stands) = (START, Vec::new());
        while acquire.gate() == Gate::Used {
            match acquire.next(now) {
                Step::Ask(Question::Stand(turn)) => {
                    let limit = turn.patience.expect("a limit");
                    stands.push(limit);
                    now = now + limit;
                    acquire.answered(now, &reply(now, Ok(Answer::TurnedAway)));
                }
                Step::Ask(question) => self::answer(&mut acquire, now, &server, &question),
                Step::Wait(until) => now = until,
                other => panic!("unexpected: {other:?}"),
            }
        }
        assert_eq!(stands, [secs(expected)]);
    }
}

#[test]
fn a_stranger_at_the_gate_that_gets_the_lease_is_waited_for_like_any_holder() {
    let server = |now: BootInstant| {
        let keeper = match now.since(START) < secs(2) {
            true => Keeper::Stranger,
            false => Keeper::Line,
        };
        (sighting(0, LEFT), view(keeper, 0))
    };
    let mut acquire = wish(None);
    first_attempt(&mut acquire, &server);
    let (mut now, mut limits) = (START, Vec::new());
    while limits.len() < 2 {
        match acquire.next(now) {
            Step::Ask(Question::Stand(turn)) => {
                limits.push(turn.patience);
                now = now + secs(3);
                acquire.answered(now, &reply(now, failure(FailureKind::Unknown)));
            }
            Step::Ask(question) => self::answer(&mut acquire, now, &server, &question),
            Step::Wait(until) => now = until,
            other => panic!("unexpected: {other:?}"),
        }
    }
    assert_eq!(limits, [Some(secs(30)), None]);
}

#[test]
fn a_gate_that_is_granted_in_words_only_is_given_up() {
    let server = |_| (sighting(0, LEFT), view(Keeper::Line, 0));
    for answer in [
        Answer::TurnedAway,
        Answer::Seen(sighting(0, LEFT), view(Keeper::Line, 0)),
    ] {
        let mut acquire = wish(None);
        first_attempt(&mut acquire, &server);
        let (mut now, mut stands) = (START, 0);
        while acquire.gate() == Gate::Used {
            match acquire.next(now) {
                Step::Ask(Question::Stand(_)) => {
                    stands += 1;
                    acquire.answered(now, &reply(now, Ok(answer.clone())));
                }
                Step::Ask(question) => self::answer(&mut acquire, now, &server, &question),
                Step::Wait(until) => now = until,
                other => panic!("unexpected: {other:?}"),
            }
            assert!(stands < 10, "it waits at the gate again and again");
        }
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
    for round in 1..4 {
        let now = START + secs(20 * round);
        assert!(matches!(acquire.next(now), Step::Ask(Question::Stand(_))));
        acquire.answered(now, &reply(now, failure(FailureKind::Unknown)));
        assert!(acquire.parting().is_some_and(|parting| parting.queued));
        // The failure may have come after the gate, in the attempt: look whether it is ours.
        let later = now + secs(5);
        assert!(matches!(
            acquire.next(later),
            Step::Ask(Question::Attempt(_))
        ));
        let seen = Answer::Seen(sighting(0, LEFT), view(Keeper::Line, 3));
        acquire.answered(later, &reply(later, Ok(seen)));
    }
}

/// Fails the first attempt with `kind` at `at`, and answers the next one that the row is ours already.
fn unknown_grant(acquire: &mut Acquire, kind: FailureKind, at: BootInstant) -> BootInstant {
    ask_first(acquire);
    acquire.answered(at, &reply(START, failure(kind)));
    assert!(acquire.parting().is_some(), "{kind:?}");
    let (at, _) = until_attempt(acquire, at, &|_| unreachable!());
    acquire.answered(at, &reply(at, Ok(Answer::AlreadyOurs(Token(5)))));
    at
}

const SENT: [FailureKind; 6] = [
    FailureKind::Unreachable,
    FailureKind::Full,
    FailureKind::Conflict,
    FailureKind::Unknown,
    FailureKind::NoTables,
    FailureKind::NoGate,
];

#[test]
fn a_grant_of_unknown_time_is_confirmed_by_a_renewal_whatever_the_error_was() {
    for kind in SENT {
        let mut acquire = wish(None);
        let at = unknown_grant(&mut acquire, kind, START + secs(2));
        assert!(matches!(
            acquire.next(at),
            Step::Ask(Question::Renew(grant, _)) if grant.token == Token(5)
        ));
        acquire.answered(at, &reply(at, Ok(Answer::Renewed)));
        assert!(matches!(acquire.next(at), Step::Granted(lease) if lease.sent == at));
    }
}

#[test]
fn a_grant_that_may_be_over_is_given_back_and_asked_for_again() {
    for (failed, confirmed) in [(secs(29), secs(29)), (secs(2), secs(30))] {
        let mut acquire = wish(None);
        unknown_grant(&mut acquire, FailureKind::Unknown, START + failed);
        let mut now = START + confirmed;
        if failed < confirmed {
            // The confirmation gets no answer before the lease is over.
            assert!(matches!(
                acquire.next(START + secs(3)),
                Step::Ask(Question::Renew(..))
            ));
            acquire.answered(now, &reply(now, failure(FailureKind::Unknown)));
        }
        let parting = loop {
            match acquire.next(now) {
                Step::Ask(Question::Release(parting)) => break parting,
                Step::Wait(until) => now = until,
                other => panic!("unexpected: {other:?}"),
            }
        };
        assert_eq!((parting.claim, parting.token), (OURS, Some(Token(5))));
        acquire.answered(now, &reply(now, Ok(Answer::Released)));
        let (at, _) = until_attempt(&mut acquire, now, &|_| unreachable!());
        acquire.answered(at, &reply(at, Ok(Answer::Granted(Token(6)))));
        assert!(matches!(acquire.next(at), Step::Granted(lease) if lease.grant.token == Token(6)));
    }
}

#[test]
fn a_confirmation_without_an_answer_ends_with_the_users_time() {
    for (wait, connect, most) in [
        (Some(secs(0)), 60, Duration::from_millis(300)),
        (Some(secs(1)), 60, Duration::from_millis(1_050)),
        (None, 1, Duration::from_millis(1_050)),
        (None, 60, secs(30)),
    ] {
        let mut acquire = wish(wait);
        acquire.limits.connect = secs(connect);
        let began = unknown_grant(&mut acquire, FailureKind::Unknown, START);
        let mut now = began;
        let mut is_open = false;
        let over = loop {
            match acquire.next(now) {
                Step::Ask(Question::Renew(..)) => is_open = true,
                Step::Wait(until) => now = until,
                over => break over,
            }
            if is_open && now.since(began) >= secs(29) {
                // The database thread gives up.
                is_open = false;
                acquire.answered(now, &reply(now, failure(FailureKind::Unknown)));
            }
        };
        match (wait, connect) {
            (None, 60) => assert!(matches!(over, Step::Ask(Question::Release(_))), "{over:?}"),
            _ => assert!(matches!(over, Step::Unreachable(_)), "{over:?}"),
        }
        assert!(now.since(began) <= most, "{wait:?}: {:?}", now.since(began));
        assert!(acquire.parting().is_some());
    }
}

#[test]
fn a_waiter_whose_own_record_was_revoked_frees_it_and_asks_again_without_haste() {
    let mut acquire = wish(None);
    let revoked = Sighting {
        claim: Some(OURS),
        broken_ago: Some(secs(1)),
        ..sighting(0, LEFT)
    };
    ask_first(&mut acquire);
    let (mut now, mut questions, mut released) = (START, 0, 0);
    acquire.answered(now, &reply(now, failure(FailureKind::Unknown)));
    // A server on which the record comes back again and again.
    while now.since(START) < secs(10) {
        match acquire.next(now) {
            Step::Ask(question) => {
                questions += 1;
                let answer = match question {
                    Question::Release(parting) => {
                        assert_eq!(parting.token, Some(Token(17)));
                        released += 1;
                        Answer::Released
                    }
                    Question::Attempt(_) => Answer::Seen(revoked.clone(), view(Keeper::Us, 0)),
                    other => panic!("unexpected: {other:?}"),
                };
                acquire.answered(now, &reply(now, Ok(answer)));
            }
            Step::Wait(until) => now = until,
            other => panic!("unexpected: {other:?}"),
        }
    }
    assert!(released > 0);
    assert!(
        questions <= 50,
        "{questions} questions of up to two packets in 10 s"
    );
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
    assert!(matches!(acquire.next(START), Step::Ask(Question::Stand(_))));
    acquire.answered(START, &reply(START, failure(FailureKind::NotAdmitted)));
    assert!(matches!(acquire.next(START), Step::Wait(_)));
    let mut newcomer = wish(None);
    ask_first(&mut newcomer);
    newcomer.answered(START, &reply(START, failure(FailureKind::NotAdmitted)));
    assert!(matches!(newcomer.next(START), Step::Refused(_)));
}
