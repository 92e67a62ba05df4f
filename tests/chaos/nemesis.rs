//! The nemeses: each causes the faults of its schedule, one after the other, on its own action or its own server.
//!
//! After each fault a nemesis waits until a command starts again, so faults of one action do not overlap and each
//! take-over can be attributed to one of them.

mod clock;
mod holder;
mod network;
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
pub(crate) use server::rage;

/// Maximum time to look for a victim.
const SEARCH: Duration = Duration::from_secs(12);

/// Maximum time to wait after a fault for a command to start. After that the next fault comes anyway.
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
    /// Causes faults of `kinds` until the fault phase ends.
    pub(crate) fn rage(&self, kinds: &[FaultKind]) {
        for step in steps(self.context.seed, &self.action, kinds) {
            if !self.context.fault_phase.pause(step.pause) {
                return;
            }
            let brought = match step.kind.victim() {
                Victim::Holder => self.strike_holder(step),
                Victim::Waiter => self.strike_waiter(step),
                Victim::Session => self.strike_session(step),
                Victim::Network => self.strike_network(step),
                Victim::Lease => self.strike_lease(step),
                Victim::Reader => self.strike_reader(step),
                Victim::Server | Victim::Clock => {
                    unreachable!("a fault of the site, not of an action")
                }
            };
            match brought {
                Some(at) => self.recover(at),
                None => self.miss(step),
            }
        }
    }

    /// Waits until a command starts after the fault that began at `at`.
    fn recover(&self, at: Micros) {
        let actions = [self.action.clone()];
        // In ten parts, so that the end of the fault phase is noticed soon.
        for _ in 0..10 {
            let patience = RECOVERY / 10;
            if !self.context.fault_phase.is_active()
                || self.context.live_runs.goes_on(&actions, at, patience)
            {
                return;
            }
        }
    }

    fn miss(&self, step: Step) {
        if self.context.fault_phase.is_active() {
            self.context.journal.note(Event::Missed {
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
    let at = context.journal.note(Event::Fault {
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
    /// Records that the fault is over and whether it hit a run. Returns the time of its begin if it did.
    fn end(self, context: &RunContext, hit: bool) -> Option<Micros> {
        let fault = self.number;
        context.journal.note(Event::Healed { fault, hit });
        hit.then_some(self.at)
    }
}
