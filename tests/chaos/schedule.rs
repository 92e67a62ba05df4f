//! The schedule, which contains all decisions that are made before the chaos run. It is derived from one seed.
//!
//! Each contender and each nemesis has its own random numbers, so its schedule does not depend on the speed of other
//! threads. The schedule does not determine which run holds the lease when a fault is injected.

use std::time::Duration;

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use testkit::arguments::random;

use crate::fault_kind::FaultKind;

/// The ttls in milliseconds. They are the shortest ttls that users may want.
const TTLS: [u64; 4] = [2_000, 2_500, 3_000, 4_000];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ContenderKind {
    /// A command of `dlock exec`, which guards it.
    Exec,
    /// A program that uses `dlock hold --json`, and watches the clock.
    HoldJson,
    /// A script that uses `dlock hold --pid`, which guards it.
    HoldPid,
}

impl ContenderKind {
    /// The kinds of the runs, each as often as it occurs.
    pub(crate) const ALL: [Self; 4] = [Self::Exec, Self::HoldJson, Self::HoldPid, Self::HoldJson];

    /// Returns true if dlock has a monitor, which guards the work.
    pub(crate) fn has_monitor(self) -> bool {
        self != Self::HoldJson
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) kind: ContenderKind,
    pub(crate) pause: u64,
    pub(crate) ttl: u64,
    pub(crate) hold: u64,
    pub(crate) shape: Shape,
    pub(crate) exit: i32,
    /// Maximum time to wait for the lease, in milliseconds. None waits forever.
    pub(crate) wait: Option<u64>,
    pub(crate) route: Route,
    /// An option of `dlock exec` that changes what the grant or the release writes. None uses no such option.
    pub(crate) option: Option<ExecOption>,
    /// If true, the command has a session on the server whose statement continues after the command's death.
    pub(crate) has_session: bool,
    /// Number of commands that may run at once, this one included (`--slots`). 0 is no limit (`--shared`).
    pub(crate) limit: u32,
}

impl Plan {
    /// Returns the plan of a run without pause, work or options.
    pub(crate) const fn plain(kind: ContenderKind, ttl: u64) -> Self {
        Self {
            kind,
            pause: 0,
            ttl,
            hold: 0,
            shape: Shape::Plain,
            exit: 0,
            wait: None,
            route: Route::Tcp,
            option: None,
            has_session: false,
            limit: 1,
        }
    }

    pub(crate) const fn is_exclusive(&self) -> bool {
        self.limit == 1
    }

    /// Returns the argument of dlock for the limit. None if the lock is exclusive.
    pub(crate) fn limit(&self) -> Option<String> {
        match self.limit {
            1 => None,
            0 => Some("--shared".to_owned()),
            slots => Some(format!("--slots={slots}")),
        }
    }

    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a plan is plain data")
    }

    /// Sets the kind, and removes what the kind does not have.
    fn of_kind(mut self, kind: ContenderKind) -> Self {
        self.kind = kind;
        if kind != ContenderKind::Exec {
            self.has_session = false;
            self.option = self.option.filter(|option| option.is_for_hold());
        }
        if kind == ContenderKind::HoldJson {
            // dlock knows neither the processes of the program nor its exit status.
            self.exit = 0;
            if self.shape != Shape::Plain {
                self.shape = Shape::Stubborn;
            }
        }
        self
    }

    /// Sets a limit above 1, and removes the options that need an exclusive lock.
    fn limited(mut self, limit: u32) -> Self {
        self.limit = limit;
        if !self.is_exclusive()
            && matches!(self.option, Some(ExecOption::Fence | ExecOption::Several))
        {
            self.option = None;
        }
        self
    }
}

/// An option of `dlock exec` that changes what the grant or the release writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ExecOption {
    NoHistory,
    /// `--once` with the key that [`once_key`] returns.
    Once,
    /// `--once-per` with a period of a millisecond. A run is therefore skipped only directly after a success.
    OncePer,
    /// `--min-hold` with a time that is longer than the ttl and than most commands, in milliseconds.
    MinHold(u64),
    Fence,
    /// A second lock, which the runs of all actions of a site share. It is acquired first.
    Several,
}

impl ExecOption {
    /// Returns true if `dlock hold` has the option.
    fn is_for_hold(self) -> bool {
        matches!(self, Self::NoHistory | Self::Fence | Self::Several)
    }

    pub(crate) fn argument(self, run: u64, action: &str) -> String {
        match self {
            Self::NoHistory => "--history=0".to_owned(),
            Self::Once => format!("--once={}", once_key(run)),
            Self::OncePer => "--once-per=1ms".to_owned(),
            Self::MinHold(millis) => format!("--min-hold={millis}ms"),
            Self::Fence => "--fence".to_owned(),
            Self::Several => format!("--action={}", shared_lock(action)),
        }
    }
}

/// Number of consecutive runs with the same key of `--once`. They belong to many actions.
const RUNS_OF_A_KEY: u64 = 100;

