//! The grammar of `hold`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::run::RunArgs;

/// The examples in the help text.
const EXAMPLES: &str = "\
dlock hold deploy --json             # a program reads the events, and closes stdin to release the lock\n\
dlock hold deploy                    # on a terminal: until Ctrl-C or Ctrl-D\n\
dlock hold app --holder 10.0.0.7:80  # in a service unit: until SIGTERM";

/// Options of `hold`.
#[derive(Debug, Args)]
#[command(
    after_help = super::footer::footer(EXAMPLES),
    after_long_help = super::footer::long_footer("hold", EXAMPLES)
)]
pub struct HoldArgs {
    /// Options of every run.
    #[command(flatten)]
    pub run: RunArgs,

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

    /// Time from stop_at_ms to deadline_ms, in which the program ends its work [default: a sixth of the ttl, at most 10s].
    #[arg(long, env = "DLOCK_OPT_GRACE", value_name = "DURATION")]
    #[arg(value_parser = humantime::parse_duration)]
    #[arg(help_heading = "Limits")]
    pub grace: Option<Duration>,
}
