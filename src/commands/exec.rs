//! `dlock exec`: acquires the lock, supervises the command, ends its sessions on the server, releases
//! the lock, notifies the observers, and exits.
//!
//! The module `driver` has the only loop: it receives every event on the main thread, and passes it to the keeper, which
//! decides everything about the lease, or to its work, the command under the monitor (`supervised`). The modules `plan` and
//! `start` prepare the settings, the processes and the threads of a run.

mod abandoned;
mod command_line;
pub(super) mod driver;
mod exits;
pub(super) mod nested;
mod observers;
pub(super) mod plan;
mod run_lease;
pub(super) mod start;
pub(super) mod supervised;
pub(super) mod work;

use self::driver::Driver;
use self::plan::RunPlan;
use self::supervised::SupervisedCommand;
use crate::cli::exec::ExecArgs;
use crate::exit::{ExitError, Status};
use crate::report::Report;
use crate::store::target::Targets;
use crate::sys::proc;

/// Runs the command under the lock.
///
/// # Errors
/// Fails if the command cannot be started, if the lock cannot be acquired, if `--once` finds a
/// recorded success, if a signal ends the wait, or if a process of the command is left behind.
pub fn run(args: ExecArgs, targets: Targets, report: &Report) -> anyhow::Result<Status> {
    if let Some(first) = args.run.names.actions().iter().min() {
        report.about(first);
    }
    proc::check().map_err(|why| {
        let (fact, fix) = (why.fact(), why.fix());
        let text = format!("{fact}, so dlock could not stop the descendants of the command; {fix}");
        ExitError::new(Status::CONFIG, text)
    })?;
    let connect_timeout = args.run.connect_timeout;
    let mut plan = RunPlan::of_command(args, &targets)?;
    let mut outer = None;
    for contender in plan.contenders.clone() {
        if let Some(token) = nested::outer_token(&contender, &targets, connect_timeout)? {
            plan.leave_to_outer(&contender.action, token)?;
            outer = Some((contender.action, token));
        }
    }
    if let (true, Some((action, token))) = (plan.contenders.is_empty(), outer) {
        return Err(plan.run_under(&action, token, report).into());
    }
    let driver = plan.start(targets, report, |owner_ids, targets| {
        let monitor = plan.start_monitor(plan.prepared(targets), owner_ids, targets)?;
        let command = SupervisedCommand::new(&plan, report, monitor.clone(), None);
        Ok((Box::new(command), Some(monitor)))
    })?;
    Ok(drive(driver, report)?)
}

/// Runs `driver` until the end of its leases, and then ends everything that belongs to it.
///
/// # Errors
/// Returns the reason if the work does not start.
pub(super) fn drive(mut driver: Driver, report: &Report) -> Result<Status, ExitError> {
    let end = driver.run();
    report.finish();
    driver.finish_observers(end.as_ref().copied());
    driver.stop();
    end
}
