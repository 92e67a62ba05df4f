//! Faults of processes: of a waiter, or of a holder's parent, which may be a hold, its monitor, and the process tree of the
//! command or the program.

use std::time::Duration;

use rustix::process::Signal;

use super::Nemesis;
use crate::fault_kind::{FaultKind, Victim};
use crate::history::Micros;
use crate::processes::{Process, of_run, send};
use crate::schedule::{ContenderKind, Step};
use crate::timeline::Run;

impl Nemesis<'_> {
    /// Injects the fault into a holder or a waiter. Returns the start time of the fault; None if no run was affected.
    pub(super) fn inject_process_fault(&self, step: Step) -> Option<Micros> {
        let live_runs = &self.context.live_runs;
        let run = match step.kind.victim() {
            Victim::Waiter => live_runs.waiter(self.action(), step.choice),
            _ => live_runs.holder(self.action(), work_left(step), |run| {
                match step.kind {
                    FaultKind::KillMonitor | FaultKind::FreezeMonitor => {
                        run.plan.kind.has_monitor()
                    }
                    // A hold that gets SIGTERM lets its script go on without the lock.
                    FaultKind::TermParent => run.plan.kind != ContenderKind::HoldPid,
                    _ => true,
                }
            }),
        }?;
        let pid = self.target(step, &run)?;
        let mark = &self.context.mark;
        let signal = match step.kind {
            FaultKind::KillParent
            | FaultKind::KillMonitor
            | FaultKind::KillCommand
            | FaultKind::KillWaiter => Signal::KILL,
            FaultKind::TermParent | FaultKind::TermWaiter => Signal::TERM,
            _ => Signal::STOP,
        };
        let fault = self.begin(step.kind, Some(run.number), Some(pid));
        let sent = send(pid, mark, signal);
        if signal == Signal::STOP {
            self.pause(step, &run);
            send(pid, mark, Signal::CONT);
        }
        self.end(fault, sent)
    }

    /// Returns the id of the victim among the processes of `run`. None if the process does not exist. The search takes
    /// long on a busy machine, so it is omitted for dlock's parent process.
    fn target(&self, step: Step, run: &Run) -> Option<u32> {
        let tree = || of_run(&self.context.mark, run.number).into_iter();
        let is_dlock = |process: &Process| process.program == self.context.dlock;
        let victims: Vec<Process> = match step.kind {
            FaultKind::KillMonitor | FaultKind::FreezeMonitor => {
                let is_monitor = |it: &Process| it.parent == run.parent && is_dlock(it);
                tree().filter(is_monitor).collect()
            }
            FaultKind::KillCommand | FaultKind::FreezeCommand => {
                let is_command = |it: &Process| it.pid != run.parent && !is_dlock(it);
                tree().filter(is_command).collect()
            }
            _ => return Some(run.parent),
        };
        let chosen = step.choice.checked_rem(victims.len())?;
        Some(victims[chosen].pid)
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
