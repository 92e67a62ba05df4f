//! The grammar of `setup`.

use clap::Args;

/// The examples in the help text.
const EXAMPLES: &str = "\
dlock setup\n\
dlock setup --print | mysql app";

/// Options of `setup`.
#[derive(Debug, Args)]
#[command(after_help = super::footer::footer(EXAMPLES), after_long_help = super::footer::long_footer("setup", EXAMPLES))]
pub struct SetupArgs {
    /// Print the table definitions and minimal GRANT statements, without connecting to the server.
    #[arg(long, env = "DLOCK_OPT_PRINT")]
    #[arg(value_parser = super::value::switch)]
    pub print: bool,
}
