//! The sites of a chaos run. A site is a server or a cluster, with its actions and the kinds of faults that affect them.
//!
//! A chaos run on single servers has several sites, so that each property is also checked without unrelated faults. `processes` has no
//! faults of the server or the network, `network` and `restarts` have such faults, and `clocks` has only faults of the
//! server's clock.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::atomic::AtomicBool;

use strum::Display;
use testkit::proxy::Proxy;
use testkit::servers::{Database, Server};

use crate::fault_kind::{FaultKind, Victim};
use crate::nemesis::{self, Clocked, Machines, Pair};
use crate::probe;
use crate::run_context::RunContext;
use crate::schedule::{Plan, Route, shared_lock};
use crate::topology::Topology;

/// Ttl in milliseconds of all runs on a site whose database loses grants.
pub(crate) const LOSSY_TTL: u64 = 3_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Purpose {
    Processes,
    Network,
    Restarts,
    Clocks,
    /// Faults of the nodes of a Galera cluster, and of processes.
    Nodes,
    /// Faults of the members of a group with a single primary, and of processes.
    Members,
    /// Faults of a primary with an asynchronous replica behind a proxy, and of processes.
    FailOver,
}

impl Purpose {
    /// The purposes of the sites with a single server. A server with a fake clock starts slowly, so it is the first one.
    pub(crate) const SINGLE: [Self; 4] =
        [Self::Clocks, Self::Processes, Self::Network, Self::Restarts];

    /// Returns the number of actions, the number of contenders of each action, and the victims of the faults of one
    /// action and of the whole site.
    fn properties(self) -> (usize, usize, &'static [Victim], &'static [Victim]) {
        use Victim::{Clock, Holder, Lease, Network, Node, Reader, Server, Session, Waiter};
        match self {
            Self::Processes => (5, 4, &[Holder, Waiter, Session, Lease, Reader], &[]),
            Self::Network => (3, 4, &[Network], &[]),
            // The faults of an action are also injected while the server is down.
            Self::Restarts => (2, 3, &[Holder, Waiter], &[Server]),
            // A release ends the session of the holder, and dlock makes no promise if the clock jumps after that.
            Self::Clocks => (2, 3, &[], &[Clock]),
            // A multiple of the number of nodes, so the contenders are spread evenly.
            Self::Nodes | Self::Members | Self::FailOver => {
                (8, 3, &[Holder, Waiter, Lease], &[Node])
            }
        }
    }

    pub(crate) fn contenders(self) -> usize {
        self.properties().1
    }

    /// Adapts a plan of the schedule.
    ///
    /// A server with a fake clock is slow. On a busy machine, it may be too slow for the renewal of a short lease. If a
    /// session ends for this reason while the clock jumps, two faults coincide, and dlock makes no promise for this
    /// case. If a database loses a grant, dlock makes a promise only to contenders with the same ttl. On a cluster, most
    /// of the time passes during faults, so the commands are shorter, which gives more grants.
    pub(crate) fn adapt(self, plan: &mut Plan) {
        match self {
            Self::Clocks => plan.ttl *= 3,
            Self::FailOver => plan.ttl = LOSSY_TTL,
            _ => {}
        }
        if matches!(self, Self::Nodes | Self::Members | Self::FailOver) {
            plan.hold /= 2;
        }
    }

    /// Returns true if other programs have sessions on the site's server. The server is never down, so only dlock can end
    /// these sessions.
    pub(crate) fn has_bystanders(self) -> bool {
        self == Self::Processes
    }

    pub(crate) fn kinds(self) -> Vec<FaultKind> {
        kinds_of(self.properties().2)
    }

