//! Checks that no command is killed without a cause, and that every exit of dlock has a documented cause.

use super::{START, Violation, once};
use crate::fault_kind::{FaultKind, Victim};
use crate::history::{End, Micros};
use crate::schedule::{ContenderKind, ExecOption};
use crate::timeline::{Run, Timeline};

const KILL: i32 = 9;
const TERM: i32 = 15;

/// Minimum length in microseconds of a stall of the machine that explains a lost lease.
const STALL: Micros = 300_000;

const STOPS: [FaultKind; 2] = [FaultKind::TermParent, FaultKind::TermWaiter];

/// Faults of processes that may cause the loss of a lease. `FreezeWaiter` is included because the waiter may have
/// become the holder.
const LEASE_FAULTS: [FaultKind; 6] = [
    FaultKind::FreezeParentShort,
    FaultKind::FreezeParentNear,
    FaultKind::FreezeParentLong,
    FaultKind::FreezeWaiter,
    FaultKind::KillMonitor,
    FaultKind::FreezeMonitor,
];

const SCRIPT_FAULTS: [FaultKind; 3] = [
    FaultKind::KillParent,
    FaultKind::KillWaiter,
    FaultKind::KillCommand,
];

/// Faults after which the program of a hold may end before its work is finished.
const PROGRAM_FAULTS: [FaultKind; 3] = [
    FaultKind::KillCommand,
    FaultKind::FreezeCommand,
    FaultKind::StopReader,
];

pub(crate) fn cause(timeline: &Timeline) -> Vec<Violation> {
    let violation = |ending: Ending| {
        let Ending { run, end, .. } = ending;
        // After this time, the runner itself kills the remaining processes.
        if timeline.overdue.is_some_and(|overdue| end.at >= overdue) {
            return None;
        }
        let (number, what) = (run.number, ending.unexplained()?);
        let what = format!("run {number}: {what}; standard error: {:?}", end.stderr);
        Some(Violation::new(end.at, &*run.action, what))
    };
    endings(timeline).filter_map(violation).collect()
}

/// Returns the runs whose lost lease can only be explained by a slow machine. The checker accepts these runs.
pub(crate) fn excused(timeline: &Timeline) -> Vec<&Run> {
    let is_excused = |ending: &Ending| {
        let has_cause =
            ending.had_fault(&LEASE_FAULTS) || ending.was_revoked() || ending.had_outage();
        ending.end.status == Some(76) && !has_cause
    };
    let excused = endings(timeline).filter(is_excused);
    excused.map(|ending| ending.run).collect()
}

struct Ending<'a> {
    timeline: &'a Timeline,
    run: &'a Run,
    end: &'a End,
}

fn endings(timeline: &Timeline) -> impl Iterator<Item = Ending<'_>> {
    let runs = timeline.runs.values();
    runs.filter_map(move |run| {
        let end = run.end.as_ref()?;
        Some(Ending { timeline, run, end })
    })
}

