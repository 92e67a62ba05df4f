//! `dlock hold`: acquires the lock, and holds it until stdin ends or a signal arrives.
//!
//! The driver of `exec` does it, with another kind of work: a program that dlock has not started, and cannot stop. dlock
//! publishes the deadline of the lease on the clock of the machine. The program holds the lock while that clock is before the
//! published instant, also if dlock is frozen or dead. So dlock releases the lease only when the program has closed stdin,
//! or when the last published deadline has passed.

mod events;
mod state_file;
mod work;

use std::fs;
use std::os::unix::process::parent_id;

use anyhow::Context;

use self::events::EventWriter;
use self::state_file::StateFile;
use self::work::HoldWork;
use super::exec;
use super::exec::nested;
use super::exec::plan::RunPlan;
use crate::cli::hold::HoldArgs;
use crate::cli::once::OnceArgs;
use crate::event::input as end_of_stdin;
use crate::exit::{ExitError, Status};
use crate::report::Report;
use crate::store::target::Targets;
use crate::sys::input::{self, InputKind};

const NO_THREAD: &str = "cannot start a thread";

/// Holds the lock.
///
/// # Errors
/// Fails if the lock cannot be acquired, if an outer dlock holds it, or if stdin or a signal ends the wait.
pub fn run(args: HoldArgs, targets: Targets, report: &Report) -> anyhow::Result<Status> {
    if let Some(first) = args.run.names.actions().iter().min() {
        report.about(first);
    }
    let connect_timeout = args.run.connect_timeout;
    let plan = RunPlan::new(
        args.run,
        args.grace,
        &OnceArgs::default(),
        holds_for(),
        &targets,
    )?;
    for contender in &plan.contenders {
        if let Some(token) = nested::outer_token(contender, &targets, connect_timeout)? {
            let why = format!(
                "an outer dlock holds {} already (token {token}), so there is nothing to hold",
                contender.action
            );
            return Err(ExitError::new(Status::USAGE, why).into());
        }
    }
    let reader = input::kind();
    let (stdin, stdout) = input::copies().context("cannot copy stdin and stdout")?;
    let writer = EventWriter::new(args.json, stdout);
    let variables = plan.variables(&targets);
    let (file, thread) = args.state_file.map(StateFile::new).unzip();
    let work = HoldWork::new(&plan, (writer, file), reader, variables);
    let driver = plan.start(targets, report, |_, _| Ok((Box::new(work), None)))?;
    let sender = driver.events.sender();
    if let Some(thread) = thread {
        state_file::start(thread, sender.clone()).context(NO_THREAD)?;
    }
    if reader != InputKind::Other {
        end_of_stdin::start(stdin, sender.clone()).context(NO_THREAD)?;
    }
    Ok(exec::drive(driver, report)?)
}

/// Returns the text that stands for a command in the tables.
fn holds_for() -> String {
    let parent = fs::read_to_string(format!("/proc/{}/comm", parent_id()));
    match parent.as_deref().map(str::trim_end) {
        Ok(name) if !name.is_empty() => format!("hold ({name})"),
        _ => "hold".to_owned(),
    }
}
