//! dlock runs a command on one machine at a time. The lock is a lease in a row of a MySQL or MariaDB table.
//!
//! The modules:
//! - [`cli`]: the command line; [`config`]: the server and the account from flags, environment and files
//! - [`lease`]: the values of the protocol; [`store`]: the requests to a database; [`store::mysql`]: the SQL
//! - [`protocol::acquire`], [`protocol::renew`] and [`protocol::release`]: the state machines of a lease
//! - [`process::supervisor`]: decides which signals the command gets; [`process::monitor`]: the process that sends
//!   these signals
//! - [`event`]: the events of the loop in [`commands::exec`]; [`event::database`] and [`event::heartbeat`]: threads
//!   that send some of these events
//! - [`metrics`]: the metrics file of a run; [`process::hook`]: the command of `--on-event`
//! - [`mutant`]: the safeguards that tests can disable, to prove that the tests detect the resulting fault
//! - [`watch`]: the screen of `status --watch`; [`serve`]: the page of `serve`
//! - [`outcome`]: the outcome of a run
//! - [`report`]: the output; [`exit`]: the exit statuses; [`sys`]: the calls to the kernel
//!
//! The library has no stable interface. It exists for the `dlock` program, its tests and its benchmarks.

pub mod cli;
pub mod commands;
pub mod config;
pub mod event;
pub mod exit;
pub mod lease;
pub mod locks;
pub mod metrics;
pub mod mutant;
pub mod outcome;
pub mod process;
pub mod protocol;
pub mod report;
#[cfg(feature = "serve")]
pub mod serve;
pub mod store;
pub mod sys;
pub mod watch;

use std::ffi::OsString;
use std::panic;
use std::thread;

use clap::error::ErrorKind;

use crate::cli::{Cli, Command, Format};
use crate::commands::outer;
use crate::config::Setting;
use crate::exit::{ExitError, Status};
use crate::process::hook;
use crate::report::log::{EventKind, EventMeta};
use crate::report::{Report, Verbosity};

/// Runs dlock with the command line and the environment of this process, and returns the exit status.
#[must_use]
pub fn run() -> Status {
    report_panics(Format::Text);
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let cli = match cli::parse::parse(&arguments, &variables_without_option()) {
        Ok(cli) => cli,
        Err(error) => {
            let status = report_parse_error(&error, cli::parse::format(&arguments));
            if status != Status::OK && cli::parse::is_for_shell(&arguments) {
                commands::hold::print_failure(status);
            }
            return status;
        }
    };
    report_panics(cli.common.log_format);
    let verbosity = match (cli.common.quiet, cli.common.verbose) {
        (true, _) => Verbosity::Quiet,
        (false, false) => Verbosity::Normal,
        (false, true) => Verbosity::Verbose,
    };
    let report = Report::new(verbosity, cli.common.log_format);
    let is_for_shell = matches!(&cli.command, Command::Hold(args) if args.pid.is_some());
    let is_exec = matches!(cli.command, Command::Exec(_) | Command::Hold(_));
    if is_exec {
        for warning in cli::environment::ignored(|name| std::env::var_os(name).is_some()) {
            report.info(EventKind::Message, warning);
        }
    }
    let status = match dispatch(cli, &report) {
        Ok(status) => status,
        Err(error) => {
            let status = status_of(&error);
            let why = format!("{error:#}");
            let meta = event_meta(&error);
            if is_for_shell {
                commands::hold::print_failure(status);
            }
            // With -E 0, a held lock is not a failure.
            match status {
                Status::OK => report.info(meta.ending_with(status.code()), why),
                _ if is_exec => report.exit_status(meta, status, &why),
                _ => report.error(meta.ending_with(status.code()), why),
            }
            status
        }
    };
    report.close();
    status
}

/// Returns the names of the environment variables that belong to no option: the password, the variables that dlock sets
/// for commands and hooks, and those of the tests.
#[must_use]
pub fn variables_without_option() -> Vec<&'static str> {
    let set_by_dlock = outer::VARIABLES.into_iter().chain(hook::VARIABLES);
    let of_tests = mutant::TEST_VARIABLES.iter().copied();
    set_by_dlock
        .chain([config::PASSWORD_VARIABLE])
        .chain(of_tests)
        .collect()
}

