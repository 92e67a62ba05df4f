//! Faults of the nodes of a Galera cluster.

use std::thread;

use testkit::clusters::{Galera, value};
use testkit::servers::Server;

use super::{Machines, POLL_INTERVAL};
use crate::fault_kind::FaultKind;

/// Times after which the other nodes exclude a silent node. With the defaults of 5 s and 15 s, the cluster would accept
/// no write for most of the run.
const DETECTION: &str =
    "evs.suspect_timeout=PT2S;evs.inactive_timeout=PT4S;evs.install_timeout=PT4S";

impl Machines for Galera {
    fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    fn inject(&mut self, kind: FaultKind, index: usize, pause: &dyn Fn()) {
        if kind == FaultKind::IsolateNode {
            set(&self.nodes[index], "gmcast.isolate=1");
            pause();
            set(&self.nodes[index], "gmcast.isolate=0");
        } else {
            restart(&mut self.nodes, index);
            set(&self.nodes[index], DETECTION);
        }
    }

    fn heal(&mut self) -> bool {
        let nodes: Vec<&Server> = self.nodes.iter().collect();
        bootstrap_if_stuck(&nodes);
        self.nodes.iter().all(|node| {
            Self::status(node, "wsrep_cluster_size") == "3"
                && Self::status(node, "wsrep_ready") == "ON"
        })
    }
}

pub(crate) fn start() -> Galera {
    let cluster = Galera::start();
    for node in &cluster.nodes {
        set(node, DETECTION);
    }
    cluster
}

fn set(node: &Server, options: &str) {
    let statement = format!("SET GLOBAL wsrep_provider_options='{options}'");
    node.run(&statement);
}

/// Kills the node with this index, and restarts it with its data. The other nodes must be running.
fn restart(nodes: &mut [Server], index: usize) {
    let (before, rest) = nodes.split_at_mut(index);
    let (node, after) = rest.split_first_mut().expect("the index is valid");
    let others: Vec<&Server> = before.iter().chain(&*after).collect();
    let addresses: Vec<String> = others
        .iter()
        .filter_map(|node| value(node, "SELECT @@wsrep_node_address"))
        .collect();
    let address = format!("--wsrep-cluster-address=gcomm://{}", addresses.join(","));
    thread::scope(|scope| {
        let restart = scope.spawn(|| node.restart_with(&[&address]));
        while !restart.is_finished() {
            bootstrap_if_stuck(&others);
            thread::sleep(POLL_INTERVAL);
        }
    });
}

/// Makes `nodes` a primary component if they have lost their majority for good. On a busy machine, the other nodes may
/// exclude each other while a node restarts. The cluster then waits for a member that no longer exists. All three nodes
/// are in one component, so no other one can be primary.
fn bootstrap_if_stuck(nodes: &[&Server]) {
    let is_stuck = |node: &&Server| {
        Galera::status(node, "wsrep_cluster_size") == "3"
            && Galera::status(node, "wsrep_cluster_status") == "non-Primary"
    };
    if nodes.iter().all(is_stuck) {
        set(nodes[0], "pc.bootstrap=1");
    }
}
