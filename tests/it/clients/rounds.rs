//! Rounds in which `dlock hold` is frozen or killed. In each round, the client must say that the lock is invalid, before others
//! can have it.
//!
//! `make clients ROUNDS=100` runs many rounds, and prints how long each client has said that the lock is valid.

use std::env;
use std::thread;
use std::time::Duration;

use dlock::lease::instant::BootInstant;
use dlock::lease::timing::Timing;
use dlock::sys::clock;
use testkit::arguments::concurrently;
use testkit::command::signal;
use testkit::servers::{Flavour, shared};

use super::{FIRST, Language, Program, SHORT, contend};

/// Environment variable with the number of rounds of each client and fault.
const ROUNDS: &str = "DLOCK_CLIENT_ROUNDS";

/// Number of rounds of one client that run at the same time. They mostly wait.
const LANES: usize = 10;

/// Largest time in which `valid()` should become false. The lease lasts for 10 s.
const LIMIT: Duration = Duration::from_secs(9);

const PAUSE: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, Debug)]
enum Fault {
    Frozen,
    Killed,
}

/// A frozen process, which continues when this value is dropped.
struct Frozen(u32);

impl Drop for Frozen {
    fn drop(&mut self) {
        signal(self.0, "CONT");
    }
}

#[test]
fn lock_is_invalid_in_time_in_each_round() {
    let rounds = env::var(ROUNDS).map_or(1, |text| text.parse().expect("a number of rounds"));
    thread::scope(|scope| {
        for language in Language::ALL {
            scope.spawn(move || {
                for fault in [Fault::Frozen, Fault::Killed] {
                    let times = times(language, fault, rounds);
                    let in_time = times.iter().filter(|time| **time < LIMIT).count();
                    let longest = times.iter().max().expect("at least one round");
                    println!(
                        "{language:?}, dlock {fault:?}: valid() was false within {LIMIT:?} in {in_time} of {rounds} rounds, \
                         at most after {longest:.2?}"
                    );
                }
            });
        }
    });
}

fn times(language: Language, fault: Fault, rounds: usize) -> Vec<Duration> {
    let lanes = LANES.min(rounds);
    let lane = |lane| {
        let own = (lane..rounds).step_by(lanes);
        own.map(|_| round(language, fault, lane)).collect()
    };
    let times = concurrently(0..lanes, lane).into_iter();
    times
        .flat_map(|times: thread::Result<Vec<_>>| times.expect("the rounds end"))
        .collect()
}

/// Returns the time from the fault to the first call of `valid()` that returns false. Fails if `valid()` returns true after
/// the deadline of the work, or while somebody else has the lock.
fn round(language: Language, fault: Fault, lane: usize) -> Duration {
    let flavour = Flavour::ALL[lane % Flavour::ALL.len()];
    let database = shared(flavour).database("rounds");
    let mut program = Program::start(language, &database, SHORT);
    let earliest = stop_at(clock::now());
    program.expect("lock", "ok");
    let dlock = program.dlock();
    // A frozen dlock publishes nothing, so only the clock says that the lock is lost.
    let frozen = match fault {
        Fault::Frozen => {
            signal(dlock, "STOP");
            Some(Frozen(dlock))
        }
        Fault::Killed => {
            signal(dlock, "KILL");
            None
        }
    };
    let started = clock::now();
    let latest = stop_at(started);
    let mut next = contend(&database, FIRST, "forever").start();
    let time = loop {
        let (is_over, now) = (next.is_over(), clock::now());
        if program.ask("valid") == "false" {
            break clock::now().since(started);
        }
        assert!(!is_over, "the lock was valid and free");
        assert!(now < latest, "the lock was valid after its deadline");
        thread::sleep(PAUSE);
    };
    assert_eq!(next.wait().status, Some(0));
    assert!(clock::now() >= earliest, "the lock was free too early");
    program.expect("valid", "false");
    if let Some(frozen) = frozen {
        assert_eq!(program.losses(), 0);
        drop(frozen);
    }
    program.expect_loss();
    time
}

/// Returns the deadline of the work under a lease of 10 s that is requested at `at`.
fn stop_at(at: BootInstant) -> BootInstant {
    let timing = Timing::new(Duration::from_secs(10), None).expect("the ttl is long enough");
    timing.deadline(at).term
}
