//! Those who bring the faults of the schedule, one after the other, each against its own action or its own server.
//!
//! A nemesis waits after each fault until somebody's command begins again: so faults of one action do not overlap, and
//! it is clear which of them a take-over is due to.

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

use crate::course::Course;
use crate::history::{Event, Micros};
use crate::kind::{Kind, Victim};
use crate::schedule::{Step, steps};
use crate::site::Site;

pub(crate) use clock::Clock;
pub(crate) use server::rage;

/// How long to look for a victim.
const SEARCH: Duration = Duration::from_secs(12);

/// How long to wait for the life after a fault before the next one comes nevertheless.
const RECOVERY: Duration = Duration::from_secs(20);

/// Whoever brings faults to one action.
pub(crate) struct Nemesis<'a> {
    pub(crate) course: &'a Course,
    pub(crate) site: &'a Site,
    pub(crate) action: String,
}

/// A fault that goes on.
#[must_use]
struct Fault {
    number: u64,
    at: Micros,
}

impl Nemesis<'_> {
    /// Brings faults of these kinds until it is calm.
    pub(crate) fn rage(&self, kinds: &[Kind]) {
        for step in steps(self.course.seed, &self.action, kinds) {
            if !self.course.weather.pause(step.pause) {
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
                    unreachable!("that is the site's, not an action's")
                }
            };
            match brought {
                Some(at) => self.recover(at),
                None => self.miss(step),
            }
        }
    }

    /// Waits for the life after the fault that began at `at`.
    fn recover(&self, at: Micros) {
        let actions = [self.action.clone()];
        // In ten parts, so that it is noticed soon when it becomes calm.
        for _ in 0..10 {
            let patience = RECOVERY / 10;
            if !self.course.weather.rages() || self.course.board.goes_on(&actions, at, patience) {
                return;
            }
        }
    }

    fn miss(&self, step: Step) {
        if self.course.weather.rages() {
            self.course.journal.note(Event::Missed {
                kind: step.kind,
                action: self.action.clone(),
            });
        }
    }

    /// Notes that a fault begins.
    fn begin(&self, kind: Kind, run: Option<u64>, pid: Option<u32>) -> Fault {
        let action = Some(self.action.clone());
        begin(self.course, self.site, kind, action, run, pid)
    }
}

fn begin(
    course: &Course,
    site: &Site,
    kind: Kind,
    action: Option<String>,
    run: Option<u64>,
    pid: Option<u32>,
) -> Fault {
    let number = course.faults.fetch_add(1, Ordering::Relaxed);
    let at = course.journal.note(Event::Fault {
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
    /// Notes that it is over, and whether it hit anybody; returns when it began, if so.
    fn end(self, course: &Course, hit: bool) -> Option<Micros> {
        let fault = self.number;
        course.journal.note(Event::Healed { fault, hit });
        hit.then_some(self.at)
    }
}
