//! The sites of a chaos run. A site is a server with its actions and the kinds of faults that affect them.
//!
//! A chaos run has several sites, so that each property is also checked without unrelated faults. `processes` has no
//! faults of the server or the network, `network` and `restarts` have such faults, and `clocks` has only faults of the
//! server's clock.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::RangeInclusive;

use crate::fault_kind::{FaultKind, Victim};
use crate::nemesis::Clock;
use crate::probe;
use crate::proxy::Proxy;
use crate::run_context::RunContext;
use crate::servers::{Database, Flavour, Server};

/// The purpose of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Processes,
    Network,
    Restarts,
    Clocks,
}

impl Purpose {
    pub(crate) const ALL: [Self; 4] =
        [Self::Processes, Self::Network, Self::Restarts, Self::Clocks];

    fn name(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::Network => "network",
            Self::Restarts => "restarts",
            Self::Clocks => "clocks",
        }
    }

    fn actions(self) -> RangeInclusive<usize> {
        match self {
            Self::Processes => 1..=5,
            Self::Network => 1..=3,
            Self::Restarts | Self::Clocks => 1..=2,
        }
    }

    /// Returns the number of contenders of each action.
    pub(crate) fn contenders(self) -> usize {
        match self {
            Self::Processes | Self::Network => 4,
            Self::Restarts | Self::Clocks => 3,
        }
    }

    /// Returns the factor by which the ttls are longer than in the schedule.
    ///
    /// A server with a fake clock is slow. On a busy machine, it may be too slow for the renewal of a short lease. If a
    /// session ends for this reason while the clock jumps, two faults coincide, and dlock makes no promise for this
    /// case.
    pub(crate) fn ttl_factor(self) -> u64 {
        match self {
            Self::Clocks => 3,
            _ => 1,
        }
    }

    /// Returns the options of the site's server.
    fn options(self) -> &'static [&'static str] {
        match self {
            // If MySQL has a fake clock, it is slow mainly because its log threads wait for each other.
            Self::Clocks => &["--skip-log-bin", "--innodb-flush-log-at-trx-commit=0"],
            _ => &[],
        }
    }

    /// Returns the kinds of faults that affect one action.
    pub(crate) fn kinds(self) -> Vec<FaultKind> {
        kinds_of(match self {
            Self::Processes => &[
                Victim::Holder,
                Victim::Waiter,
                Victim::Session,
                Victim::Lease,
                Victim::Reader,
            ],
            Self::Network => &[Victim::Network],
            // These faults are also injected while the server is down.
            Self::Restarts => &[Victim::Holder, Victim::Waiter],
            Self::Clocks => &[],
        })
    }

    /// Returns the kinds of faults that affect the whole site.
    pub(crate) fn site_kinds(self) -> Vec<FaultKind> {
        kinds_of(match self {
            Self::Processes | Self::Network => &[],
            Self::Restarts => &[Victim::Server],
            Self::Clocks => &[Victim::Clock],
        })
    }
}

fn kinds_of(victims: &[Victim]) -> Vec<FaultKind> {
    let mut kinds = FaultKind::ALL.to_vec();
    kinds.retain(|kind| victims.contains(&kind.victim()));
    kinds
}

/// The part of a site that contenders and nemeses use.
pub(crate) struct Site {
    pub(crate) name: String,
    pub(crate) purpose: Purpose,
    pub(crate) actions: Vec<String>,
    pub(crate) database: Database,
    /// Proxies by action. Empty if the site has no faults of the network.
    pub(crate) proxies: BTreeMap<String, Proxy>,
}

/// A site with its server and clock. The server stops when this value is dropped.
pub(crate) struct Running {
    pub(crate) site: Site,
    pub(crate) server: Server,
    pub(crate) clock: Option<Clock>,
}

impl Running {
    pub(crate) fn start(context: &RunContext, flavour: Flavour, purpose: Purpose) -> Self {
        let name = purpose.name().to_owned();
        let mut clock = (purpose == Purpose::Clocks).then(|| Clock::new(&context.folder));
        let environment = clock.as_ref().map(Clock::environment).unwrap_or_default();
        let server = Server::start_in(flavour, purpose.options(), &environment);
        if let Some(clock) = &mut clock {
            clock.bind_to(server.pid());
        }
        let actions = purpose.actions().map(|number| format!("{name}-{number}"));
        let actions: Vec<String> = actions.collect();
        let proxy = |action: &String| {
            let proxy = Proxy::to(server.port());
            proxy.forget_requests();
            (action.clone(), proxy)
        };
        let proxies = match purpose {
            Purpose::Network => actions.iter().map(proxy).collect(),
            _ => BTreeMap::new(),
        };
        let site = Site {
            actions,
            proxies,
            database: server.database(&name),
            purpose,
            name,
        };
        probe::set_up(&mut site.database.admin_conn());
        for action in &site.actions {
            let witness = context.folder.join("witness").join(action);
            File::create(witness).expect("a file can be created");
        }
        let set_up = context
            .dlock()
            .arg("setup")
            .env("DLOCK_URL", site.database.url())
            .output()
            .expect("dlock starts");
        assert!(set_up.status.success(), "dlock setup: {set_up:?}");
        Self {
            site,
            server,
            clock,
        }
    }
}
