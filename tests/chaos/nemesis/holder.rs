//! Faults of the holder's processes: the parent, which may be a hold, the monitor, and the process tree of the command or
//! the program.

use std::time::Duration;

use rustix::process::Signal;

use super::{Nemesis, SEARCH};
use crate::fault_kind::FaultKind;
use crate::history::Micros;
use crate::live_runs::Run;
use crate::processes::{Process, of_run, send};
use crate::schedule::{ContenderKind, Step};

impl Nemesis<'_> {
    /// Injects the fault into a holder. Returns the start time of the fault; None if no holder was affected.
    pub(super) fn inject_holder_fault(&self, step: Step) -> Option<Micros> {
        let needs_monitor = matches!(step.kind, FaultKind::KillMonitor | FaultKind::FreezeMonitor);
        let holder = self.context.live_runs.holder_matching(
            &self.action,
            work_left(step),
            SEARCH,
            |run| {
                // A hold that gets SIGTERM lets its script go on without the lock.
                let lets_go = run.plan.kind == ContenderKind::HoldPid;
                (run.plan.kind.has_monitor() || !needs_monitor)
                    && !(lets_go && step.kind == FaultKind::TermParent)
            },
        )?;
        let pid = self.target(step, &holder)?;
        let mark = &self.context.mark;
        let length = step
            .kind
            .length(Duration::from_millis(holder.plan.ttl), step.severity);
        let signal = match step.kind {
            FaultKind::KillParent | FaultKind::KillMonitor | FaultKind::KillCommand => Signal::KILL,
            FaultKind::TermParent => Signal::TERM,
            _ => Signal::STOP,
        };
        let fault = self.begin(step.kind, Some(holder.number), Some(pid));
        let sent = send(pid, mark, signal);
        if signal == Signal::STOP {
            self.context.fault_phase.pause(length);
            send(pid, mark, Signal::CONT);
        }
        fault.end(self.context, sent)
    }

    /// Returns the id of the victim among the processes of `holder`. None if the process does not exist.
    fn target(&self, step: Step, holder: &Run) -> Option<u32> {
        let processes = || of_run(&self.context.mark, holder.number);
        let is_dlock = |process: &Process| process.program == self.context.dlock;
        match step.kind {
            FaultKind::KillMonitor | FaultKind::FreezeMonitor => processes()
                .into_iter()
                .find(|process| process.parent == holder.parent && is_dlock(process))
                .map(|process| process.pid),
            FaultKind::KillCommand | FaultKind::FreezeCommand => {
                let mut tree = processes();
                tree.retain(|process| process.pid != holder.parent && !is_dlock(process));
                let chosen = step.choice.checked_rem(tree.len())?;
                Some(tree[chosen].pid)
            }
            _ => Some(holder.parent),
        }
    }
}

/// Returns the minimum remaining run time that a holder's command must have when the fault is injected.
fn work_left(step: Step) -> Duration {
    let millis = match step.kind {
        // These faults may also be injected shortly after a grant, or shortly before or during a release.
        FaultKind::KillParent | FaultKind::TermParent if step.severity < 0.4 => 0,
        FaultKind::KillParent | FaultKind::FreezeMonitor => 500,
        FaultKind::FreezeParentNear | FaultKind::FreezeParentLong => 1_500,
        _ => 200,
    };
    Duration::from_millis(millis)
}
