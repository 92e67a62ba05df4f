//! The schedule: everything that is decided beforehand, derived from one seed.
//!
//! Each contender and each nemesis has dice of its own, thrown by nobody else, so that what one of them gets does not
//! depend on how fast another is. Who happens to hold a lock when a fault is due is not decided here.

use std::time::Duration;

use fastrand::Rng;
use serde::{Deserialize, Serialize};

use crate::kind::Kind;

/// The leases that are asked for, in milliseconds: the shortest that a user may want, and not all of one length.
const TTLS: [u64; 4] = [2_000, 2_500, 3_000, 4_000];

/// A run of dlock that a contender is to make.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Milliseconds before it.
    pub(crate) pause: u64,
    /// The lease's length in milliseconds.
    pub(crate) ttl: u64,
    /// How many milliseconds the command works.
    pub(crate) hold: u64,
    /// The processes that it is made of.
    pub(crate) shape: Shape,
    /// What it ends with.
    pub(crate) exit: i32,
    /// How many milliseconds to wait in line; for ever, if not given.
    pub(crate) wait: Option<u64>,
    /// How to get to the server.
    pub(crate) route: Route,
}

/// The processes that a command is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Shape {
    /// One.
    Plain,
    /// One that ignores SIGTERM.
    Stubborn,
    /// A child and a grandchild in its group.
    Family,
    /// A child in a session of its own.
    Apart,
    /// A grandchild in a session of its own whose parent is gone.
    Daemon,
    /// The command is a shell, which has the worker as its child.
    Shell,
}

/// How to get to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Route {
    Tcp,
    Socket,
    /// Through the action's proxy, where there is one.
    Proxy,
}

/// A fault that a nemesis is to bring.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    /// Before it.
    pub(crate) pause: Duration,
    pub(crate) kind: Kind,
    /// How much of it, from 0 to 1.
    pub(crate) severity: f64,
    /// Which of several victims.
    pub(crate) choice: usize,
}

/// Dice for `whom` alone.
fn dice(seed: u64, whom: &str) -> Rng {
    // FNV-1a: all that is asked of it is that other names give other numbers, the same on every machine.
    let hash = whom.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    Rng::with_seed(seed ^ hash)
}

/// The runs that contender number `slot` of `action` makes, without an end.
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
        // Many short ones, for the number of grants; and enough long ones that a fault meets a holder, also one that
        // holds for longer than its lease.
        hold: match dice.u8(..20) {
            0..11 => dice.u64(5..50),
            11..15 => dice.u64(100..500),
            15..18 => dice.u64(1_000..3_000),
            _ => dice.u64(3_000..6_000),
        },
        shape,
        // Statuses that dlock itself never has.
        exit: [0, 0, 0, 0, 3, 42][dice.usize(..6)],
        wait: match dice.u8(..10) {
            0 => Some(0),
            1 => Some(dice.u64(200..2_000)),
            _ => None,
        },
        route: [Route::Proxy, Route::Proxy, Route::Tcp, Route::Socket][dice.usize(..4)],
    }
}

/// The faults that the nemesis of `whom` brings, out of `kinds`, without an end unless there are no kinds.
///
/// They come in rounds, each with every kind once, so that none is rare.
pub(crate) fn steps(seed: u64, whom: &str, kinds: &[Kind]) -> impl Iterator<Item = Step> {
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
