//! `dlock exec`: acquires the lock, supervises the command, releases the lock, notifies the
//! observers, and exits.
//!
//! One loop on the main thread receives every event: signals, responses from the database thread,
//! and messages from the monitor. Pure state machines make the decisions: `acquire` until the
//! grant, then `renew` until the monitor reports that the command's process tree is dead, then
//! `release`. The main thread never blocks on the server, so it always handles deadlines and
//! signals. The order of the last steps is fixed: the command is dead, renewals stop, the lease is
//! released, dlock exits.
//!
//! The module `start` prepares the settings, the processes and the threads of a run.

pub(super) mod event_loop;
mod exits;
mod hold;
pub mod nested;
mod observers;
mod release;
mod start;
mod wait;

use self::start::Plan;
use crate::cli::exec::ExecArgs;
use crate::exit::Status;
use crate::report::Report;
use crate::store::target::Target;

/// Runs the command under the lock.
///
/// # Errors
/// Fails if the command cannot be started, if the lock cannot be acquired, if `--once` finds a
/// recorded success, if a signal ends the wait, or if a process of the command is left behind.
pub fn run(args: ExecArgs, target: Target, report: &Report) -> anyhow::Result<Status> {
    report.about(&args.action);
    let plan = Plan::new(args)?;
    if let Some(token) = nested::outer_token(&plan.contender, &target, plan.args.connect_timeout)? {
        return Err(plan.run_under(token, report).into());
    }
    let (mut event_loop, acquire, monitor) = plan.start(target, report)?;

    let outcome = event_loop.acquire(acquire, &plan.args).and_then(|lease| {
        report.finish();
        let mut run = event_loop.supervise(&lease, &plan.args, &monitor);
        event_loop.release(&lease, &mut run, &plan.args);
        event_loop
            .observers
            .ended(run.outcome.result(), &run.reason, "");
        run.result()
    });
    report.finish();
    event_loop.finish_observers(outcome.as_ref().copied());
    event_loop.stop();
    Ok(outcome?)
}
