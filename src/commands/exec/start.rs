//! Prepares a run before its first attempt: the settings, the processes and the threads.
//!
//! Runs on the main thread. The monitor is forked before the other threads start, because a process
//! with threads must not fork.

use std::env;
use std::ffi::OsString;
use std::time::Duration;

use anyhow::Context;
use humantime::format_duration;

use super::abandoned::Abandoned;
use super::command_line;
use super::event_loop::EventLoop;
use super::exits::unstartable;
use super::nested;
use crate::cli::environment;
use crate::cli::exec::ExecArgs;
use crate::cli::value::Wait;
use crate::commands::{holder, truncated};
use crate::config::connection_variables;
use crate::event::heartbeat;
use crate::event::queue::EventQueue;
use crate::exit::{ExitError, Status};
use crate::lease::timing::Timing;
use crate::lease::{OwnerId, Token};
use crate::process::monitor::{Monitor, StopRules};
use crate::protocol::acquire::{Acquire, WaitLimits};
use crate::report::Report;
use crate::report::log::EventKind;
use crate::store::target::Targets;
use crate::store::{Contender, FenceMode, Holder};
use crate::sys::pending_child::PreparedCommand;
use crate::sys::process::find_program;
use crate::sys::signal::{JobControl, SignalFd};
use crate::sys::{clock, inherited, random, terminal};

/// Number of checks of the heartbeat file in one renewal interval.
const HEARTBEAT_CHECKS: u32 = 4;

/// The settings of a run, validated as far as possible without a server.
pub(super) struct Plan {
    pub(super) args: ExecArgs,
    timing: Timing,
    pub(super) contender: Contender,
}

impl Plan {
    /// Creates the plan from `args`.
    ///
    /// # Errors
    /// Fails if the ttl is too short for the other durations, or if the command does not exist or
    /// is not executable.
    pub(super) fn new(args: ExecArgs) -> anyhow::Result<Self> {
        let timing =
            Timing::new(args.ttl, args.grace).map_err(|why| ExitError::new(Status::USAGE, why))?;
        let program = args.command.first().context("no command")?;
        find_program(program, std::env::var_os("PATH").as_deref())
            .map_err(|why| unstartable(&args.command, &why))?;
        let command = match args.hide_args || args.history == 0 {
            true => command_line::program(&args.command),
            false => command_line::redacted(&args.command),
        };
        let contender = Contender {
            action: args.name.action().clone(),
            holder: Holder {
                command: truncated(command),
                ..holder(args.holder.clone(), args.note.clone())
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
        Ok(Self {
            args,
            timing,
            contender,
        })
    }

    /// Checks that the outer lease with `token` can keep the options of this run.
    ///
    /// # Errors
    /// Fails if it cannot.
    pub(super) fn check_inside(&self, token: Token) -> Result<(), ExitError> {
        let Some(option) = self.args.unkept_inside.first() else {
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
            &self.args.command,
            &PreparedCommand::new(&self.args.command, &[], &self.hidden_variables(), true).exec(),
        )
    }

    /// Returns the environment variables that the command and the hooks do not get: those of options, which are meant for
    /// this run only, and on request the connection settings.
    fn hidden_variables(&self) -> Vec<OsString> {
        let connection = match self.args.hide_credentials {
            true => connection_variables(),
            false => Vec::new(),
        };
        let variables = env::vars_os().map(|(name, _)| name);
        let options = variables.filter(|name| environment::is_option(name));
        options.chain(connection).collect()
    }

    /// Starts the monitor, which delays the command until the grant, and then starts the threads.
    ///
    /// # Errors
    /// Fails if the kernel cannot create a process, thread or descriptor.
    pub(super) fn start<'a>(
        &self,
        targets: Targets,
        report: &'a Report,
    ) -> anyhow::Result<(EventLoop<'a>, Acquire, Monitor)> {
        const NO_THREAD: &str = "cannot start a thread";
        let (args, timing, contender) = (&self.args, self.timing, &self.contender);
        let additions = [
            ("DLOCK_ACTION", contender.action.to_string()),
            ("DLOCK_HOLDER", contender.holder.label.clone()),
            ("DLOCK_TTL", format_duration(timing.ttl).to_string()),
            (nested::ADDRESS, nested::address(&targets)),
        ];
        let owner_id = OwnerId::new(random::bytes().context("cannot get random bytes")?);
        let shares_terminal = terminal::is_controlling();
        let job_control = match shares_terminal {
            true => JobControl::Announced,
            false => JobControl::Off,
        };
        let signals = SignalFd::open(job_control).context("cannot receive signals")?;
        let hidden = self.hidden_variables();
        let command = PreparedCommand::new(&args.command, &additions, &hidden, shares_terminal);
        let rules = StopRules {
            stop_signal: args.stop_signal,
            grace: timing.grace,
            shares_terminal,
        };
        let abandoned = Abandoned {
            owner_id,
            contender: contender.clone(),
            targets: targets.clone(),
            timing,
            policy: args.server_sessions,
            min_hold: args.once.min_hold.unwrap_or_default(),
        };
        let monitor = Monitor::start(contender.action.as_str(), command, rules, |left| {
            abandoned.end(left);
        })
        .context("cannot start the monitor")?;
        inherited::close_descriptors();
        // Threads may start after this point, so this process must not fork any more.
        report.write_behind();
        let (queue, events) =
            EventQueue::new(signals, Some(monitor.clone())).context("cannot wait for events")?;
        if let Some(file) = &args.heartbeat_file {
            let check_interval = timing.renew_interval / HEARTBEAT_CHECKS;
            heartbeat::start(file.clone(), check_interval, events.clone()).context(NO_THREAD)?;
        }
        let contender = Contender {
            inside: nested::outer_lease(&targets),
            ..contender.clone()
        };
        let mut event_loop =
            EventLoop::open(report, timing, contender, targets, queue, events.clone())
                .context(NO_THREAD)?;
        event_loop.job_control = job_control;
        (event_loop.observers.start(&args.observe, hidden, &events)).context(NO_THREAD)?;
        let limits = WaitLimits {
            wait: match args.wait {
                _ if args.nonblock => Some(Duration::ZERO),
                Wait::Forever => None,
                Wait::AtMost(wait) => Some(wait),
            },
            connect: args.connect_timeout,
        };
        let acquire = Acquire::new(owner_id, timing, limits, clock::now());
        Ok((event_loop, acquire, monitor))
    }
}