    pub(crate) fn site_kinds(self) -> Vec<FaultKind> {
        let mut kinds = kinds_of(self.properties().3);
        kinds.retain(|kind| match kind {
            FaultKind::RestartNode | FaultKind::IsolateNode => self != Self::FailOver,
            FaultKind::SwitchPrimary => self != Self::Nodes,
            FaultKind::LosePrimary => self == Self::FailOver,
            _ => true,
        });
        kinds
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
    /// The database as it is reached through each node of the cluster. One element if the site has a single server, or
    /// if a proxy leads to the primary.
    pub(crate) nodes: Vec<Database>,
    /// True while no contender may start.
    pub(crate) is_closed: AtomicBool,
}

impl Site {
    /// Returns the URL that contender number `slot` of `action` uses. On a cluster, the contenders of an action start
    /// with different nodes.
    pub(crate) fn url(&self, action: &str, slot: usize, route: Route) -> String {
        let first = slot % self.nodes.len();
        let node = &self.nodes[first];
        // Only the primary of a group accepts writes.
        let route = match self.purpose {
            Purpose::Members => Route::Proxy,
            // The proxy has no Unix socket.
            Purpose::FailOver => Route::Tcp,
            _ => route,
        };
        match (route, self.proxies.get(action)) {
            (Route::Socket, _) => node.socket_url(),
            (Route::Tcp, _) => node.url(),
            (Route::Proxy, Some(proxy)) => node.url_through(proxy.port()),
            (Route::Proxy, None) => {
                let (before, after) = self.nodes.split_at(first);
                let nodes = after.iter().chain(before);
                let hosts: Vec<String> = nodes
                    .map(|node| format!("127.0.0.1:{}", node.port))
                    .collect();
                node.url().replace(&hosts[0], &hosts.join(","))
            }
        }
    }
}

pub(crate) struct Running {
    pub(crate) site: Site,
    pub(crate) machines: Box<dyn Machines>,
}

impl Running {
    pub(crate) fn start(context: &RunContext, topology: Topology, purpose: Purpose) -> Self {
        let name = purpose.to_string();
        let flavour = topology.flavour();
        let mut machines: Box<dyn Machines> = match purpose {
            Purpose::Processes | Purpose::Network | Purpose::Restarts => {
                Box::new(Server::start(flavour, &[]))
            }
            Purpose::Clocks => Box::new(Clocked::start(flavour, &context.folder)),
            Purpose::Nodes => Box::new(nemesis::start_galera()),
            Purpose::Members => Box::new(nemesis::start_group()),
            Purpose::FailOver => Box::new(Pair::start(flavour)),
        };
        machines.wait_healthy();
        let first = &machines.nodes()[0];
        let numbers = 1..=purpose.properties().0;
        let actions: Vec<String> = numbers.map(|number| format!("{name}-{number}")).collect();
        let on_network = actions.iter().filter(|_| purpose == Purpose::Network);
        let proxies = on_network.map(|action| {
            let proxy = Proxy::to(first.port());
            proxy.forget_requests();
            (action.clone(), proxy)
        });
        let database = first.database(&name);
        if purpose == Purpose::Members {
            let members = "performance_schema.replication_group_members";
            let user = &database.user;
            first.run(format!("GRANT SELECT ON {members} TO '{user}'@'%'"));
        }
        let site = Site {
            proxies: proxies.collect(),
            actions,
            nodes: machines.entries(&database),
            is_closed: AtomicBool::new(false),
            database,
            purpose,
            name,
        };
        probe::set_up(&mut site.database.admin_conn());
        for action in &site.actions {
            for lock in [action.clone(), shared_lock(action)] {
                let witness = context.folder.join("witness").join(lock);
                File::create(witness).expect("a file can be created");
            }
        }
        let set_up = |_| {
            let mut dlock = context.dlock();
            let setup = dlock
                .args(["setup", "-q"])
                .env("DLOCK_URL", site.database.url());
            setup.status().expect("dlock starts").success()
        };
        // All servers start at the same time, and a slow disk may delay the first statements.
        assert!((0..4).any(set_up), "dlock setup on {}", site.name);
        Self { site, machines }
    }
}
