//! The arithmetic of deadlines, for every lease that is accepted and any course of events: on the
//! pure state machines, with a clock made of numbers.
//!
//! A machine that sleeps is a leap of that clock: all of dlock's time is `CLOCK_BOOTTIME`, which
//! counts sleep in, so that a leap is all that there is to see of it.

use std::time::Duration;

use dlock::lease::instant::BootInstant;
use dlock::lease::timing::Timing;
use dlock::lease::{Claim, Grant, Token};
use dlock::renew::{Life, Renewals};
use dlock::store::{Answer, Failure, FailureKind, Gate, Reply};
use dlock::supervise::{Act, Input, KILL, Supervisor, TERM};
use proptest::prelude::*;

const START: BootInstant = BootInstant::new(Duration::from_secs(1000));

fn millis(number: u64) -> Duration {
    Duration::from_millis(number)
}

prop_compose! {
    /// A lease that is accepted, from the shortest to a few minutes.
    fn accepted()(
        ttl in 1_500..300_000_u64,
        grace in prop::option::of(0..20_000_u64),
    ) -> Option<Timing> {
        Timing::new(millis(ttl), grace.map(millis)).ok()
    }
}

/// What happens to a renewal: after a pause it is sent if it is due, and answered after a while.
#[derive(Debug, Clone, Copy)]
struct Round {
    pause: Duration,
    answer: Duration,
    renewed: bool,
}

fn round() -> impl Strategy<Value = Round> {
    // A long pause is a machine that sleeps, a long answer a network that does.
    let length = prop_oneof![4 => 0..2_000_u64, 1 => 0..100_000_u64];
    (length.clone(), length, any::<bool>()).prop_map(|(pause, answer, renewed)| Round {
        pause: millis(pause),
        answer: millis(answer),
        renewed,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn of_every_accepted_lease_the_command_is_dead_a_margin_before_its_end(
        timing in accepted(), sent in 0..1_000_000_u64,
    ) {
        let Some(timing) = timing else { return Ok(()) };
        let sent = BootInstant::new(millis(sent));
        let deadline = timing.deadline(sent);
        let end = sent + timing.ttl;
        prop_assert!(sent + timing.interval + 3 * timing.attempt <= deadline.term);
        prop_assert_eq!(deadline.term + timing.grace, deadline.kill);
        prop_assert!(deadline.kill + millis(250) <= end);
        prop_assert!(deadline.kill + timing.ttl / 60 <= end || timing.margin == Duration::from_secs(5));
    }

    #[test]
    fn nothing_is_renewed_after_the_deadline_and_only_what_was_read_back_moves_it(
        timing in accepted(), rounds in prop::collection::vec(round(), 1..60),
    ) {
        let Some(timing) = timing else { return Ok(()) };
        let grant = Grant { claim: Claim::new([1; 16]), token: Token(1) };
        let mut renewals = Renewals::new(grant, Gate::Used, timing, START, Life::Assumed);
        let (mut now, mut proven) = (START, START);
        for Round { pause, answer, renewed } in rounds {
            now = now + pause;
            if renewals.due(now).is_none() {
                continue;
            }
            prop_assert!(now < timing.deadline(proven).term, "renewed at {now:?}");
            let sent = now;
            now = now + answer;
            let outcome = match renewed {
                true => Ok(Answer::Renewed),
                false => Err(Failure { kind: FailureKind::Unknown, message: String::new() }),
            };
            let reply = Reply { sent, received: now, server_time: None, could_grant: false, outcome };
            renewals.answered(now, reply);
            if renewed {
                proven = sent;
            }
            prop_assert_eq!(renewals.deadline(), timing.deadline(proven));
        }
    }

    #[test]
    fn a_command_is_killed_at_the_first_look_at_the_clock_after_its_deadline(
        timing in accepted(), looks in prop::collection::vec(0..60_000_u64, 1..40),
    ) {
        let Some(timing) = timing else { return Ok(()) };
        let deadline = timing.deadline(START);
        let mut supervisor = Supervisor::new(deadline, None, timing.grace, false);
        let (mut now, mut sent) = (START, Vec::new());
        for pause in looks {
            now = now + millis(pause);
            // As the monitor does: it looks again until there is nothing to be done at this instant.
            while supervisor.wake_at().is_some_and(|at| at <= now) {
                sent.extend(supervisor.step(now, Input::Tick));
            }
            prop_assert_eq!(sent.contains(&Act::Stop(TERM)), now >= deadline.term);
            prop_assert!(sent.contains(&Act::Stop(KILL)) || now < deadline.kill);
        }
    }
}
