//! `dlock exec`: acquire, supervise the command, release, notify, exit.
//!
//! One loop on the main thread receives every event (signals, responses from the database thread,
//! messages from the monitor) and lets the pure state machines decide: `acquire` until the grant, then
//! `renew` until the monitor reports that the command's process tree is dead, then `releasing`. The main
//! thread never blocks on the server, so deadlines and signals are always handled. The order at the end
//! is fixed: the command is dead, renewals stop, the lease is released, dlock exits.
//!
//! The module `start` prepares the settings, the processes and the threads.

pub(super) mod event_loop;
mod hold;
pub mod nested;
mod observers;
mod release;
mod start;
mod wait;

use std::ffi::OsString;

use self::start::Plan;
use crate::cli::exec::ExecArgs;
use crate::exit::{ExitCause, ExitError, Status};
use crate::lease::action::Action;
use crate::lease::once::Once;
use crate::report::{Report, messages};
use crate::store::Success;
use crate::store::target::Target;
use crate::sys::process::ExecError;

/// Runs the command under the lock.
///
/// # Errors
/// Fails if the command never ran: it cannot be started, the lock could not be acquired, or a signal
/// arrived.
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

/// Returns the exit of a dlock that has nothing to do because a success is recorded.
fn done(action: &Action, once: Option<&Once>, success: Success) -> ExitError {
    let why = messages::done(action, once, &success);
    ExitError::new(Status::OK, why).because(ExitCause::Done(success.holder))
}

/// Returns the exit of a dlock whose command cannot be started.
fn unstartable(command: &[OsString], why: &ExecError) -> ExitError {
    let (status, why) = match why {
        ExecError::NotFound => (Status::NOT_FOUND, "no such command".to_owned()),
        ExecError::NotExecutable(error) => (Status::NOT_EXECUTABLE, error.to_string()),
    };
    let program = command.first().map(|program| program.to_string_lossy());
    let program = program.unwrap_or_default();
    ExitError::new(status, format!("cannot run {program}: {why}"))
}
