//! `dlock hold`: acquires the lock, and holds it until stdin ends or a signal arrives, or until a process has ended
//! (`--pid`).
//!
//! The driver of `exec` does it, with another kind of work: a program that dlock has not started, and cannot stop. dlock
//! publishes the deadline of the lease on the clock of the machine. The program holds the lock while that clock is before the
//! published instant, also if dlock is frozen or dead. So dlock releases the lease only when the program has closed stdin,
//! or when the last published deadline has passed.
//!
//! With `--pid`, a shell waits for this process, so a second process holds the lock in the background (`front`). The monitor of
//! `exec` stops the process of `--pid` before the lease ends (`ward_work`), unless dlock only has to report it.

mod events;
mod front;
mod publication;
mod state_file;
mod ward;
mod ward_work;
mod work;

use std::fs;
use std::io;
use std::os::unix::process::parent_id;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;

use self::events::EventWriter;
use self::front::{Link, Side};
use self::publication::{Output, Publication};
use self::state_file::StateFile;
use self::ward_work::WardWork;
use self::work::HoldWork;
use super::exec;
use super::exec::nested;
use super::exec::plan::{RunPlan, WorkTexts};
use super::exec::start::Prepared;
use super::exec::supervised::SupervisedCommand;
use crate::cli::hold::{HoldArgs, OnLost};
use crate::cli::once::OnceArgs;
use crate::cli::run::RunArgs;
use crate::event::queue::EventSender;
use crate::event::{HoldInput, input as end_of_input};
use crate::exit::{ExitError, Status};
use crate::lease::OwnerId;
use crate::process::monitor::Subject;
use crate::report::Report;
use crate::store::target::Targets;
use crate::sys::input::{self, InputKind};
use crate::sys::proc;
use crate::sys::ward::Ward;

const NO_THREAD: &str = "cannot start a thread";

/// Holds the lock.
///
/// # Errors
/// Fails if the lock cannot be acquired, if an outer dlock holds it, if dlock must not guard the process of `--pid`, or if
/// stdin, that process or a signal ends the wait.
pub fn run(args: HoldArgs, targets: Targets, report: &Report) -> anyhow::Result<Status> {
    if let Some(first) = args.run.names.actions().iter().min() {
        report.about(first);
    }
    let Some(pid) = args.pid else {
        return hold_for_program(args, targets, report);
    };
    proc::check().map_err(|why| {
        let (fact, fix) = (why.fact(), why.fix());
        let text =
            format!("{fact}, so dlock could not find the descendants of process {pid}; {fix}");
        ExitError::new(Status::CONFIG, text)
    })?;
    let ward = ward::open(pid, args.on_lost)?;
    match front::split().context("cannot start the process in the background")? {
        Side::Front(status) => Ok(status),
        Side::Background(link) => hold_for_ward(args, ward, link, targets, report),
    }
}

/// Prints what makes a shell stop because of a failure with `status`.
pub fn print_failure(status: Status) {
    // A failed write cannot be reported anywhere.
    let _ = front::print_failure(status);
}

/// Holds the lock for the program at the other ends of stdin and stdout.
fn hold_for_program(args: HoldArgs, targets: Targets, report: &Report) -> anyhow::Result<Status> {
    let work = WorkTexts {
        name: "the program".to_owned(),
        shown: holds_for_parent(),
    };
    let plan = plan(args.run, args.grace, work, &targets)?;
    let reader = input::kind();
    let (stdin, stdout) = input::copies().context("cannot copy stdin and stdout")?;
    let output = Output::Events(EventWriter::new(args.json, stdout));
    hold(
        (&plan, targets, report),
        (output, args.state_file),
        |publication, _, _| {
            let work = HoldWork::new(&plan, publication, reader);
            Ok((Box::new(work), None))
        },
        |events| match reader {
            InputKind::Other => Ok(()),
            _ => end_of_input::start(HoldInput::Stdin, stdin, events),
        },
    )
}

/// Holds the lock for `ward`, in the background.
fn hold_for_ward(
    args: HoldArgs,
    ward: Ward,
    Link { commands, front }: Link,
    targets: Targets,
    report: &Report,
) -> anyhow::Result<Status> {
    report.leave_terminal();
    let work = WorkTexts {
        name: format!("process {}", ward.pid()),
        shown: format!("hold {} ({})", ward.pid(), ward.name()),
    };
    let plan = plan(args.run, args.grace, work, &targets)?;
    let guarded = ward.clone();
    hold(
        (&plan, targets, report),
        (Output::Shell(Some(commands)), args.state_file),
        |publication, owner_ids, targets| {
            if args.on_lost == Some(OnLost::Report) {
                let work = HoldWork::new(&plan, publication, InputKind::Other);
                return Ok((Box::new(work), None));
            }
            let action = plan.first().action.to_string();
            let subject = Subject::Ward(guarded.clone(), action);
            let monitor = plan.start_monitor(subject, owner_ids, targets)?;
            let ward = Some(guarded.clone());
            let supervised = SupervisedCommand::new(&plan, report, monitor.clone(), ward);
            let work = WardWork::new(publication, supervised, guarded, report);
            Ok((Box::new(work), Some(monitor)))
        },
        |events| {
            end_of_input::start(HoldInput::Front, front, events.clone())?;
            end_of_input::watch(ward, events)
        },
    )
}

/// Creates the plan of a hold.
fn plan(
    args: RunArgs,
    grace: Option<Duration>,
    work: WorkTexts,
    targets: &Targets,
) -> anyhow::Result<RunPlan> {
    let connect_timeout = args.connect_timeout;
    let plan = RunPlan::new(args, grace, &OnceArgs::default(), work, targets)?;
    for contender in &plan.contenders {
        if let Some(token) = nested::outer_token(contender, targets, connect_timeout)? {
            let why = format!(
                "an outer dlock holds {} already (token {token}), so there is nothing to hold",
                contender.action
            );
            return Err(ExitError::new(Status::USAGE, why).into());
        }
    }
    Ok(plan)
}

/// Acquires the leases of the plan and holds them. `prepare` returns the work, and `watch` starts the threads that wait for its
/// end.
fn hold<'a>(
    (plan, targets, report): (&'a RunPlan, Targets, &'a Report),
    (output, state_file): (Output, Option<PathBuf>),
    prepare: impl FnOnce(Publication<'a>, &[OwnerId], &Targets) -> anyhow::Result<Prepared<'a>>,
    watch: impl FnOnce(EventSender) -> io::Result<()>,
) -> anyhow::Result<Status> {
    let (file, thread) = state_file.map(StateFile::new).unzip();
    let publication = Publication::new(plan, output, file, plan.variables(&targets));
    let driver = plan.start(targets, report, |owner_ids, targets| {
        prepare(publication, owner_ids, targets)
    })?;
    let sender = driver.events.sender();
    if let Some(thread) = thread {
        state_file::start(thread, sender.clone()).context(NO_THREAD)?;
    }
    watch(sender.clone()).context(NO_THREAD)?;
    Ok(exec::drive(driver, report)?)
}

/// Returns the text that stands for a command in the tables if this process holds the lock for its parent.
fn holds_for_parent() -> String {
    let parent = fs::read_to_string(format!("/proc/{}/comm", parent_id()));
    match parent.as_deref().map(str::trim_end) {
        Ok(name) if !name.is_empty() => format!("hold ({name})"),
        _ => "hold".to_owned(),
    }
}
