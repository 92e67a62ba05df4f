//! The grammar of `help` and `version`.

/// The examples in the help text of `help`.
const EXAMPLES: &str = "dlock help exec";

/// The examples in the help text of `version`.
const VERSION_EXAMPLES: &str = "dlock version";

/// Options of `help`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = super::footer::offline_footer(EXAMPLES),
    after_long_help = super::footer::long_footer("help", EXAMPLES)
)]
pub struct HelpArgs {
    /// Subcommand whose help to print [default: the help of dlock].
    #[arg(value_name = "SUBCOMMAND")]
    pub subcommand: Option<String>,
}

/// Options of `version`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = super::footer::offline_footer(VERSION_EXAMPLES),
    after_long_help = super::footer::long_footer("version", VERSION_EXAMPLES)
)]
pub struct VersionArgs {}
