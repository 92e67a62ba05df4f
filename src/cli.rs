//! The command-line grammar: options, their environment variables, defaults and help texts. It does no I/O and does not
//! interpret values.
//!
//! A test renders `man/` and `completions/` from this module, so users read these texts. No default depends on the
//! machine.

// Doc comments in this module are help texts: plain, without Markdown.
#![allow(clippy::doc_markdown, rustdoc::broken_intra_doc_links)]

pub mod check;
pub mod connection;
pub mod doctor;
pub mod forget;
pub mod history;
pub mod observe;
pub mod once;
pub mod release;
pub mod wait;
pub mod watch;

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use self::check::CheckArgs;
use self::connection::ConnectionArgs;
use self::doctor::DoctorArgs;
use self::forget::ForgetArgs;
use self::history::HistoryArgs;
use self::observe::ObserveArgs;
use self::once::OnceArgs;
use self::release::ReleaseArgs;
use self::wait::WaitArgs;
use self::watch::WatchArgs;
use crate::exit;
use crate::lease::action::Action;

/// The reference to the manual at the end of each help text.
const SEE_ALSO: &str = "See dlock(7) for how dlock works and what happens on each failure.";

/// Returns the end of each long help text: the exit statuses and [`SEE_ALSO`].
fn long_footer() -> String {
    format!("{}\n\n{SEE_ALSO}", exit::help())
}

/// Run a command on one machine at a time, with a lease in the MySQL or MariaDB you already have.
#[derive(Debug, Parser)]
#[command(name = "dlock", version, about, long_about = None, max_term_width = 100)]
#[command(after_help = SEE_ALSO, after_long_help = long_footer())]
#[command(propagate_version = true, disable_help_subcommand = true)]
#[command(args_override_self = true)]
pub struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,

    /// Print only why dlock failed; overrides --verbose.
    #[arg(short, long, global = true, env = "DLOCK_QUIET", display_order = 100)]
    #[arg(value_parser = clap::builder::FalseyValueParser::new())]
    pub quiet: bool,

    /// Print each step.
    #[arg(short, long, global = true, env = "DLOCK_VERBOSE", display_order = 100)]
    #[arg(value_parser = clap::builder::FalseyValueParser::new())]
    pub verbose: bool,

    /// Format of messages on stderr.
    ///
    /// json writes one object per line, as documented in dlock(7).
    #[arg(long, global = true, env = "DLOCK_LOG_FORMAT", display_order = 100)]
    #[arg(value_enum, value_name = "FORMAT", default_value_t)]
    pub log_format: Format,

    /// Connection options.
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a command while holding the lock.
    Exec(Box<ExecArgs>),
    /// Show holders and waiters.
    Status(StatusArgs),
    /// Wait until a lock is free, or until it has succeeded.
    Wait(WaitArgs),
    /// Check by exit status that a token is current, or print SQL for this check.
    Check(CheckArgs),
    /// Show the last runs and their outcomes.
    History(HistoryArgs),
    /// Forget the success of a run with --once, so that it runs again.
    Forget(ForgetArgs),
    /// End a lease by hand, pause a lock for a time, or resume it.
    Release(ReleaseArgs),
    /// Create or upgrade the tables, or print the SQL for a database administrator.
    Setup(SetupArgs),
    /// Check server, account, tables and everything else that dlock depends on.
    Doctor(DoctorArgs),
}

/// Options of `exec`.
#[derive(Debug, Args)]
#[command(
    override_usage = "dlock exec [OPTIONS] --action <NAME> -- <COMMAND> [ARG]...\n\n\
                      Example: dlock exec --action init -- ./migrate.sh",
    after_help = SEE_ALSO,
    after_long_help = long_footer()
)]
pub struct ExecArgs {
    /// Name of the lock: 1 to 255 bytes of UTF-8 without control characters.
    #[arg(short, long, env = "DLOCK_OPT_ACTION", value_name = "NAME")]
    pub action: Action,

