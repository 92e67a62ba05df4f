//! dlock runs a command on one machine at a time, with a lease on a row of MySQL or MariaDB.
//!
//! Where to look:
//! - what can be typed: [`cli`]; how it becomes a server and an account: [`config`]
//! - the words of the protocol: [`lease`]; what it asks of a database: [`store`]; the SQL:
//!   [`store::mysql`]
//! - taking a lease: [`acquire`]; keeping it: [`renew`]; giving it up: [`releasing`]; what the command is sent: [`supervise`], by
//!   the [`monitor`], a process of its own
//! - the threads: [`database`] and [`heartbeat`] send [`event`]s to the loop in [`commands::exec`]
//! - what others are told of a run: [`metrics`], and the [`hook`], by another process of its own
//! - what the tests can take out of all that, to see that they notice: [`twin`]
//! - the screen of `status --watch`: [`watch`]
//! - how a run ended: [`outcome`]
//! - what is printed: [`report`]; what the process ends with: [`exit`]; the kernel: [`sys`]
//!
//! The library has no stable interface; the program has.

pub mod acquire;
pub mod cli;
pub mod clock_step;
pub mod commands;
pub mod config;
pub mod database;
pub mod event;
pub mod exit;
pub mod heartbeat;
pub mod hook;
pub mod lease;
pub mod metrics;
pub mod monitor;
pub mod outcome;
pub mod releasing;
pub mod renew;
pub mod report;
pub mod store;
pub mod supervise;
pub mod sys;
pub mod twin;
pub mod watch;

use std::panic;
use std::thread;

use clap::Parser;
use clap::error::ErrorKind;

use crate::cli::{Cli, Command, Format};
use crate::exit::{Ending, Status};
use crate::report::log::{Subject, What};
use crate::report::{Report, Verbosity};

/// Runs the program on the command line and the environment of this process.
#[must_use]
pub fn run() -> Status {
    report_panics(Format::Text);
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return unparsed(&error),
    };
    report_panics(cli.log_format);
    let verbosity = match (cli.quiet, cli.verbose) {
        (true, _) => Verbosity::Quiet,
        (false, false) => Verbosity::Normal,
        (false, true) => Verbosity::Verbose,
    };
    let report = Report::new(verbosity, cli.log_format);
    let status = match dispatch(cli, &report) {
        Ok(status) => status,
        Err(error) => {
            let status = status_of(&error);
            let why = format_args!("{error:#}");
            let subject = subject_of(&error).ending_with(status.code());
            // With -E 0 a held lock is no failure.
            match status {
                Status::OK => report.notice(subject, why),
                _ => report.error(subject, why),
            }
            status
        }
    };
    report.close();
    status
}

fn dispatch(cli: Cli, report: &Report) -> anyhow::Result<Status> {
    let target = || config::target(&cli.connection, |name| std::env::var_os(name));
    match cli.command {
        Command::Exec(args) => commands::exec::run(*args, target()?, report),
        Command::Status(args) => commands::status::run(args, target()?, report),
        Command::Wait(args) => commands::wait::run(args, target()?, report),
        Command::Check(args) => commands::check::run(args, target()?),
        Command::History(args) => commands::history::run(args, target()?),
        Command::Release(args) => commands::release::run(args, target()?, report),
        Command::Forget(args) => commands::forget::run(args, target()?, report),
        Command::Setup(args) if args.print => match target() {
            Ok(target) => commands::setup::print(&target.database),
            // Nothing but a database is needed; what was given beyond that must still be right.
            Err(error) if cli.connection.names_a_source() => Err(error.into()),
            Err(_) => commands::setup::print(cli.connection.database.as_deref().unwrap_or("dlock")),
        },
        Command::Setup(_) => commands::setup::create(target()?, report),
        Command::Doctor(args) => commands::doctor::run(&args, target()?),
    }
}

/// The status that an error carries; any other is a defect or the system's.
fn status_of(error: &anyhow::Error) -> Status {
    if let Some(ending) = error.downcast_ref::<Ending>() {
        ending.status
    } else if let Some(error) = error.downcast_ref::<config::Error>() {
        error.status()
    } else {
        Status::INTERNAL
    }
}

/// What the last message is about.
fn subject_of(error: &anyhow::Error) -> Subject<'_> {
    match error.downcast_ref().and_then(Ending::skipped_for) {
        Some(holder) => What::Skipped.by(Some(holder).filter(|holder| !holder.is_empty())),
        None => What::Failed.into(),
    }
}

/// Help and version go to stdout and are a success; everything else is a wrong command line.
fn unparsed(error: &clap::Error) -> Status {
    // Nobody is left to tell if this cannot be written.
    let _ = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Status::OK,
        _ => Status::USAGE,
    }
}

/// A panic is told in one line. Those of the driver are not: the database thread catches them and
/// reports them as a failed question.
fn report_panics(format: Format) {
    panic::set_hook(Box::new(move |panic| {
        if thread::current().name() != Some(database::THREAD_NAME) {
            report::panicked(format, panic);
        }
    }));
}
