//! The nemeses. Each nemesis injects the faults of its schedule, one at a time, into its own action or its own server.
//!
//! After each fault, a nemesis waits up to [`RECOVERY`] for a command to start. Faults of one action therefore do not
//! overlap, and each take-over can be attributed to one fault of the action. On the site `restarts`, a fault of the
//! server may overlap with a fault of an action.

mod clock;
mod holder;
mod network;
mod node;
mod operator;
mod reader;
mod server;
mod session;
mod waiter;

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::fault_kind::{FaultKind, Victim};
use crate::history::{Event, Micros};
use crate::run_context::RunContext;
use crate::schedule::{Step, steps};
use crate::testbed::Site;

pub(crate) use clock::Clock;
pub(crate) use node::{
    Cluster, inject_faults as inject_node_faults, start_galera, start_group, start_pair,
};
pub(crate) use server::inject_faults as inject_server_faults;

/// Maximum time to wait for a victim.
const SEARCH: Duration = Duration::from_secs(12);

/// Maximum time to wait for a command to start after a fault. After this time, the next fault is injected anyway.
const RECOVERY: Duration = Duration::from_secs(20);

/// The nemesis of one action.
pub(crate) struct Nemesis<'a> {
    pub(crate) context: &'a RunContext,
    pub(crate) site: &'a Site,
    pub(crate) action: String,
}

/// A fault in progress.
#[must_use]
struct Fault {
    number: u64,
    at: Micros,
}

impl Nemesis<'_> {
    /// Injects faults of `kinds` until the fault phase ends.
    pub(crate) fn inject_faults(&self, kinds: &[FaultKind]) {
        for step in steps(self.context.seed, &self.action, kinds) {
            if !self.context.fault_phase.pause(step.pause) {
                return;
            }
            let started = match step.kind.victim() {
                Victim::Holder => self.inject_holder_fault(step),
                Victim::Waiter => self.inject_waiter_fault(step),
                Victim::Session => self.inject_session_fault(step),
                Victim::Network => self.inject_network_fault(step),
                Victim::Lease => self.inject_lease_fault(step),
                Victim::Reader => self.inject_reader_fault(step),
                Victim::Server | Victim::Node | Victim::Clock => {
                    unreachable!("this fault affects a site, not an action")
                }
            };
            match started {
                Some(at) => self.recover(at),
                None => self.record_miss(step),
            }
        }
    }

    /// Waits until a command starts after `at`, the time when the fault began. Stops waiting after [`RECOVERY`], or
    /// when the fault phase ends.
    fn recover(&self, at: Micros) {
        let actions = [self.action.clone()];
        // The wait is divided into ten parts, so that a nemesis detects the end of the fault phase within 2 s.
        for _ in 0..10 {
            let timeout = RECOVERY / 10;
            if !self.context.fault_phase.is_active()
                || self.context.live_runs.wait_for_start(&actions, at, timeout)
            {
                return;
            }
        }
    }

    fn record_miss(&self, step: Step) {
        if self.context.fault_phase.is_active() {
            self.context.journal.record(Event::Missed {
                kind: step.kind,
                action: self.action.clone(),
            });
        }
    }

    /// Records that a fault begins.
    fn begin(&self, kind: FaultKind, run: Option<u64>, pid: Option<u32>) -> Fault {
        let action = Some(self.action.clone());
        begin(self.context, self.site, kind, action, run, pid)
    }
}

fn begin(
    context: &RunContext,
    site: &Site,
    kind: FaultKind,
    action: Option<String>,
    run: Option<u64>,
    pid: Option<u32>,
) -> Fault {
    let number = context.faults.fetch_add(1, Ordering::Relaxed);
    let at = context.journal.record(Event::Fault {
        fault: number,
        kind,
        site: site.name.clone(),
        action,
        run,
        pid,
    });
    Fault { number, at }
}

impl Fault {
    /// Records the end of the fault. `hit` is true if the fault affected a run. Returns the start time of the fault if
    /// `hit` is true, and None otherwise.
    fn end(self, context: &RunContext, hit: bool) -> Option<Micros> {
        let fault = self.number;
        context.journal.record(Event::Healed { fault, hit });
        hit.then_some(self.at)
    }
}
