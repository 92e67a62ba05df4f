//! The settings of a run, validated as far as possible without a server.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;

use super::command_line;
use super::exits::unstartable;
use crate::cli::environment;
use crate::cli::exec::ExecArgs;
use crate::cli::observe::ObserveArgs;
use crate::cli::value::Wait;
use crate::commands::{holder, truncated};
use crate::config::connection_variables;
use crate::event::address_reader;
use crate::exit::{ExitError, Status};
use crate::lease::Token;
use crate::lease::timing::Timing;
use crate::protocol::acquire::WaitLimits;
use crate::protocol::keeper::KeeperSettings;
use crate::protocol::renew::Liveness;
use crate::report::Report;
use crate::report::log::EventKind;
use crate::store::target::Targets;
use crate::store::{Contender, FenceMode, Holder};
use crate::sys::pending_child::PreparedCommand;
use crate::sys::process::find_program;
use crate::sys::signal::JobControl;
use crate::sys::terminal;

/// A run with its settings, which are validated as far as possible without a server.
pub(super) struct ExecPlan {
    pub(super) contender: Contender,
    pub(super) keeper: KeeperSettings,
    /// The command and its arguments.
    pub(super) command: Vec<OsString>,
    /// The file whose changes are the heartbeats of the command. None if no heartbeats are required.
    pub(super) heartbeat_file: Option<PathBuf>,
    /// Maximum time for which the command may run. None if there is no limit.
    pub(super) max_runtime: Option<Duration>,
    /// Minimum time from the grant to the end of the lease.
    pub(super) min_hold: Duration,
    /// Exit status if the lease is not acquired in time.
    conflict_status: Status,
    /// Whether this process stops itself on Ctrl-Z.
    pub(super) job_control: JobControl,
    pub(super) stop_signal: i32,
    pub(super) observe: ObserveArgs,
    /// The environment variables that the command and the hooks do not get.
    pub(super) hidden_variables: Vec<OsString>,
    /// The options that have no effect under the lease of an outer dlock.
    unkept_inside: Vec<&'static str>,
}

impl ExecPlan {
    /// Creates the plan of a run on one of `targets`.
    ///
    /// # Errors
    /// Fails if the ttl is too short for the other durations, or if the command does not exist or
    /// is not executable.
    pub(super) fn new(args: ExecArgs, targets: &Targets) -> anyhow::Result<Self> {
        let timing =
            Timing::new(args.ttl, args.grace).map_err(|why| ExitError::new(Status::USAGE, why))?;
        let program = args.command.first().context("no command")?;
        find_program(program, env::var_os("PATH").as_deref())
            .map_err(|why| unstartable(&args.command, &why))?;
        let command = match args.hide_args || args.history == 0 {
            true => command_line::program(&args.command),
            false => command_line::redacted(&args.command),
        };
        let contender = Contender {
            action: args.name.action().clone(),
            holder: Holder {
                command: truncated(command),
                ..holder(args.holder, args.note)
            },
            ttl: timing.ttl,
            once: args.once.once(),
            history: args.history,
            fence: match args.fence {
                true => FenceMode::Advance,
                false => FenceMode::Unchanged,
            },
            inside: None,
        };
        let limits = WaitLimits {
            wait: match args.wait {
                _ if args.nonblock => Some(Duration::ZERO),
                Wait::Forever => None,
                Wait::AtMost(wait) => Some(wait),
            },
            connect: args.connect_timeout,
        };
        Ok(Self {
            contender,
            keeper: KeeperSettings {
                timing,
                limits,
                policy: args.server_sessions,
                liveness: match args.heartbeat_file {
                    Some(_) => Liveness::Pending,
                    None => Liveness::NotRequired,
                },
                checks_address: address_reader::is_checked(targets),
            },
            command: args.command,
            heartbeat_file: args.heartbeat_file,
            max_runtime: args.max_runtime,
            min_hold: args.once.min_hold.unwrap_or_default(),
            conflict_status: Status::from_code(args.conflict_exit_code),
            job_control: match terminal::is_controlling() {
                true => JobControl::Announced,
                false => JobControl::Off,
            },
            stop_signal: args.stop_signal,
            observe: args.observe,
            hidden_variables: hidden_variables(args.hide_credentials),
            unkept_inside: args.unkept_inside,
        })
    }

    /// Checks that the outer lease with `token` can keep the options of this run.
    ///
    /// # Errors
    /// Fails if it cannot.
    pub(super) fn check_inside(&self, token: Token) -> Result<(), ExitError> {
        let Some(option) = self.unkept_inside.first() else {
            return Ok(());
        };
        let action = &self.contender.action;
        let why = format!(
            "{option} has no effect under the lease of an outer dlock exec, which holds {action} (token {token}): \
             give the option to the outer one, or use another name here"
        );
        Err(ExitError::new(Status::USAGE, why))
    }

    /// Replaces this process with the command, which runs under the outer lease with `token`.
    /// Returns only if the replacement fails.
    pub(super) fn run_under(&self, token: Token, report: &Report) -> ExitError {
        report.granted(token);
        let action = &self.contender.action;
        let text = format_args!(
            "{action} is held by the outer dlock (token {token}): running under its lease"
        );
        report.debug(EventKind::Nested, text);
        unstartable(
            &self.command,
            &PreparedCommand::new(&self.command, &[], &self.hidden_variables, true).exec(),
        )
    }

    /// Returns what the exit of a contender without a grant depends on.
    pub(super) const fn conflict(&self) -> (&Contender, Status) {
        (&self.contender, self.conflict_status)
    }
}

/// Returns the environment variables that the command and the hooks do not get: those of options, which are meant for this
/// run only, and the connection settings if `hides_credentials` is true.
fn hidden_variables(hides_credentials: bool) -> Vec<OsString> {
    let connection = match hides_credentials {
        true => connection_variables(),
        false => Vec::new(),
    };
    let variables = env::vars_os().map(|(name, _)| name);
    let options = variables.filter(|name| environment::is_option(name));
    options.chain(connection).collect()
}
