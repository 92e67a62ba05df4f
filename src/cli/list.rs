//! The grammar of `list`.

use super::table::TableArgs;

/// The examples in the help text.
const EXAMPLES: &str = "\
dlock list              # a table of all locks\n\
dlock list | grep job   # the names, one in each line";

/// Options of `list`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = super::footer::footer(EXAMPLES),
    after_long_help = super::footer::long_footer("list", EXAMPLES)
)]
pub struct ListArgs {
    /// Options of the table.
    #[command(flatten)]
    pub table: TableArgs,
}
