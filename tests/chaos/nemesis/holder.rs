//! Faults of the processes of whoever holds the lease: front, monitor, and the command's tree.

use std::time::Duration;

use rustix::process::Signal;

use super::{Nemesis, SEARCH};
use crate::board::Run;
use crate::history::Micros;
use crate::kind::Kind;
use crate::processes::{Process, of_run, send};
use crate::schedule::Step;

impl Nemesis<'_> {
    /// Brings the fault to a holder; when it began, if there was one.
    pub(super) fn strike_holder(&self, step: Step) -> Option<Micros> {
        let holder = self
            .course
            .board
            .holder(&self.action, work_left(step), SEARCH)?;
        let pid = self.target(step, &holder)?;
        let mark = &self.course.mark;
        let length = step
            .kind
            .length(Duration::from_millis(holder.plan.ttl), step.severity);
        let signal = match step.kind {
            Kind::KillFront | Kind::KillMonitor | Kind::KillCommand => Signal::KILL,
            Kind::TermFront => Signal::TERM,
            _ => Signal::STOP,
        };
        let fault = self.begin(step.kind, Some(holder.number), Some(pid));
        let sent = send(pid, mark, signal);
        if signal == Signal::STOP {
            self.course.weather.pause(length);
            send(pid, mark, Signal::CONT);
        }
        fault.end(self.course, sent)
    }

    /// The process of `holder` that the fault is for.
    fn target(&self, step: Step, holder: &Run) -> Option<u32> {
        let processes = || of_run(&self.course.mark, holder.number);
        let is_dlock = |process: &Process| process.program == self.course.dlock;
        match step.kind {
            Kind::KillMonitor | Kind::FreezeMonitor => processes()
                .into_iter()
                .find(|process| process.parent == holder.front && is_dlock(process))
                .map(|process| process.pid),
            Kind::KillCommand | Kind::FreezeCommand => {
                let mut tree = processes();
                tree.retain(|process| process.pid != holder.front && !is_dlock(process));
                let chosen = step.choice.checked_rem(tree.len())?;
                Some(tree[chosen].pid)
            }
            _ => Some(holder.front),
        }
    }
}

/// How much work a holder should have before it for the fault to be worth while.
fn work_left(step: Step) -> Duration {
    let millis = match step.kind {
        // Also in the moments around a grant and a release.
        Kind::KillFront | Kind::TermFront if step.severity < 0.4 => 0,
        Kind::KillFront | Kind::FreezeMonitor => 500,
        Kind::FreezeFrontNear | Kind::FreezeFrontLong => 1_500,
        _ => 200,
    };
    Duration::from_millis(millis)
}
