//! Faults of the servers of a site. Only one server at a time has a fault, so the other nodes of a cluster always have a
//! majority.

mod clock;
mod galera;
mod group;
mod pair;

use std::slice;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use testkit::command::{is_alive, signal};
use testkit::servers::{Database, Server};
use testkit::sql::connect;

pub(crate) use clock::Clocked;
pub(crate) use galera::start as start_galera;
pub(crate) use group::start as start_group;
pub(crate) use pair::Pair;

use super::Nemesis;
use crate::fault_kind::FaultKind;
use crate::run_context::RunContext;
use crate::schedule::{Step, steps};
use crate::testbed::{LOSSY_TTL, Site};

/// Maximum time until all nodes work again after a fault, and the polling interval.
const HEALING_TIME: Duration = Duration::from_mins(4);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum time until all contenders have read the record.
const READ_TIME: Duration = Duration::from_secs(10);

/// Maximum time from a grant to the start of the command, on a busy machine.
const START_TIME: Duration = Duration::from_secs(1);

/// Maximum time for a clean shutdown. After this time, the server is killed.
const SHUTDOWN: Duration = Duration::from_secs(20);

/// The servers of a site, and their faults. The servers stop when this value is dropped.
pub(crate) trait Machines: Send {
    fn nodes(&self) -> &[Server];

    /// Returns `database` as contenders reach it: through each node, or through the proxy.
    fn entries(&self, database: &Database) -> Vec<Database> {
        let nodes = self.nodes().iter();
        nodes.map(|node| node.same(database)).collect()
    }

    /// Returns the minimum time in which all nodes work before the next fault.
    fn min_pause(&self) -> Duration {
        Duration::from_secs(3)
    }

    /// Returns the index of the node that gets the fault.
    fn victim(&self, step: Step) -> usize {
        step.choice % self.nodes().len()
    }

    /// Injects a fault of `kind`, except a freeze, into the node with this index. The node has been shut down if it must
    /// be restarted. `pause` waits until a lasting fault must end.
    fn inject(&mut self, kind: FaultKind, index: usize, pause: &dyn Fn());

    /// Returns true if all nodes work. Repairs a node that does not recover without help.
    fn heal(&mut self) -> bool {
        true
    }

    fn wait_healthy(&mut self) {
        let started = Instant::now();
        while !self.heal() {
            assert!(started.elapsed() < HEALING_TIME, "not all nodes recovered");
            thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Machines for Server {
    fn nodes(&self) -> &[Server] {
        slice::from_ref(self)
    }

    /// Leases are renewed during this pause. Otherwise, successive faults would act as one long fault.
    fn min_pause(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn inject(&mut self, _: FaultKind, _: usize, _: &dyn Fn()) {
        self.restart();
    }
}

/// Shuts the server down, and returns once its process has ended or [`SHUTDOWN`] has passed.
fn shut_down(server: &Server) {
    signal(server.pid(), "TERM");
    let turn = Duration::from_millis(20);
    let mut left = SHUTDOWN;
    while is_alive(&server.pid().to_string()) && !left.is_zero() {
        thread::sleep(turn);
        left -= turn;
    }
}

/// Injects faults of `kinds` into `machines` until the fault phase ends. A fault ends when all nodes work again.
pub(crate) fn inject_faults(
    context: &RunContext,
    site: &Site,
    machines: &mut dyn Machines,
    kinds: &[FaultKind],
) {
    let nemesis = Nemesis::new(context, site, None);
    for step in steps(context.seed, &site.name, kinds) {
        if !(context.live_runs).pause(step.pause + machines.min_pause()) {
            return;
        }
        let index = machines.victim(step);
        let node = &machines.nodes()[index];
        let is_lossy = step.kind == FaultKind::LosePrimary;
        if is_lossy && !close(context, site) {
            site.is_closed.store(false, Ordering::Relaxed);
            continue;
        }
        let fault = nemesis.begin(step.kind, None, Some(node.pid()));
        let pause = || {
            let length = step.kind.length(Duration::from_secs(3), step.severity);
            context.live_runs.pause(length);
        };
        match step.kind {
            FaultKind::FreezeServer | FaultKind::FreezeNode => {
                signal(node.pid(), "STOP");
                pause();
                signal(node.pid(), "CONT");
            }
            kind => {
                if matches!(kind, FaultKind::RestartServer | FaultKind::RestartNode) {
                    shut_down(node);
                }
                machines.inject(kind, index, &pause);
            }
        }
        if is_lossy {
            // Until then, a command whose grant is lost may still run.
            thread::sleep(Duration::from_millis(LOSSY_TTL) + START_TIME);
            site.is_closed.store(false, Ordering::Relaxed);
        }
        machines.wait_healthy();
        let at = fault.at;
        let _ = nemesis.end(fault, true);
        context.live_runs.wait_for_start(&site.actions, at);
    }
}

/// Stops the start of new contenders, and waits until all contenders have read the record. dlock makes no promise to a
/// contender that has read nothing before the database loses a grant. Returns false if a contender does not read the
/// record in time.
fn close(context: &RunContext, site: &Site) -> bool {
    site.is_closed.store(true, Ordering::Relaxed);
    let started = Instant::now();
    while started.elapsed() < READ_TIME {
        let queued = queued(site).unwrap_or_default();
        let mut waiting = context.live_runs.waiting();
        waiting.retain(|run| !queued.contains(&format!("run {run}")));
        if waiting.is_empty() {
            return true;
        }
        thread::sleep(POLL_INTERVAL);
    }
    false
}

/// Returns the contenders with an entry in the queue. A contender reads the record before it joins the queue.
fn queued(site: &Site) -> mysql::Result<Vec<String>> {
    let mut connection = connect(&site.nodes[0].url())?;
    connection.query("SELECT CAST(holder AS CHAR) FROM dlock_waiter")
}
