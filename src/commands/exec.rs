//! `dlock exec`: acquire, supervise the command, release, notify, exit.
//!
//! One loop on the main thread takes every event (signals, replies of the database thread, words of
//! the monitor) and asks the pure state machines what to do: `acquire` until the grant, then `renew`
//! until the monitor says that the command's tree is dead, then `releasing`. Nothing in here waits for
//! the server, so deadlines and signals are served whatever the server does. The order at the end is
//! fixed: command dead, renewals over, release, exit.
//!
//! `start` has what comes before: the settings, the processes and the threads.

pub(super) mod desk;
mod hold;
pub mod nested;
mod news;
mod release;
mod start;
mod wait;

use std::ffi::OsString;

use self::start::Plan;
use crate::cli::ExecArgs;
use crate::exit::{Cause, Ending, Status};
use crate::lease::action::Action;
use crate::lease::once::Once;
use crate::report::{Report, words};
use crate::store::Success;
use crate::store::target::Target;
use crate::sys::process::Unstartable;

/// Runs the command under the lock.
///
/// # Errors
/// When the command never ran: it cannot be started, the lock could not be had, a signal came.
pub fn run(args: ExecArgs, target: Target, report: &Report) -> anyhow::Result<Status> {
    report.about(&args.action);
    let plan = Plan::new(args)?;
    if let Some(token) = nested::outer_token(&plan.contender, &target, plan.args.db_wait)? {
        return Err(plan.run_under(token, report).into());
    }
    let (mut desk, acquire, monitor) = plan.start(target, report)?;

    let outcome = desk.acquire(acquire, &plan.args).and_then(|lease| {
        report.finish();
        let mut run = desk.supervise(&lease, &plan.args, &monitor);
        desk.release(&lease, &mut run, &plan.args);
        desk.news.ended(run.outcome.result(), &run.reason, "");
        run.result()
    });
    report.finish();
    desk.conclude(outcome.as_ref().copied());
    desk.leave();
    Ok(outcome?)
}

/// The end of a dlock that finds what it is to do done.
fn done(action: &Action, once: Option<&Once>, success: Success) -> Ending {
    let why = words::done(action, once, &success);
    Ending::new(Status::OK, why).because(Cause::Done(success.holder))
}

/// The end of a dlock whose command cannot be run.
fn unstartable(command: &[OsString], why: &Unstartable) -> Ending {
    let (status, why) = match why {
        Unstartable::NotFound => (Status::NOT_FOUND, "no such command".to_owned()),
        Unstartable::NotExecutable(error) => (Status::NOT_EXECUTABLE, error.to_string()),
    };
    let program = command.first().map(|program| program.to_string_lossy());
    let program = program.unwrap_or_default();
    Ending::new(status, format!("cannot run {program}: {why}"))
}