impl Ending<'_> {
    /// Describes the end if it is unexplained. None if it has a cause.
    fn unexplained(&self) -> Option<String> {
        let Self { timeline, run, end } = self;
        let (kind, has_started) = (run.plan.kind, run.start.is_some());
        let was_stopped = self.had_fault(&STOPS);
        let may_be_killed = was_stopped || self.may_have_lost_lease();
        let is_killed_script =
            kind == ContenderKind::HoldPid && (may_be_killed || self.had_fault(&SCRIPT_FAULTS));
        let Some(status) = end.status else {
            let has_cause = match end.signal {
                Some(KILL) => {
                    is_killed_script
                        || self.had_fault(&[FaultKind::KillParent, FaultKind::KillWaiter])
                }
                // On a busy machine, the signal may arrive before dlock handles signals. dlock has then printed nothing.
                Some(TERM) => {
                    is_killed_script || was_stopped && !has_started && end.stderr.is_empty()
                }
                _ => false,
            };
            return (!has_cause).then(|| format!("dlock was ended by signal {:?}", end.signal));
        };
        if status == 0 && (self.was_skipped() || once::is_done(timeline, run)) {
            return None;
        }
        if status == 0 && kind == ContenderKind::HoldJson && run.finished.is_none() {
            let has_cause = may_be_killed || self.had_fault(&PROGRAM_FAULTS);
            return (!has_cause).then(|| "its program stopped without a cause".to_owned());
        }
        if status == run.plan.exit {
            // The failure of a command is the status, also if the server did not confirm the release, so that dlock cannot
            // find out whether the lease was live to the end.
            let is_failure = status != 0 && end.stderr.contains("dlock: cannot release ");
            let what = self.lost_before_the_end().filter(|_| !is_failure)?;
            return Some(format!("dlock exited with {status}, but {what}"));
        }
        let has_cause = match status {
            // The command exits with these statuses if it is not alone or its token was refused. Another checker reports
            // this.
            98 | 99 => true,
            75 => run.plan.wait.is_some() && !has_started,
            // The server may not have responded before the wait limit, or not have confirmed the release of a hold. Or the
            // lease ended while dlock waited for the end of sessions that an earlier run had left.
            69 => {
                let left = " left on the server, has not ended, and ";
                let has_waited = run.plan.wait.is_some() || end.stderr.contains(left);
                self.had_outage_or_stall()
                    && (kind == ContenderKind::HoldJson || has_waited && !has_started)
            }
            76 => self.may_have_lost_lease(),
            // The second SIGTERM kills a command that survived the first.
            137 => {
                let stops = self.faults(&STOPS).count();
                is_killed_script || self.had_fault(&[FaultKind::KillCommand]) || stops > 1
            }
            143 => is_killed_script || was_stopped,
            _ => false,
        };
        (!has_cause).then(|| format!("dlock exited with {status} without a cause"))
    }

    /// Describes why the lease was not live when the command had finished. None if nothing contradicts it.
    fn lost_before_the_end(&self) -> Option<String> {
        let run = self.run;
        let (Some(start), Some(finished)) = (run.start, run.finished) else {
            return Some("its command did not finish".to_owned());
        };
        let is_between = |at| start.at < at && at < finished;
        // The status of a script is its own, and a stubborn one goes on until dlock kills it. An operator may also have
        // revoked a grant that was not confirmed yet, or one lease of several. dlock then waits again.
        if run.plan.kind != ContenderKind::HoldPid && run.revoked.is_some_and(is_between) {
            return Some(
                "an operator had revoked its lease before the command finished".to_owned(),
            );
        }
        let next = self.timeline.runs.values().find(|other| {
            other.action == run.action
                && run.excludes(other)
                && other.start.is_some_and(|start| is_between(start.at))
        })?;
        let next = next.number;
        Some(format!(
            "run {next} had started before the command finished"
        ))
    }

    /// Returns the faults of these kinds before the end whose victim was the run.
    fn faults(&self, kinds: &[FaultKind]) -> impl Iterator {
        let faults = self.timeline.faults_of(self.run.number);
        faults.filter(|fault| kinds.contains(&fault.kind) && fault.at < self.end.at)
    }

    fn had_fault(&self, kinds: &[FaultKind]) -> bool {
        self.faults(kinds).next().is_some()
    }

    fn may_have_lost_lease(&self) -> bool {
        self.had_fault(&LEASE_FAULTS) || self.was_revoked() || self.had_outage_or_stall()
    }

    /// Returns true if dlock may have found that the action had just succeeded, and has not started its command.
    fn was_skipped(&self) -> bool {
        let Self { timeline, run, end } = self;
        run.plan.option == Some(ExecOption::OncePer)
            && run.start.is_none()
            && timeline.runs.values().any(|other| {
                other.action == run.action
                    // The end of a hold counts as a success.
                    && (other.plan.exit == 0 || other.plan.kind == ContenderKind::HoldPid)
                    && (other.finished).is_some_and(|at| run.launched < at + START && at < end.at)
            })
    }

    /// Returns true if an operator may have revoked the lease. A revoked lease of an earlier run does not count.
    fn was_revoked(&self) -> bool {
        let Self { timeline, run, end } = self;
        timeline.faults.values().any(|fault| {
            fault.kind.victim() == Victim::Lease
                && fault.hit
                && fault.action.as_ref() == Some(&run.action)
                && fault.at < end.at
                && fault.until >= self.since()
                && run.start.is_none_or(|start| start.at < fault.until + START)
        })
    }

    /// Returns true if the server was unavailable for longer than the lease must tolerate, or if the machine stalled.
    fn had_outage_or_stall(&self) -> bool {
        let stalled = || (self.timeline).stalled(&self.run.action, self.since(), self.end.at);
        self.had_outage() || stalled() >= STALL
    }

    /// Returns true if a fault of the server or the network lasted longer than the lease must tolerate.
    fn had_outage(&self) -> bool {
        // Every lease of the schedule must tolerate an outage that is shorter than a fifth of its ttl. A longer outage may
        // cause the loss of the lease, depending on the time of the latest renewal before the outage.
        let tolerated = self.run.plan.ttl * 1_000 / 5;
        let action = &self.run.action;
        let longest = (self.timeline).longest_outage(action, self.since(), self.end.at);
        longest >= tolerated
    }

    /// Returns the earliest time of an event that can explain this end. An earlier event cannot explain the end, because
    /// the lease was renewed after that event.
    fn since(&self) -> Micros {
        self.end.at.saturating_sub(self.run.plan.ttl * 2_000)
    }
}
