//! The schedule: all decisions that are made before the run, derived from one seed.
//!
//! Each contender and each nemesis has its own random numbers, so that its schedule does not depend on how fast another
//! thread runs. The schedule does not decide which run holds a lock when a fault is due.

use std::time::Duration;

use fastrand::Rng;
use serde::{Deserialize, Serialize};

use crate::fault_kind::FaultKind;

/// The ttls, in milliseconds: the shortest that a user may want, of several lengths.
const TTLS: [u64; 4] = [2_000, 2_500, 3_000, 4_000];

/// The plan of one run of dlock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Milliseconds before the run.
    pub(crate) pause: u64,
    /// Ttl in milliseconds.
    pub(crate) ttl: u64,
    /// Milliseconds for which the command works.
    pub(crate) hold: u64,
    /// Processes of the command.
    pub(crate) shape: Shape,
    /// Exit status of the command.
    pub(crate) exit: i32,
    /// Maximum milliseconds to wait in the queue. None waits forever.
    pub(crate) wait: Option<u64>,
    /// The route to the server.
    pub(crate) route: Route,
}

/// The processes of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Shape {
    /// One process.
    Plain,
    /// One process, which ignores SIGTERM.
    Stubborn,
    /// A child and a grandchild in its group.
    Family,
    /// A child in its own session.
    Apart,
    /// A grandchild in its own session, whose parent has exited.
    Daemon,
    /// A shell with the worker as its child.
    Shell,
}

/// The route to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Route {
    Tcp,
    Socket,
    /// Through the action's proxy if there is one, otherwise like `Tcp`.
    Proxy,
}

/// A scheduled fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    /// Pause before the fault.
    pub(crate) pause: Duration,
    pub(crate) kind: FaultKind,
    /// Severity, from 0 to 1.
    pub(crate) severity: f64,
    /// Choice among several victims, modulo their number.
    pub(crate) choice: usize,
}

/// Returns a random number generator that depends only on the seed and on `whom`.
fn dice(seed: u64, whom: &str) -> Rng {
    // FNV-1a: different names have to give different numbers, the same on every machine.
    let hash = whom.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    Rng::with_seed(seed ^ hash)
}

/// Returns the endless plans of contender number `slot` of `action`.
pub(crate) fn plans(seed: u64, action: &str, slot: usize) -> impl Iterator<Item = Plan> {
    let mut dice = dice(seed, &format!("{action}/contender-{slot}"));
    std::iter::repeat_with(move || plan(&mut dice))
}

fn plan(dice: &mut Rng) -> Plan {
    let shape = match dice.u8(..20) {
        0..9 => Shape::Plain,
        9..11 => Shape::Stubborn,
        11..14 => Shape::Family,
        14..16 => Shape::Apart,
        16..18 => Shape::Daemon,
        _ => Shape::Shell,
    };
    Plan {
        pause: dice.u64(0..300),
        ttl: TTLS[dice.usize(..TTLS.len())],
        // Many short commands, for the number of grants, and enough long ones that a fault finds a holder, also one
        // that runs for longer than its ttl.
        hold: match dice.u8(..20) {
            0..11 => dice.u64(5..50),
            11..15 => dice.u64(100..500),
            15..18 => dice.u64(1_000..3_000),
            _ => dice.u64(3_000..6_000),
        },
        shape,
        // dlock itself never exits with 3 or 42.
        exit: [0, 0, 0, 0, 3, 42][dice.usize(..6)],
        wait: match dice.u8(..10) {
            0 => Some(0),
            1 => Some(dice.u64(200..2_000)),
            _ => None,
        },
        route: [Route::Proxy, Route::Proxy, Route::Tcp, Route::Socket][dice.usize(..4)],
    }
}

/// Returns the endless faults of the nemesis of `whom`. Empty if `kinds` is empty.
///
/// The faults come in rounds with every kind once, so that no kind is rare.
pub(crate) fn steps(seed: u64, whom: &str, kinds: &[FaultKind]) -> impl Iterator<Item = Step> {
    let mut dice = dice(seed, &format!("{whom}/nemesis"));
    let kinds = kinds.to_vec();
    let rounds = if kinds.is_empty() { 0 } else { usize::MAX };
    (0..rounds).flat_map(move |_| {
        let mut round = kinds.clone();
        dice.shuffle(&mut round);
        let steps: Vec<Step> = round
            .into_iter()
            .map(|kind| Step {
                pause: Duration::from_millis(dice.u64(100..1_500)),
                kind,
                severity: dice.f64(),
                choice: dice.usize(..),
            })
            .collect();
        steps
    })
}
