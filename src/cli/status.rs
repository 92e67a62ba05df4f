//! The grammar of `status`.

use clap::Args;

use super::table::TableArgs;
use super::watch::WatchArgs;
use crate::lease::action::Action;

/// The examples in the help text.
const EXAMPLES: &str = "\
dlock status           # all locks that are not free\n\
dlock status init      # one lock in detail\n\
dlock status --watch   # a screen that is updated";

/// Options of `status`.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each of them is a separate option"
)]
#[command(after_help = super::footer::footer(EXAMPLES), after_long_help = super::footer::long_footer("status", EXAMPLES))]
pub struct StatusArgs {
    /// Actions to show [default: all actions that have waiters or are not free].
    #[arg(value_name = "ACTION")]
    pub actions: Vec<Action>,

    /// Action to show; this option may be repeated.
    #[arg(short, long = "action", value_name = "NAME")]
    pub action: Vec<Action>,

    /// Show all actions, including free actions without waiters.
    #[arg(long, env = "DLOCK_OPT_ALL")]
    #[arg(value_parser = super::value::switch)]
    pub all: bool,

    /// Print JSON instead of tables; see dlock-status(1) for the format.
    #[arg(long, env = "DLOCK_OPT_JSON")]
    #[arg(value_parser = super::value::switch)]
    pub json: bool,

    /// Print nothing, and exit with 75 if any of the actions is held or paused, or with 0 if none is.
    ///
    /// An action whose lease is revoked counts as held; an action whose lease has expired does not. Any
    /// other exit status means that the state is unknown, for example 69 on a read-only server.
    #[arg(long, env = "DLOCK_OPT_CHECK")]
    #[arg(value_parser = super::value::switch)]
    pub check: bool,

    /// Also show the statements of the command's sessions on the server, at most 80 characters of each.
    ///
    /// Statements can contain secrets. This option applies to the facts of one action and to JSON.
    #[arg(long, env = "DLOCK_OPT_STATEMENTS")]
    #[arg(value_parser = super::value::switch)]
    pub statements: bool,

    /// Options of the tables.
    #[command(flatten)]
    pub table: TableArgs,

    /// Options for repeated output.
    #[command(flatten)]
    pub repeat: WatchArgs,
}
