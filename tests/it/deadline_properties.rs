//! Property tests of the deadline arithmetic, for every accepted lease timing and any sequence of events. The tests
//! drive the pure state machines with a simulated clock.
//!
//! The tests simulate a suspend of the machine as a jump of the clock. dlock measures time with `CLOCK_BOOTTIME`, which
//! includes the time during a suspend, so for dlock a suspend is only a jump of this clock.

use std::time::Duration;

use dlock::lease::instant::BootInstant;
use dlock::lease::limit::Limit;
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

/// Returns every lease timing that dlock accepts, with a ttl of up to five minutes. proptest fails if it has to reject
/// too many of the generated values.
fn accepted() -> impl Strategy<Value = Timing> {
    let values = (1_500..300_000_u64, prop::option::of(0..20_000_u64));
    values.prop_filter_map("dlock rejects the timing", |(ttl, grace)| {
        Timing::new(millis(ttl), grace.map(millis)).ok()
    })
}

/// Returns lengths in thousandths of the ttl. A long pause simulates a suspended machine, and a long latency simulates a
/// slow network.
fn length() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..200_u32, 1 => 0..1_500_u32]
}

/// One step of the simulation of renewals. Time advances by `pause`, dlock sends a renewal if one is due, and the
/// response arrives after `latency`. If `renewed` is false, the response is a failure with an unknown outcome. The times
/// are in thousandths of the ttl.
#[derive(Debug, Clone, Copy)]
struct Round {
    pause: u32,
    latency: u32,
    renewed: bool,
}

fn round() -> impl Strategy<Value = Round> {
    (length(), length(), any::<bool>()).prop_map(|(pause, latency, renewed)| Round {
        pause,
        latency,
        renewed,
    })
}

/// An input of the supervisor. The send time of a renewal is so many thousandths of the ttl before its response.
#[derive(Debug, Clone, Copy)]
enum Input {
    Tick,
    Renewed(u32),
    Lost,
}

fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        5 => Just(Input::Tick),
        5 => length().prop_map(Input::Renewed),
        1 => Just(Input::Lost),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_command_is_dead_a_margin_before_its_lease_expires(
        timing in accepted(), sent in 0..1_000_000_u64,
    ) {
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
        let grant = Grant::new(OwnerId::new([1; 16]), Token(1));
        let mut renewals = Renewals::new((grant, Limit::ONE), QueueLock::Available, timing, START, Liveness::NotRequired);
        let (mut now, mut proven) = (START, START);
        let mut sent_renewals = 0;
        // The first renewal is always due.
        let first = Round { pause: 0, latency: 0, renewed: true };
        now = now + timing.renew_interval;
        for Round { pause, latency, renewed } in std::iter::once(first).chain(rounds) {
            now = now + timing.ttl * pause / 1_000;
            let must_send = renewals.wake_at().is_some_and(|at| at <= now) && now < timing.deadline(proven).term;
            prop_assert_eq!(renewals.due(now).is_some(), must_send, "at {:?}", now);
            if !must_send {
                continue;
            }
            sent_renewals += 1;
            let sent = now;
            now = now + timing.ttl * latency / 1_000;
            let outcome = match renewed {
                true => Ok(Response::Renewed(None)),
                false => Err(Failure { kind: FailureKind::Unknown, message: String::new() }),
            };
            let response = TimedResponse { sent, received: now, server_time: None, could_grant: false, could_release: false, outcome };
            renewals.handle_response(now, response);
            if renewed {
                proven = sent;
            }
            prop_assert_eq!(renewals.deadline(), timing.deadline(proven));
        }
        prop_assert!(sent_renewals > 0);
    }

    #[test]
    fn a_command_is_stopped_and_killed_at_the_first_clock_check_after_its_deadline(
        timing in accepted(),
        limit in prop::option::of(0..5_000_u32),
        rounds in prop::collection::vec((length(), input()), 1..40),
    ) {
        let limit = limit.map(|limit| START + timing.ttl * limit / 1_000);
        let mut deadline = timing.deadline(START);
        let mut supervisor = Supervisor::new(deadline, limit, TERM, timing.grace, false);
        let (mut now, mut sent) = (START, Vec::new());
        // Time at which the command must be dead, once it is stopped.
        let mut dead_at: Option<BootInstant> = None;
        for (pause, input) in rounds {
            now = now + timing.ttl * pause / 1_000;
            // Repeats the step until nothing is due at `now`, as the monitor does.
            while supervisor.wake_at().is_some_and(|at| at <= now) {
                sent.extend(supervisor.step(now, SupervisorInput::Tick));
            }
            let end = limit.map_or(deadline.term, |limit| limit.min(deadline.term));
            if now >= end {
                dead_at = dead_at.or(Some(deadline.kill.min(now + timing.grace)));
            }
            let input = match input {
                Input::Tick => SupervisorInput::Tick,
                Input::Lost => SupervisorInput::Lost,
                Input::Renewed(latency) => {
                    let renewed = timing.deadline(START.max(now - timing.ttl * latency / 1_000));
                    if dead_at.is_none() {
                        deadline = deadline.max(renewed);
                    }
                    SupervisorInput::Renewed(renewed)
                }
            };
            if matches!(input, SupervisorInput::Lost) {
                dead_at = dead_at.or(Some(deadline.kill.min(now + timing.grace)));
            }
            sent.extend(supervisor.step(now, input));
            while supervisor.wake_at().is_some_and(|at| at <= now) {
                sent.extend(supervisor.step(now, SupervisorInput::Tick));
            }
            prop_assert_eq!(sent.contains(&Effect::Stop(TERM)), dead_at.is_some());
            prop_assert_eq!(sent.contains(&Effect::Stop(KILL)), dead_at.is_some_and(|at| at <= now));
        }
    }
}
