//! Property tests of the deadline arithmetic, for every accepted lease timing and any sequence of events. The tests
//! drive the pure state machines with a simulated clock.
//!
//! The tests simulate a suspend of the machine as a jump of the clock. dlock measures time with `CLOCK_BOOTTIME`, which
//! includes the time during a suspend, so for dlock a suspend is only a jump of this clock.

use std::time::Duration;

use dlock::lease::instant::BootInstant;
use dlock::lease::timing::Timing;
use dlock::lease::{Grant, OwnerId, Token};
use dlock::process::supervisor::{Effect, KILL, Supervisor, SupervisorInput, TERM};
use dlock::protocol::renew::{Liveness, Renewals};
use dlock::store::{Failure, FailureKind, QueueLock, Response, TimedResponse};
use proptest::prelude::*;

const START: BootInstant = BootInstant::new(Duration::from_secs(1000));

fn millis(number: u64) -> Duration {
    Duration::from_millis(number)
}

prop_compose! {
    /// Lease timing with a ttl from the minimum to five minutes. None means that dlock rejects the generated values.
    fn accepted()(
        ttl in 1_500..300_000_u64,
        grace in prop::option::of(0..20_000_u64),
    ) -> Option<Timing> {
        Timing::new(millis(ttl), grace.map(millis)).ok()
    }
}

/// One step of the simulation. Time advances by `pause`, dlock sends a renewal if one is due, and the response arrives
/// after `latency`. If `renewed` is false, the response is a failure with an unknown outcome.
#[derive(Debug, Clone, Copy)]
struct Round {
    pause: Duration,
    latency: Duration,
    renewed: bool,
}

fn round() -> impl Strategy<Value = Round> {
    // A long pause simulates a suspended machine, and a long latency simulates a slow network.
    let length = prop_oneof![4 => 0..2_000_u64, 1 => 0..100_000_u64];
    (length.clone(), length, any::<bool>()).prop_map(|(pause, latency, renewed)| Round {
        pause: millis(pause),
        latency: millis(latency),
        renewed,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_command_is_dead_a_margin_before_its_lease_expires(
        timing in accepted(), sent in 0..1_000_000_u64,
    ) {
        let Some(timing) = timing else { return Ok(()) };
        let sent = BootInstant::new(millis(sent));
        let deadline = timing.deadline(sent);
        let end = sent + timing.ttl;
        prop_assert!(sent + timing.renew_interval + 3 * timing.request_timeout <= deadline.term);
        prop_assert_eq!(deadline.term + timing.grace, deadline.kill);
        prop_assert!(deadline.kill + millis(250) <= end);
        prop_assert!(deadline.kill + timing.ttl / 60 <= end || timing.margin == Duration::from_secs(5));
    }

    #[test]
    fn no_renewal_is_sent_after_the_deadline_and_only_proven_renewals_move_it(
        timing in accepted(), rounds in prop::collection::vec(round(), 1..60),
    ) {
        let Some(timing) = timing else { return Ok(()) };
        let grant = Grant { owner_id: OwnerId::new([1; 16]), token: Token(1) };
        let mut renewals = Renewals::new(grant, QueueLock::Available, timing, START, Liveness::NotRequired);
        let (mut now, mut proven) = (START, START);
        for Round { pause, latency, renewed } in rounds {
            now = now + pause;
            if renewals.due(now).is_none() {
                continue;
            }
            prop_assert!(now < timing.deadline(proven).term, "a renewal was sent at {now:?}, after the deadline");
            let sent = now;
            now = now + latency;
            let outcome = match renewed {
                true => Ok(Response::Renewed(None)),
                false => Err(Failure { kind: FailureKind::Unknown, message: String::new() }),
            };
            let response = TimedResponse { sent, received: now, server_time: None, could_grant: false, outcome };
            renewals.handle_response(now, response);
            if renewed {
                proven = sent;
            }
            prop_assert_eq!(renewals.deadline(), timing.deadline(proven));
        }
    }

    #[test]
    fn a_command_is_killed_at_the_first_clock_check_after_its_deadline(
        timing in accepted(), pauses in prop::collection::vec(0..60_000_u64, 1..40),
    ) {
        let Some(timing) = timing else { return Ok(()) };
        let deadline = timing.deadline(START);
        let mut supervisor = Supervisor::new(deadline, None, TERM, timing.grace, false);
        let (mut now, mut sent) = (START, Vec::new());
        for pause in pauses {
            now = now + millis(pause);
            // Repeats the step until nothing is due at `now`, as the monitor does.
            while supervisor.wake_at().is_some_and(|at| at <= now) {
                sent.extend(supervisor.step(now, SupervisorInput::Tick));
            }
            prop_assert_eq!(sent.contains(&Effect::Stop(TERM)), now >= deadline.term);
            prop_assert!(sent.contains(&Effect::Stop(KILL)) || now < deadline.kill);
        }
    }
}
