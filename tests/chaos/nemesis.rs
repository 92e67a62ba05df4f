//! The nemeses. Each nemesis injects the faults of its schedule, one at a time, into its own action or its own server.
//!
//! After each fault, a nemesis waits for a command to start. Faults of one action therefore do not
//! overlap, and each take-over can be attributed to one fault of the action. On the site `restarts`, a fault of the
//! server may overlap with a fault of an action.

mod machines;
mod network;
mod operator;
mod process;
mod session;

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::fault_kind::{FaultKind, Victim};
use crate::history::{Event, Micros, now};
use crate::run_context::RunContext;
use crate::schedule::{Step, steps};
use crate::testbed::Site;
use crate::timeline::Run;

pub(crate) use machines::{
    Clocked, Machines, Pair, inject_faults as inject_site_faults, start_galera, start_group,
};

/// The nemesis of one action, or of the machines of a site.
pub(crate) struct Nemesis<'a> {
    pub(crate) context: &'a RunContext,
    pub(crate) site: &'a Site,
    /// None for the machines.
    pub(crate) action: Option<&'a str>,
}

#[must_use]
#[derive(Clone, Copy)]
struct Fault {
    number: u64,
    at: Micros,
}

impl<'a> Nemesis<'a> {
    pub(crate) const fn new(
        context: &'a RunContext,
        site: &'a Site,
        action: Option<&'a str>,
    ) -> Self {
        Self {
            context,
            site,
            action,
        }
    }

    /// Injects faults of `kinds` into the action until the fault phase ends.
    pub(crate) fn inject_faults(&self, kinds: &[FaultKind]) {
        let actions = [self.action().to_owned()];
        for step in steps(self.context.seed, self.action(), kinds) {
            if !self.context.live_runs.pause(step.pause) {
                return;
            }
            let started = match step.kind.victim() {
                Victim::Holder | Victim::Waiter => self.inject_process_fault(step),
                Victim::Session => self.inject_session_fault(step),
                Victim::Network => self.inject_network_fault(step),
                Victim::Lease => self.inject_lease_fault(step),
                Victim::Reader => self.inject_reader_fault(step),
                Victim::Server | Victim::Node | Victim::Clock => {
                    unreachable!("this fault affects a site, not an action")
                }
            };
            // Otherwise, the fault found no victim.
            if let Some(at) = started {
                self.context.live_runs.wait_for_start(&actions, at);
            }
        }
    }

    fn action(&self) -> &str {
        self.action.expect("this nemesis has an action")
    }

    /// Waits for the length of a fault of `run`, or until the fault phase ends.
    fn pause(&self, step: Step, run: &Run) {
        let ttl = Duration::from_millis(run.plan.ttl);
        let length = step.kind.length(ttl, step.severity);
        self.context.live_runs.pause(length);
    }

    fn begin(&self, kind: FaultKind, run: Option<u64>, pid: Option<u32>) -> Fault {
        let number = self.context.faults.fetch_add(1, Ordering::Relaxed);
        let event = Event::Fault {
            fault: number,
            kind,
            site: self.site.name.clone(),
            pid,
        };
        let at = (self.context.journal).write(now(), run, self.action, event);
        Fault { number, at }
    }

    /// Records the end of the fault. `hit` is true if the fault affected a run. Returns the start time of the fault if
    /// `hit` is true, and None otherwise.
    fn end(&self, fault: Fault, hit: bool) -> Option<Micros> {
        let Fault { number, at } = fault;
        let event = Event::Healed { fault: number, hit };
        self.context.journal.record(event);
        hit.then_some(at)
    }
}
