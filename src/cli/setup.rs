//! The grammar of `setup`.

use clap::Args;

use super::footer::{SEE_ALSO, long_footer};

/// Options of `setup`.
#[derive(Debug, Args)]
#[command(after_help = SEE_ALSO, after_long_help = long_footer())]
pub struct SetupArgs {
    /// Print the table definitions and minimal GRANT statements, without connecting to the server.
    #[arg(long, env = "DLOCK_OPT_PRINT")]
    #[arg(value_parser = super::value::switch)]
    pub print: bool,
}