fn dispatch(cli: Cli, report: &Report) -> anyhow::Result<Status> {
    let settings =
        || config::connection_settings(&cli.common.connection, |name| std::env::var_os(name));
    let targets = || settings()?.targets();
    match cli.command {
        Command::Exec(args) => commands::exec::run(*args, targets()?, report),
        Command::Hold(args) => commands::hold::run(*args, targets()?, report),
        Command::Status(args) => commands::status::run(args, targets()?, report),
        Command::Wait(args) => commands::wait::run(args, targets()?, report),
        Command::Check(args) => commands::check::run(args, targets()?),
        Command::Leader(args) => commands::leader::run(&args, targets()?, report),
        Command::Note(args) => commands::note::run(args, targets()?),
        Command::History(args) => commands::history::run(args, targets()?, report),
        Command::Release(args) => commands::release::run(args, targets()?, report),
        Command::Forget(args) => commands::forget::run(args, targets()?, report),
        Command::Prune(args) => commands::prune::run(args, &targets()?, report),
        Command::Setup(args) if args.print => {
            let settings = settings()?;
            match settings.targets() {
                Err(error) if cli.common.connection.names_a_source() => Err(error.into()),
                // No server is needed.
                _ => commands::setup::print(
                    settings.text(Setting::Database),
                    settings.text(Setting::User).unwrap_or("dlock"),
                ),
            }
        }
        Command::Setup(_) => commands::setup::run(targets()?, report),
        #[cfg(feature = "serve")]
        Command::Serve(args) => commands::serve::run(args, targets()?, report),
        Command::List(args) => commands::list::run(&args, targets()?, report),
        Command::CopyTo(args) => commands::copy_to::run(&args),
        Command::Version(_) => commands::help::version(),
        Command::Help(args) => commands::help::help(&args),
        Command::Explain(args) => commands::explain::run(&args),
        Command::Doctor(args) => commands::doctor::run(&args, &settings()?),
        Command::CompleteNames(args) => Ok(commands::complete_names::run(args)),
    }
}

/// Returns the exit status for `error`. If `error` contains no exit status, the cause is a defect or an
/// operating-system failure, and the status is [`Status::INTERNAL`].
fn status_of(error: &anyhow::Error) -> Status {
    if let Some(error) = error.downcast_ref::<ExitError>() {
        error.status
    } else if let Some(error) = error.downcast_ref::<config::Error>() {
        error.status()
    } else {
        Status::INTERNAL
    }
}

/// Returns the event kind of the final message, and the label of the other holder if `error` contains one.
fn event_meta(error: &anyhow::Error) -> EventMeta<'_> {
    match error.downcast_ref().and_then(ExitError::skipped_for) {
        Some(holder) => EventKind::Skipped.by(Some(holder).filter(|holder| !holder.is_empty())),
        None => EventKind::Failed.into(),
    }
}

/// Prints the help, the version or the usage error that clap returned, and returns the exit status. Help and version
/// are successes; all other cases are usage errors, which have the `format` of messages.
fn report_parse_error(error: &clap::Error, format: Format) -> Status {
    let status = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Status::OK,
        _ => Status::USAGE,
    };
    if status == Status::USAGE && format == Format::Json {
        let report = Report::new(Verbosity::Quiet, format);
        let text = error.render().to_string();
        let why = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
        report.error(EventKind::Failed.by(None).ending_with(status.code()), why);
        report.close();
    } else {
        // A failed write cannot be reported anywhere.
        let _ = error.print();
    }
    status
}

/// Reports each panic in one line, except panics on the database thread. The database thread catches the driver's
/// panics and returns a failure for the request.
fn report_panics(format: Format) {
    panic::set_hook(Box::new(move |panic| {
        if thread::current().name() != Some(crate::store::mysql::worker::THREAD_NAME) {
            report::panicked(format, panic);
        }
    }));
}
