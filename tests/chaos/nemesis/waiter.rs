//! Faults of waiters.

use std::time::Duration;

use rustix::process::Signal;

use super::{Nemesis, SEARCH};
use crate::fault_kind::FaultKind;
use crate::history::Micros;
use crate::processes::send;
use crate::schedule::Step;

impl Nemesis<'_> {
    /// Injects the fault into a waiter. Returns the start time of the fault; None if no waiter was affected.
    pub(super) fn inject_waiter_fault(&self, step: Step) -> Option<Micros> {
        let waiter = self
            .context
            .live_runs
            .waiter(&self.action, step.choice, SEARCH)?;
        let mark = &self.context.mark;
        let length = step
            .kind
            .length(Duration::from_millis(waiter.plan.ttl), step.severity);
        let signal = match step.kind {
            FaultKind::KillWaiter => Signal::KILL,
            FaultKind::TermWaiter => Signal::TERM,
            _ => Signal::STOP,
        };
        let fault = self.begin(step.kind, Some(waiter.number), Some(waiter.parent));
        let sent = send(waiter.parent, mark, signal);
        if signal == Signal::STOP {
            self.context.fault_phase.pause(length);
            send(waiter.parent, mark, Signal::CONT);
        }
        fault.end(self.context, sent)
    }
}