    /// Length of the lease.
    ///
    /// The lease is renewed while the command runs. After a crash, other contenders wait about this long.
    #[arg(
        short,
        long,
        env = "DLOCK_OPT_TTL",
        value_name = "DURATION",
        default_value = "30s"
    )]
    #[arg(value_parser = humantime::parse_duration)]
    pub ttl: Duration,

    /// Maximum time to wait in the queue; 0 tries once.
    ///
    /// The time counts from the first response of the server.
    #[arg(short, long, env = "DLOCK_OPT_WAIT", value_name = "DURATION|forever")]
    #[arg(default_value = "forever")]
    pub wait: Wait,

    /// Do not wait; overrides --wait.
    #[arg(short, long, env = "DLOCK_OPT_NONBLOCK")]
    #[arg(value_parser = clap::builder::FalseyValueParser::new())]
    pub nonblock: bool,

    /// Exit status if another process held the lock and time ran out.
    ///
    /// With 0, this case is not a failure.
    #[arg(
        short = 'E',
        long,
        env = "DLOCK_OPT_CONFLICT_EXIT_CODE",
        value_name = "N"
    )]
    #[arg(default_value_t = exit::Status::HELD.code())]
    pub conflict_exit_code: u8,

    /// Options that skip a run.
    #[command(flatten)]
    pub once: OnceArgs,

    /// Maximum time to reach the server at the start; 0 tries once.
    #[arg(
        long,
        env = "DLOCK_OPT_CONNECT_TIMEOUT",
        value_name = "DURATION",
        default_value = "1m"
    )]
    #[arg(value_parser = humantime::parse_duration)]
    pub connect_timeout: Duration,

    /// Time from SIGTERM to SIGKILL of the command [default: a sixth of the ttl, at most 10s].
    #[arg(long, env = "DLOCK_OPT_GRACE", value_name = "DURATION")]
    #[arg(value_parser = humantime::parse_duration)]
    pub grace: Option<Duration>,

    /// Maximum runtime of the command; it is then stopped, with status 124.
    #[arg(long, env = "DLOCK_OPT_MAX_RUNTIME", value_name = "DURATION")]
    #[arg(value_parser = runtime)]
    pub max_runtime: Option<Duration>,

    /// Renew the lease only while this file changes, so that a command that hangs loses it.
    #[arg(long, env = "DLOCK_OPT_HEARTBEAT_FILE", value_name = "FILE")]
    #[arg(value_hint = clap::ValueHint::FilePath)]
    pub heartbeat_file: Option<PathBuf>,

    /// Name of the holder in dlock status [default: HOST/PID].
    #[arg(long, env = "DLOCK_OPT_HOLDER", value_name = "TEXT", value_parser = label)]
    pub holder: Option<String>,

    /// Note in dlock status, such as the reason for the run.
    #[arg(long, env = "DLOCK_OPT_NOTE", value_name = "TEXT", value_parser = note)]
    pub note: Option<String>,

    /// Advance the action's fence with the grant, for use with dlock check --sql.
    ///
    /// The command can then lock the fence in its own transaction.
    #[arg(long, env = "DLOCK_OPT_FENCE")]
    #[arg(value_parser = clap::builder::FalseyValueParser::new())]
    pub fence: bool,

    /// Number of runs of this action to keep in the history; 0 does not record this run.
    #[arg(
        long,
        env = "DLOCK_OPT_HISTORY",
        value_name = "N",
        default_value_t = 100
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub history: u32,

    /// Options for metrics and hooks.
    #[command(flatten)]
    pub observe: ObserveArgs,

    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    #[arg(value_hint = clap::ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

/// Options of `status`.
#[derive(Debug, Args)]
#[command(after_help = SEE_ALSO, after_long_help = long_footer())]
pub struct StatusArgs {
    /// Actions to show [default: all that are held, expired, paused or have waiters].
    #[arg(value_name = "ACTION")]
    pub actions: Vec<Action>,

