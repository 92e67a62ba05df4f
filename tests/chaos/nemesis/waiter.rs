//! Faults of those who stand in line.

use std::time::Duration;

use rustix::process::Signal;

use super::{Nemesis, SEARCH};
use crate::history::Micros;
use crate::kind::Kind;
use crate::processes::send;
use crate::schedule::Step;

impl Nemesis<'_> {
    /// Brings the fault to a waiter; when it began, if there was one.
    pub(super) fn strike_waiter(&self, step: Step) -> Option<Micros> {
        let waiter = self
            .course
            .board
            .waiter(&self.action, step.choice, SEARCH)?;
        let mark = &self.course.mark;
        let length = step
            .kind
            .length(Duration::from_millis(waiter.plan.ttl), step.severity);
        let signal = match step.kind {
            Kind::KillWaiter => Signal::KILL,
            Kind::TermWaiter => Signal::TERM,
            _ => Signal::STOP,
        };
        let fault = self.begin(step.kind, Some(waiter.number), Some(waiter.front));
        let sent = send(waiter.front, mark, signal);
        if signal == Signal::STOP {
            self.course.weather.pause(length);
            send(waiter.front, mark, Signal::CONT);
        }
        fault.end(self.course, sent)
    }
}
