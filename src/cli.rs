//! The grammar: what can be typed, with its variables, defaults and help. No I/O, no meaning.
//!
//! `man/` and `completions/` are rendered from here by a test, so what stands here is what users
//! read. No default depends on the machine.

// Doc comments here are help texts: plain, without Markdown.
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

/// Where to read on, at the end of each help.
const MORE: &str = "dlock(7) tells how it works and what happens on each failure.";

/// The end of each long help: the statuses, and where to read on.
fn more() -> String {
    format!("{}\n\n{MORE}", exit::help())
}

/// Run a command on one machine at a time, with a lease in the MySQL or MariaDB you already have.
#[derive(Debug, Parser)]
#[command(name = "dlock", version, about, long_about = None, max_term_width = 100)]
#[command(after_help = MORE, after_long_help = more())]
#[command(propagate_version = true, disable_help_subcommand = true)]
#[command(args_override_self = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,

    /// Say nothing but why dlock failed; wins over --verbose.
    #[arg(short, long, global = true, env = "DLOCK_QUIET", display_order = 100)]
    #[arg(value_parser = clap::builder::FalseyValueParser::new())]
    pub quiet: bool,

    /// Say what happens, step by step.
    #[arg(short, long, global = true, env = "DLOCK_VERBOSE", display_order = 100)]
    #[arg(value_parser = clap::builder::FalseyValueParser::new())]
    pub verbose: bool,

    /// How messages on stderr are written; json is one object a line, as dlock(7) documents it.
    #[arg(long, global = true, env = "DLOCK_LOG_FORMAT", display_order = 100)]
    #[arg(value_enum, value_name = "FORMAT", default_value_t)]
    pub log_format: Format,

    /// How to reach the database.
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a command while holding the lock.
    Exec(Box<ExecArgs>),
    /// Show who holds what and who waits.
    Status(StatusArgs),
    /// Wait until nobody holds the lock, or until it has succeeded.
    Wait(WaitArgs),
    /// Tell by the exit status whether a token is current, or print SQL that does.
    Check(CheckArgs),
    /// Show the last runs and how they ended.
    History(HistoryArgs),
    /// Forget that a run with --once has succeeded, so that it is run again.
    Forget(ForgetArgs),
    /// End a lease by hand, close a lock for a time, or open it again.
    Release(ReleaseArgs),
    /// Create the tables, or print what a database administrator needs.
    Setup(SetupArgs),
    /// Check server, account, tables and everything else that dlock rests on.
    Doctor(DoctorArgs),
}

/// Options of `exec`.
#[derive(Debug, Args)]
#[command(
    override_usage = "dlock exec [OPTIONS] --action <NAME> -- <COMMAND> [ARG]...\n\n\
                      Example: dlock exec --action init -- ./migrate.sh",
    after_help = MORE,
    after_long_help = more()
)]
pub struct ExecArgs {
    /// Name of the lock: 1 to 255 bytes of UTF-8 without control characters.
    #[arg(short, long, env = "DLOCK_OPT_ACTION", value_name = "NAME")]
    pub action: Action,

