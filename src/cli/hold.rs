//! The grammar of `hold`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::run::RunArgs;

/// The examples in the help text.
const EXAMPLES: &str = "\
dlock hold deploy --json             # a program reads the events, and closes stdin to release the lock\n\
dlock hold deploy                    # on a terminal: until Ctrl-C or Ctrl-D\n\
dlock hold app --holder 10.0.0.7:80  # in a service unit: until SIGTERM\n\
eval \"$(dlock hold deploy --pid $$ --wait 10m)\"  # in a script; with set -e, a failure stops the script";

/// The effect of a lost lock on the process of `--pid`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnLost {
    /// Stops the process and its descendants.
    Stop,
    /// Reports it.
    Report,
}

/// Options of `hold`.
#[derive(Debug, Args)]
#[command(
    override_usage = "dlock hold [OPTIONS] <NAME>\n       dlock hold [OPTIONS] <NAME> --pid <PID>",
    after_help = super::footer::footer(EXAMPLES),
    after_long_help = super::footer::long_footer("hold", EXAMPLES)
)]
pub struct HoldArgs {
    /// Options of every run.
    #[command(flatten)]
    pub run: RunArgs,

    /// Process for which the lock is held, normally of this user; prints commands for a shell.
    ///
    /// dlock prints shell commands when the lock is held, and exits. A process in the background holds the lock until the
    /// process PID has ended, and stops PID and its descendants before the lease ends. On failure, dlock prints a command that
    /// stops a script under set -e.
    #[arg(long, value_name = "PID", conflicts_with = "json")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    #[arg(help_heading = "Holding")]
    pub pid: Option<u32>,

    /// If the lock is lost: stop PID and its descendants, or only report it [default: stop].
    #[arg(long, value_name = "stop|report", requires = "pid")]
    #[arg(hide_possible_values = true)]
    #[arg(help_heading = "Holding")]
    pub on_lost: Option<OnLost>,

    /// Print each event as one JSON object on one line of stdout.
    ///
    /// Without it, dlock prints only the token when the lock is held.
    #[arg(long, env = "DLOCK_OPT_JSON")]
    #[arg(value_parser = super::value::switch)]
    #[arg(help_heading = "Holding")]
    pub json: bool,

    /// File that shows the lock, its token, stop_at_ms and deadline_ms as a JSON object while the lock is held.
    ///
    /// dlock replaces the file atomically at each renewal, and removes it when the program has to stop.
    #[arg(long, env = "DLOCK_OPT_STATE_FILE", value_name = "FILE")]
    #[arg(value_hint = clap::ValueHint::FilePath)]
    #[arg(help_heading = "Holding")]
    pub state_file: Option<PathBuf>,

    /// Time from stop_at_ms or the stop signal to deadline_ms, in which the work must end [default: a sixth of the ttl, at most 10s].
    #[arg(long, env = "DLOCK_OPT_GRACE", value_name = "DURATION")]
    #[arg(value_parser = humantime::parse_duration)]
    #[arg(help_heading = "Limits")]
    pub grace: Option<Duration>,
}
