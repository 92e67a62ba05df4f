//! Faults of the nodes of a Galera cluster. Only one node at a time has a fault, so the other nodes always have a majority.

use std::time::Duration;

use rustix::process::Signal;

use super::server::{send, shut_down};
use super::{RECOVERY, begin};
use crate::clusters::{Galera, run, value};
use crate::fault_kind::FaultKind;
use crate::run_context::RunContext;
use crate::schedule::steps;
use crate::servers::Server;
use crate::testbed::Site;

/// Minimum time in which all nodes work before the next fault.
const MIN_PAUSE: Duration = Duration::from_secs(3);

/// Times after which the other nodes exclude a silent node. With the defaults of 5 s and 15 s, the cluster would accept
/// no write for most of the run.
const DETECTION: &str =
    "evs.suspect_timeout=PT2S;evs.inactive_timeout=PT4S;evs.install_timeout=PT4S";

/// Sets the times after which the nodes exclude a silent node.
pub(crate) fn set_detection(node: &Server) {
    run(
        node,
        &format!("SET GLOBAL wsrep_provider_options='{DETECTION}'"),
    );
}

/// Injects faults of `kinds` into the nodes of `cluster` until the fault phase ends. A fault ends when all nodes accept
/// writes again.
pub(crate) fn inject_faults(
    context: &RunContext,
    site: &Site,
    cluster: &mut Galera,
    kinds: &[FaultKind],
) {
    for step in steps(context.seed, &site.name, kinds) {
        if !context.fault_phase.pause(step.pause + MIN_PAUSE) {
            return;
        }
        let index = step.choice % cluster.nodes.len();
        let node = &cluster.nodes[index];
        let length = step.kind.length(Duration::from_secs(3), step.severity);
        let fault = begin(context, site, step.kind, None, None, Some(node.pid()));
        match step.kind {
            FaultKind::FreezeNode => {
                send(node, Signal::STOP);
                context.fault_phase.pause(length);
                send(node, Signal::CONT);
            }
            FaultKind::IsolateNode => {
                run(node, "SET GLOBAL wsrep_provider_options='gmcast.isolate=1'");
                context.fault_phase.pause(length);
                run(node, "SET GLOBAL wsrep_provider_options='gmcast.isolate=0'");
            }
            _ => {
                if step.kind == FaultKind::RestartNode {
                    shut_down(node);
                }
                restart(&mut cluster.nodes, index);
                set_detection(&cluster.nodes[index]);
            }
        }
        cluster.wait_healthy();
        let at = fault.at;
        let _ = fault.end(context, true);
        context
            .live_runs
            .wait_for_start(&site.actions, at, RECOVERY);
    }
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
