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
use crate::cli::name::NamesArgs;
use crate::cli::observe::ObserveArgs;
use crate::cli::once::OnceArgs;
use crate::cli::run::RunArgs;
use crate::cli::value::Wait;
use crate::commands::{holder, truncated};
use crate::config::connection_variables;
use crate::event::address_reader;
use crate::exit::{ExitError, Status};
use crate::lease::Token;
use crate::lease::action::Action;
use crate::lease::timing::Timing;
use crate::protocol::acquire::WaitLimits;
use crate::protocol::keeper::KeeperSettings;
use crate::protocol::renew::Liveness;
use crate::report::Report;
use crate::report::advice::argument;
use crate::report::log::EventKind;
use crate::store::target::Targets;
use crate::store::{Contender, FenceMode, Holder};
use crate::sys::pending_child::PreparedCommand;
use crate::sys::process::find_program;
use crate::sys::signal::JobControl;
use crate::sys::terminal;

/// A run with its settings, which are validated as far as possible without a server.
pub(in crate::commands) struct RunPlan {
    /// The contender for each name, in the order of the bytes of the names. All processes acquire several leases in this
    /// order, so no two of them wait for each other.
    pub(in crate::commands) contenders: Vec<Contender>,
    /// The names, for messages about the whole run.
    pub(in crate::commands) names: String,
    /// The name of the work in messages.
    pub(in crate::commands) work: String,
    pub(super) keeper: KeeperSettings,
    /// The command and its arguments.
    pub(super) command: Vec<OsString>,
    /// The file whose changes are the heartbeats of the command. None if no heartbeats are required.
    pub(super) heartbeat_file: Option<PathBuf>,
    /// Maximum time for which the command may run. None if there is no limit.
    pub(in crate::commands) max_runtime: Option<Duration>,
    /// Minimum time from the grant to the end of the lease.
    pub(super) min_hold: Duration,
    /// Exit status if the lease is not acquired in time.
    pub(super) conflict_status: Status,
    /// Whether this process stops itself on Ctrl-Z.
    pub(super) job_control: JobControl,
    pub(super) stop_signal: i32,
    pub(super) observe: ObserveArgs,
    /// The environment variables that the command and the hooks do not get.
    pub(super) hidden_variables: Vec<OsString>,
    /// The options that have no effect under the lease of an outer dlock.
    unkept_inside: Vec<&'static str>,
}

/// The texts about the work of a run.
pub(in crate::commands) struct WorkTexts {
    /// The name in messages: `the command` or, for example, `process 17`.
    pub(in crate::commands) name: String,
    /// The description in the tables.
    pub(in crate::commands) shown: String,
}

/// Maximum number of names of a run. Each has a connection of its own.
const MAX_NAMES: usize = 16;

impl RunPlan {
    /// Creates the plan of a run on one of `targets`.
    ///
    /// # Errors
    /// Fails if the names are invalid together, if the ttl is too short for the other durations, or if the command does not
    /// exist or is not executable.
    pub(super) fn of_command(args: ExecArgs, targets: &Targets) -> anyhow::Result<Self> {
        let program = args.command.first().context("no command")?;
        find_program(program, env::var_os("PATH").as_deref())
            .map_err(|why| unstartable(&args.command, &why))?;
        let shown = match args.hide_args || args.run.history == 0 {
            true => command_line::program(&args.command),
            false => command_line::redacted(&args.command),
        };
        let work = WorkTexts {
            name: "the command".to_owned(),
            shown,
        };
        Ok(Self {
            command: args.command,
            hidden_variables: hidden_variables(args.hide_credentials),
            unkept_inside: args.unkept_inside,
            ..Self::new(args.run, args.grace, &args.once, work, targets)?
        })
    }

