//! Faults of the nodes of a Galera cluster.

use rustix::process::Signal;

use super::Cluster;
use crate::clusters::{Galera, run, value};
use crate::fault_kind::FaultKind;
use crate::nemesis::server::{send, shut_down};
use crate::servers::Server;

/// Times after which the other nodes exclude a silent node. With the defaults of 5 s and 15 s, the cluster would accept
/// no write for most of the run.
const DETECTION: &str =
    "evs.suspect_timeout=PT2S;evs.inactive_timeout=PT4S;evs.install_timeout=PT4S";

impl Cluster for Galera {
    fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    fn inject(&mut self, kind: FaultKind, index: usize, pause: &dyn Fn()) {
        let node = &self.nodes[index];
        match kind {
            FaultKind::FreezeNode => {
                send(node, Signal::STOP);
                pause();
                send(node, Signal::CONT);
            }
            FaultKind::IsolateNode => {
                set(node, "gmcast.isolate=1");
                pause();
                set(node, "gmcast.isolate=0");
            }
            _ => {
                if kind == FaultKind::RestartNode {
                    shut_down(node);
                }
                restart(&mut self.nodes, index);
                set(&self.nodes[index], DETECTION);
            }
        }
    }

    fn heal(&mut self) -> bool {
        self.nodes.iter().all(|node| {
            Self::status(node, "wsrep_cluster_size") == "3"
                && Self::status(node, "wsrep_ready") == "ON"
        })
    }
}

/// Starts a cluster that excludes a silent node soon.
pub(crate) fn start() -> Galera {
    let cluster = Galera::start();
    for node in &cluster.nodes {
        set(node, DETECTION);
    }
    cluster
}

fn set(node: &Server, options: &str) {
    let statement = format!("SET GLOBAL wsrep_provider_options='{options}'");
    run(node, &statement);
}

/// Kills the node with this index, and restarts it with its data. The other nodes must be running.
fn restart(nodes: &mut [Server], index: usize) {
    let others = nodes.iter().enumerate();
    let others = others.filter(|(other, _)| *other != index);
    let addresses: Vec<String> = others
        .filter_map(|(_, node)| value(node, "SELECT @@wsrep_node_address"))
        .collect();
    let address = format!("--wsrep-cluster-address=gcomm://{}", addresses.join(","));
    nodes[index].restart_with(&[&address]);
}
