//! The grammar of `prune`.

use std::time::Duration;

/// The examples in the help text.
const EXAMPLES: &str = "\
dlock prune 'PR-*' --older-than 30d --dry-run\n\
dlock prune 'PR-*' --older-than 30d --yes";

/// Options of `prune`.
#[derive(Debug, clap::Args)]
#[command(after_help = super::footer::footer(EXAMPLES), after_long_help = super::footer::long_footer("prune", EXAMPLES))]
pub struct PruneArgs {
    /// Names of the locks to remove; * matches any text [default: all names].
    #[arg(value_name = "PATTERN")]
    pub pattern: Option<String>,

    /// Remove only locks that nobody has used for this time, at least 1h.
    #[arg(long, value_name = "DURATION", required = true, value_parser = super::value::prune_age)]
    pub older_than: Duration,

    /// Also remove locks with a recorded success of exec --once, which then runs its command again.
    #[arg(long)]
    pub done: bool,

    /// Show the locks, but remove nothing.
    #[arg(long)]
    pub dry_run: bool,

    /// Do not ask for confirmation; required if standard input is not a terminal.
    #[arg(short, long, env = "DLOCK_OPT_YES")]
    #[arg(value_parser = super::value::switch)]
    pub yes: bool,
}