    /// Creates the plan of a run that does `work` instead of a command.
    ///
    /// # Errors
    /// Fails if the names are invalid together, or if the ttl is too short for the other durations.
    pub(in crate::commands) fn new(
        args: RunArgs,
        grace: Option<Duration>,
        once: &OnceArgs,
        work: WorkTexts,
        targets: &Targets,
    ) -> Result<Self, ExitError> {
        let usage = |why| ExitError::new(Status::USAGE, why);
        let timing = Timing::new(args.ttl, grace).map_err(|why| usage(why.to_string()))?;
        let actions = sorted(&args.names, once).map_err(usage)?;
        let limit = args.limit();
        let holder = Holder {
            command: truncated(work.shown),
            ..holder(args.holder, args.note)
        };
        let contender = |action| Contender {
            action,
            holder: holder.clone(),
            ttl: timing.ttl,
            limit,
            once: once.once(),
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
            names: listed(&actions),
            work: work.name,
            contenders: actions.into_iter().map(contender).collect(),
            keeper: KeeperSettings {
                timing,
                limit,
                limits,
                policy: args.server_sessions,
                liveness: match args.heartbeat_file {
                    Some(_) => Liveness::Pending,
                    None => Liveness::NotRequired,
                },
                checks_address: address_reader::is_checked(targets),
            },
            command: Vec::new(),
            heartbeat_file: args.heartbeat_file,
            max_runtime: args.max_runtime,
            min_hold: once.min_hold.unwrap_or_default(),
            conflict_status: Status::from_code(args.conflict_exit_code),
            job_control: match terminal::is_controlling() {
                true => JobControl::Announced,
                false => JobControl::Off,
            },
            stop_signal: args.stop_signal,
            observe: args.observe,
            hidden_variables: hidden_variables(false),
            unkept_inside: Vec::new(),
        })
    }

    /// Returns the contender for the first name. All contenders have the same settings.
    pub(in crate::commands) fn first(&self) -> &Contender {
        &self.contenders[0]
    }

    /// Removes `action` from the names of this run, because the outer lease with `token` holds it.
    ///
    /// # Errors
    /// Fails if that lease cannot keep the options of this run.
    pub(super) fn leave_to_outer(
        &mut self,
        action: &Action,
        token: Token,
    ) -> Result<(), ExitError> {
        if let Some(option) = self.unkept_inside.first() {
            let why = format!(
                "{option} has no effect under the lease of an outer dlock exec, which holds {action} (token {token}): \
                 give the option to the outer one, or use another name here"
            );
            return Err(ExitError::new(Status::USAGE, why));
        }
        (self.contenders).retain(|contender| contender.action != *action);
        let actions: Vec<_> = (self.contenders.iter())
            .map(|it| it.action.clone())
            .collect();
        self.names = listed(&actions);
        Ok(())
    }

    /// Replaces this process with the command, which runs under the outer lease of `action` with `token`. Returns only if
    /// the replacement fails.
    pub(super) fn run_under(&self, action: &Action, token: Token, report: &Report) -> ExitError {
        report.about_lease(action, Some(token));
        let text = format_args!(
            "{action} is held by the outer dlock (token {token}): running under its lease"
        );
        report.debug(EventKind::Nested, text);
        unstartable(
            &self.command,
            &PreparedCommand::new(&self.command, &[], &self.hidden_variables, true).exec(),
        )
    }
}

/// Returns `names` in the order in which all processes acquire them.
///
/// # Errors
/// Fails if a name occurs twice, if there are too many, or if an option works only with one name.
fn sorted(names: &NamesArgs, once: &OnceArgs) -> Result<Vec<Action>, String> {
    let mut actions = names.actions();
    if actions.len() > MAX_NAMES {
        return Err(format!(
            "{} names are given; at most {MAX_NAMES} are allowed: let one name stand for several of them, as in \
             dlock exec services -- ./deploy.sh",
            actions.len()
        ));
    }
    actions.sort();
    if let Some([twice, _]) = actions.array_windows().find(|[one, other]| one == other) {
        let twice = argument(twice);
        actions.dedup();
        let once = actions
            .iter()
            .map(|action| format!("-a {}", argument(action)));
        let once = once.collect::<Vec<_>>().join(" ");
        return Err(format!("{twice} is given twice: write {once}"));
    }
    if actions.len() > 1 && once.once().is_some() {
        return Err(String::from(
            "--once and --once-per work with one name: give them to a second dlock inside, as in \
             dlock exec -a api -a web -- dlock exec deploy --once=v42 -- ./deploy.sh",
        ));
    }
    Ok(actions)
}

/// Returns the names as a list in a sentence.
fn listed(actions: &[Action]) -> String {
    let names: Vec<&str> = actions.iter().map(Action::as_str).collect();
    match &names[..] {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => names.concat(),
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
