//! The grammar of `list`.

use super::table::TableArgs;

/// The examples in the help text.
const EXAMPLES: &str = "\
dlock list                                   # a table of all locks\n\
dlock list --json | jq -r '.locks[].action'  # the names, one in each line";

/// Options of `list`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = super::footer::footer(EXAMPLES),
    after_long_help = super::footer::long_footer("list", EXAMPLES)
)]
pub struct ListArgs {
    /// Print JSON instead of a table; see dlock-status(1) for the format.
    #[arg(long, env = "DLOCK_OPT_JSON")]
    #[arg(value_parser = super::value::switch)]
    pub json: bool,

    /// Options of the table.
    #[command(flatten)]
    pub table: TableArgs,
}
