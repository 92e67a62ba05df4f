//! `dlock exec`: acquires the lock, supervises the command, ends its sessions on the server, releases
//! the lock, notifies the observers, and exits.
//!
//! One loop on the main thread receives every event: signals, responses from the database thread,
//! and messages from the monitor. Pure state machines make the decisions: `acquire` until the
//! grant, then `renew` until the monitor reports that the command's process tree is dead, then
//! `sessions` until no session of the command is left on the server, then `release`. The main thread never blocks on the server, so it always handles deadlines and
//! signals. The order of the last steps is fixed: the command is dead, renewals stop, the lease is
//! released, dlock exits.
//!
//! The module `start` prepares the settings, the processes and the threads of a run.

mod abandoned;
mod command_line;
pub(super) mod event_loop;
mod exits;
mod hold;
pub mod nested;
mod observers;
mod release;
mod sessions;
mod start;
mod tracking;
mod wait;

use self::start::Plan;
use crate::cli::exec::ExecArgs;
use crate::exit::{ExitError, Status};
use crate::report::Report;
use crate::store::target::Targets;
use crate::sys::{clock, proc};

/// Runs the command under the lock.
///
/// # Errors
/// Fails if the command cannot be started, if the lock cannot be acquired, if `--once` finds a
/// recorded success, if a signal ends the wait, or if a process of the command is left behind.
pub fn run(args: ExecArgs, targets: Targets, report: &Report) -> anyhow::Result<Status> {
    report.about(args.name.action());
    proc::check().map_err(|why| {
        let (fact, fix) = (why.fact(), why.fix());
        let text = format!("{fact}, so dlock could not stop the descendants of the command; {fix}");
        ExitError::new(Status::CONFIG, text)
    })?;
    let plan = Plan::new(args)?;
    if let Some(token) = nested::outer_token(&plan.contender, &targets, plan.args.connect_timeout)?
    {
        plan.check_inside(token)?;
        return Err(plan.run_under(token, report).into());
    }
    let (mut event_loop, acquire, monitor) = plan.start(targets, report)?;

    let started = clock::now();
    let lease = event_loop.acquire(acquire, &plan.args);
    let lease = lease.and_then(|lease| event_loop.end_earlier_sessions(lease, &plan.args, started));
    let outcome = lease.and_then(|(lease, ended)| {
        report.finish();
        let waited = clock::now().since(started);
        let mut run = event_loop.supervise(&lease, &plan.args, &monitor, waited);
        run.facts.killed.sessions = ended;
        let is_clear = event_loop.end_own_sessions(&mut run);
        event_loop.release(&lease, &mut run, &plan.args, is_clear);
        event_loop
            .observers
            .ended(run.outcome.result(), &run.reason, "");
        run.result()
    });
    report.finish();
    event_loop.finish_observers(outcome.as_ref().copied());
    event_loop.stop();
    monitor.end();
    Ok(outcome?)
}
