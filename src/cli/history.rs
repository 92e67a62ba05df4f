//! The grammar of `history`.

use super::table::TableArgs;
use crate::lease::action::Action;

/// The examples in the help text.
const EXAMPLES: &str = "\
dlock history\n\
dlock history init --number 5";

/// Options of `history`.
#[derive(Debug, clap::Args)]
#[command(after_help = super::footer::footer(EXAMPLES), after_long_help = super::footer::long_footer("history", EXAMPLES))]
pub struct HistoryArgs {
    /// Actions to show [default: all actions].
    #[arg(value_name = "ACTION")]
    pub actions: Vec<Action>,

    /// Action to show; this option may be repeated.
    #[arg(short, long = "action", value_name = "NAME")]
    pub action: Vec<Action>,

    /// Maximum number of entries to show, newest first.
    #[arg(
        short,
        long,
        env = "DLOCK_OPT_NUMBER",
        value_name = "N",
        default_value_t = 20
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub number: u32,

    /// Print JSON instead of a table; see dlock-history(1) for the format.
    #[arg(long, env = "DLOCK_OPT_JSON")]
    #[arg(value_parser = super::value::switch)]
    pub json: bool,

    /// Options of the table.
    #[command(flatten)]
    pub table: TableArgs,
}