    /// Length of the lease, renewed while the command runs; after a crash, others wait about this long.
    #[arg(
        short,
        long,
        env = "DLOCK_OPT_TTL",
        value_name = "DURATION",
        default_value = "30s"
    )]
    #[arg(value_parser = humantime::parse_duration)]
    pub ttl: Duration,

    /// How long to stand in line while another holds the lock, counted from the server's first
    /// answer; 0 tries once.
    #[arg(short, long, env = "DLOCK_OPT_WAIT", value_name = "DURATION|forever")]
    #[arg(default_value = "forever")]
    pub wait: Wait,

    /// Do not wait: --wait 0, whatever --wait says.
    #[arg(short, long, env = "DLOCK_OPT_NONBLOCK")]
    #[arg(value_parser = clap::builder::FalseyValueParser::new())]
    pub nonblock: bool,

    /// Exit status when another held the lock and time ran out; with 0 that is no failure.
    #[arg(
        short = 'E',
        long,
        env = "DLOCK_OPT_CONFLICT_EXIT_CODE",
        value_name = "N"
    )]
    #[arg(default_value_t = exit::Status::HELD.code())]
    pub conflict_exit_code: u8,

    /// What makes a run needless.
    #[command(flatten)]
    pub once: OnceArgs,

    /// How long to keep trying to reach the server at the start; 0 tries once.
    #[arg(
        long,
        env = "DLOCK_OPT_DB_WAIT",
        value_name = "DURATION",
        default_value = "1m"
    )]
    #[arg(value_parser = humantime::parse_duration)]
    pub db_wait: Duration,

    /// Time from SIGTERM to SIGKILL when the lease cannot be kept [default: a sixth of the ttl, at most 10s].
    #[arg(long, env = "DLOCK_OPT_GRACE", value_name = "DURATION")]
    #[arg(value_parser = humantime::parse_duration)]
    pub grace: Option<Duration>,

    /// Stop the command when it has run for this long, with status 124.
    #[arg(long, env = "DLOCK_OPT_MAX_RUNTIME", value_name = "DURATION")]
    #[arg(value_parser = runtime)]
    pub max_runtime: Option<Duration>,

    /// Renew the lease only while this file keeps changing: a command that hangs loses it.
    #[arg(long, env = "DLOCK_OPT_HEARTBEAT_FILE", value_name = "FILE")]
    #[arg(value_hint = clap::ValueHint::FilePath)]
    pub heartbeat_file: Option<PathBuf>,

    /// What status shows as the holder [default: HOST/PID].
    #[arg(long, env = "DLOCK_OPT_HOLDER", value_name = "TEXT", value_parser = label)]
    pub holder: Option<String>,

    /// What status shows as the reason.
    #[arg(long, env = "DLOCK_OPT_NOTE", value_name = "TEXT", value_parser = note)]
    pub note: Option<String>,

    /// Raise the action's fence with the grant, so that the command can lock it in a transaction of its
    /// own: dlock check --sql prints how.
    #[arg(long, env = "DLOCK_OPT_FENCE")]
    #[arg(value_parser = clap::builder::FalseyValueParser::new())]
    pub fence: bool,

    /// How many runs of this action to keep in the history; with 0 this one is not recorded.
    #[arg(
        long,
        env = "DLOCK_OPT_HISTORY",
        value_name = "N",
        default_value_t = 100
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub history: u32,

    /// Who else is told what becomes of the run.
    #[command(flatten)]
    pub observe: ObserveArgs,

    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    #[arg(value_hint = clap::ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

/// Options of `status`.
#[derive(Debug, Args)]
#[command(after_help = MORE, after_long_help = more())]
pub struct StatusArgs {
    /// Only these actions; without any, all that are held, lapsed, closed or waited for.
    #[arg(value_name = "ACTION")]
    pub actions: Vec<Action>,

    /// Only this action; may be given several times.
    #[arg(short, long = "action", value_name = "NAME")]
    pub action: Vec<Action>,

    /// All actions, also those that are free and that nobody waits for.
    #[arg(long, env = "DLOCK_OPT_ALL")]
    #[arg(value_parser = clap::builder::FalseyValueParser::new())]
    pub all: bool,

    /// JSON instead of tables; dlock-status(1) documents its form.
    #[arg(long, env = "DLOCK_OPT_JSON")]
    #[arg(value_parser = clap::builder::FalseyValueParser::new())]
    pub json: bool,

    /// Print nothing; the exit status is 75 if any of the actions is held or closed (lapsed counts as
    /// not held), 0 if none is.
    #[arg(long, env = "DLOCK_OPT_CHECK")]
    #[arg(value_parser = clap::builder::FalseyValueParser::new())]
    pub check: bool,

    /// Whether to show it again and again.
    #[command(flatten)]
    pub repeat: WatchArgs,
}

/// Options of `setup`.
#[derive(Debug, Args)]
#[command(after_help = MORE, after_long_help = more())]
pub struct SetupArgs {
    /// Print the tables' definition and the least grants instead; needs no server.
    #[arg(long, env = "DLOCK_OPT_PRINT")]
    #[arg(value_parser = clap::builder::FalseyValueParser::new())]
    pub print: bool,
}

/// In which form messages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Format {
    /// A line for people.
    #[default]
    Text,
    /// An object on a line, for programs.
    Json,
}

/// How long to stand in line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Until the lock is ours.
    Forever,
    /// At most this long.
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

/// A time for a command to run, of which there must be some.
fn runtime(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err("a command needs some time".to_owned()),
        outcome => outcome.map_err(|error| error.to_string()),
    }
}

/// A text for the column `holder`.
fn label(text: &str) -> Result<String, String> {
    at_most(text, 255)
}

/// A text for the column `note`.
fn note(text: &str) -> Result<String, String> {
    at_most(text, 1023)
}

fn at_most(text: &str, bytes: usize) -> Result<String, String> {
    if text.len() > bytes {
        // Refused rather than cut in the middle of what somebody meant to say.
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
    fn the_grammar_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn wait_takes_a_duration_zero_or_forever() {
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
    fn the_command_keeps_its_own_options() {
        let line = ["dlock", "exec", "-a", "x", "--", "ls", "-a", "--ttl", "1"];
        let cli = Cli::try_parse_from(line).expect("parses");
        let super::Command::Exec(exec) = cli.command else {
            panic!("not exec");
        };
        assert_eq!(exec.command, ["ls", "-a", "--ttl", "1"]);
    }
}
