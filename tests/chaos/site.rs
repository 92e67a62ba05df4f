//! A server with its actions, and the kinds of faults that are brought to it.
//!
//! There are several a run, so that each claim is judged where no other fault stands in its way: on `processes` the
//! server and the network are let alone, on `network` and `restarts` they suffer, on `clocks` only the server's clock.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::RangeInclusive;

use crate::course::Course;
use crate::kind::{Kind, Victim};
use crate::nemesis::Clock;
use crate::probe;
use crate::proxy::Proxy;
use crate::servers::{Database, Flavour, Server};

/// What a site is for.
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

    /// How many contend for each action.
    pub(crate) fn contenders(self) -> usize {
        match self {
            Self::Processes | Self::Network => 4,
            Self::Restarts | Self::Clocks => 3,
        }
    }

    /// How much longer leases are than the schedule says.
    ///
    /// A server on a false clock is slow, and on a busy machine slower than a short lease's renewal may be. A session
    /// that is lost for that just when the clock is set is two faults at once, against which nothing is promised.
    pub(crate) fn patience(self) -> u64 {
        match self {
            Self::Clocks => 3,
            _ => 1,
        }
    }

    /// What its server is told.
    fn options(self) -> &'static [&'static str] {
        match self {
            // Most of that slowness is the waiting of MySQL's log threads for each other.
            Self::Clocks => &["--skip-log-bin", "--innodb-flush-log-at-trx-commit=0"],
            _ => &[],
        }
    }

    /// The faults that bear on one action.
    pub(crate) fn kinds(self) -> Vec<Kind> {
        of(match self {
            Self::Processes => &[
                Victim::Holder,
                Victim::Waiter,
                Victim::Session,
                Victim::Lease,
                Victim::Reader,
            ],
            Self::Network => &[Victim::Network],
            // While the server is away, too.
            Self::Restarts => &[Victim::Holder, Victim::Waiter],
            Self::Clocks => &[],
        })
    }

    /// Those that bear on the whole site.
    pub(crate) fn site_kinds(self) -> Vec<Kind> {
        of(match self {
            Self::Processes | Self::Network => &[],
            Self::Restarts => &[Victim::Server],
            Self::Clocks => &[Victim::Clock],
        })
    }
}

fn of(victims: &[Victim]) -> Vec<Kind> {
    let mut kinds = Kind::ALL.to_vec();
    kinds.retain(|kind| victims.contains(&kind.victim()));
    kinds
}

/// What contenders and nemeses need to know of a site.
pub(crate) struct Site {
    pub(crate) name: String,
    pub(crate) purpose: Purpose,
    pub(crate) actions: Vec<String>,
    pub(crate) database: Database,
    /// By action, where the network is to be faulty.
    pub(crate) proxies: BTreeMap<String, Proxy>,
}

/// A site with what keeps it going.
pub(crate) struct Running {
    pub(crate) site: Site,
    pub(crate) server: Server,
    pub(crate) clock: Option<Clock>,
}

impl Running {
    pub(crate) fn start(course: &Course, flavour: Flavour, purpose: Purpose) -> Self {
        let name = purpose.name().to_owned();
        let mut clock = (purpose == Purpose::Clocks).then(|| Clock::new(&course.folder));
        let environment = clock.as_ref().map(Clock::environment).unwrap_or_default();
        let server = Server::start_in(flavour, purpose.options(), &environment);
        if let Some(clock) = &mut clock {
            clock.belongs_to(server.pid());
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
            let witness = course.folder.join("witness").join(action);
            File::create(witness).expect("a file can be made");
        }
        let set_up = course
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