/// Returns the key of `--once` for run number `run`. The runs of an action that follow each other have the same key, like the
/// replicas of a release.
pub(crate) fn once_key(run: u64) -> String {
    format!("release-{}", run / RUNS_OF_A_KEY)
}

/// Returns the name of the lock that some runs of `action` have too. It comes before the names of all actions.
pub(crate) fn shared_lock(action: &str) -> String {
    let site = action.rsplit_once('-').map_or(action, |(site, _)| site);
    format!("!{site}")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Shape {
    Plain,
    /// One process, which works until its deadline: it ignores SIGTERM, or the request of `dlock hold` to stop.
    Stubborn,
    /// A child and a grandchild in the worker's process group.
    Family,
    Apart,
    /// A grandchild in its own session, whose parent has exited.
    Daemon,
    Shell,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Route {
    Tcp,
    Socket,
    /// On a cluster, a list of all nodes. Otherwise through the action's proxy if there is one, or else like `Tcp`.
    Proxy,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) pause: Duration,
    pub(crate) kind: FaultKind,
    pub(crate) severity: f64,
    /// Index of the victim, modulo the number of possible victims.
    pub(crate) choice: usize,
}

/// Returns the plans of contender number `slot` of `action`. The iterator is infinite.
pub(crate) fn plans(seed: u64, action: &str, slot: usize) -> impl Iterator<Item = Plan> {
    let mut rng = random(seed, &format!("{action}/contender-{slot}"));
    let mut limits = random(seed, &format!("{action}/limits-{slot}"));
    let mut kinds = random(seed, &format!("{action}/kinds-{slot}"));
    // The contenders of one action of each site have different limits.
    let is_limited = action.ends_with("-1");
    // All contenders of this action are replicas that use `--once`.
    let are_replicas = action == "processes-5";
    std::iter::repeat_with(move || {
        let limit = limits.u32(0..4);
        let kind = ContenderKind::ALL[kinds.usize(..ContenderKind::ALL.len())];
        let mut plan = plan(&mut rng);
        if are_replicas {
            plan.option = Some(ExecOption::Once);
        } else {
            plan = plan.of_kind(kind);
        }
        plan.limited(if is_limited { limit } else { 1 })
    })
}

fn plan(rng: &mut Rng) -> Plan {
    let shape = match rng.u8(..20) {
        0..9 => Shape::Plain,
        9..11 => Shape::Stubborn,
        11..14 => Shape::Family,
        14..16 => Shape::Apart,
        16..18 => Shape::Daemon,
        _ => Shape::Shell,
    };
    let ttl = TTLS[rng.usize(..TTLS.len())];
    Plan {
        pause: rng.u64(0..300),
        // Most commands are short, which gives many grants. Enough commands are long for a fault to find a holder. Some
        // commands run for longer than the ttl.
        hold: match rng.u8(..20) {
            0..11 => rng.u64(5..50),
            11..15 => rng.u64(100..500),
            15..18 => rng.u64(1_000..3_000),
            _ => rng.u64(3_000..6_000),
        },
        shape,
        // dlock itself never exits with 3 or 42.
        exit: [0, 0, 0, 0, 3, 42][rng.usize(..6)],
        wait: match rng.u8(..10) {
            0 => Some(0),
            1 => Some(rng.u64(200..2_000)),
            _ => None,
        },
        route: [Route::Proxy, Route::Proxy, Route::Tcp, Route::Socket][rng.usize(..4)],
        option: match rng.u8(..40) {
            0..6 => Some(ExecOption::NoHistory),
            6..12 => Some(ExecOption::Once),
            12..18 => Some(ExecOption::OncePer),
            18..24 => Some(ExecOption::Fence),
            // Only a few runs, because such a run blocks the action for seconds.
            24 => Some(ExecOption::MinHold(ttl + 2_000)),
            25..31 => Some(ExecOption::Several),
            _ => None,
        },
        has_session: rng.u8(..4) == 0,
        ..Plan::plain(ContenderKind::Exec, ttl)
    }
}

/// Returns the faults of the nemesis `name`. The iterator is infinite, or empty if `kinds` is empty.
///
/// The faults come in rounds. Each round contains every kind once, so no kind is rare.
pub(crate) fn steps(seed: u64, name: &str, kinds: &[FaultKind]) -> impl Iterator<Item = Step> {
    let mut rng = random(seed, &format!("{name}/nemesis"));
    let kinds = kinds.to_vec();
    // Without kinds, all rounds would be empty, and the search for the first fault would never end.
    let rounds = if kinds.is_empty() { 0 } else { usize::MAX };
    (0..rounds).flat_map(move |_| {
        let mut round = kinds.clone();
        rng.shuffle(&mut round);
        let step = |kind| Step {
            pause: Duration::from_millis(rng.u64(100..1_500)),
            kind,
            severity: rng.f64(),
            choice: rng.usize(..),
        };
        round.into_iter().map(step).collect::<Vec<_>>()
    })
}
