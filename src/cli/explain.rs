//! The grammar of `explain`.

/// The examples in the help text.
const EXAMPLES: &str = "\
dlock explain 76\n\
dlock explain       # all exit statuses";

/// Options of `explain`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = super::footer::offline_footer(EXAMPLES),
    after_long_help = super::footer::long_footer("explain", EXAMPLES)
)]
pub struct ExplainArgs {
    /// Exit status to explain [default: all exit statuses].
    #[arg(value_name = "STATUS")]
    pub status: Option<u8>,
}