    /// Action to show; may be repeated.
    #[arg(short, long = "action", value_name = "NAME")]
    pub action: Vec<Action>,

    /// Show all actions, including those that are free and have no waiters.
    #[arg(long, env = "DLOCK_OPT_ALL")]
    #[arg(value_parser = clap::builder::FalseyValueParser::new())]
    pub all: bool,

    /// Print JSON instead of tables; see dlock-status(1) for the format.
    #[arg(long, env = "DLOCK_OPT_JSON")]
    #[arg(value_parser = clap::builder::FalseyValueParser::new())]
    pub json: bool,

    /// Print nothing and exit with 75 if any of the actions is held or paused, otherwise with 0.
    ///
    /// An expired lease counts as not held.
    #[arg(long, env = "DLOCK_OPT_CHECK")]
    #[arg(value_parser = clap::builder::FalseyValueParser::new())]
    pub check: bool,

    /// Options that repeat the output.
    #[command(flatten)]
    pub repeat: WatchArgs,
}

/// Options of `setup`.
#[derive(Debug, Args)]
#[command(after_help = SEE_ALSO, after_long_help = long_footer())]
pub struct SetupArgs {
    /// Print the table definitions and the minimum grants instead; needs no server.
    #[arg(long, env = "DLOCK_OPT_PRINT")]
    #[arg(value_parser = clap::builder::FalseyValueParser::new())]
    pub print: bool,
}

/// Format of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Format {
    /// One line of text per message, for users.
    #[default]
    Text,
    /// One JSON object per line, for programs.
    Json,
}

/// Maximum time to wait in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Waits until the lock is acquired.
    Forever,
    /// Waits for at most this duration.
    AtMost(Duration),
}

impl FromStr for Wait {
    type Err = humantime::DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "forever" => Ok(Self::Forever),
            duration => humantime::parse_duration(duration).map(Self::AtMost),
        }
    }
}

/// Parses a duration that must not be zero.
///
/// # Errors
/// Returns a message if `text` is not a duration or is zero.
fn runtime(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err("a command needs some time".to_owned()),
        outcome => outcome.map_err(|error| error.to_string()),
    }
}

/// Parses a text for the column `holder`, of at most 255 bytes.
fn label(text: &str) -> Result<String, String> {
    at_most(text, 255)
}

/// Parses a text for the column `note`, of at most 1023 bytes.
fn note(text: &str) -> Result<String, String> {
    at_most(text, 1023)
}

fn at_most(text: &str, bytes: usize) -> Result<String, String> {
    if text.len() > bytes {
        // A longer text is rejected, because a truncated text may be misleading.
        return Err(format!("it has {} bytes, {bytes} are allowed", text.len()));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::{CommandFactory, Parser};

    use super::{Cli, Wait};

    #[test]
    fn clap_definition_is_valid() {
        Cli::command().debug_assert();
    }

    #[test]
    fn wait_accepts_duration_zero_and_forever() {
        assert_eq!("forever".parse(), Ok(Wait::Forever));
        assert_eq!("0".parse(), Ok(Wait::AtMost(Duration::ZERO)));
        assert_eq!("1m 30s".parse(), Ok(Wait::AtMost(Duration::from_secs(90))));
        assert_eq!(
            "2500ms".parse(),
            Ok(Wait::AtMost(Duration::from_millis(2500)))
        );
        assert!("5".parse::<Wait>().is_err());
    }

    #[test]
    fn options_after_the_command_belong_to_the_command() {
        let args = ["dlock", "exec", "-a", "x", "--", "ls", "-a", "--ttl", "1"];
        let cli = Cli::try_parse_from(args).expect("parses");
        let super::Command::Exec(exec) = cli.command else {
            panic!("not exec");
        };
        assert_eq!(exec.command, ["ls", "-a", "--ttl", "1"]);
    }
}
