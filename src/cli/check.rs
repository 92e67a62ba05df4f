//! The grammar of `check`.

use crate::lease::action::Action;

/// The examples in the help text.
const EXAMPLES: &str = "\
dlock check || exit    # in a command that runs under dlock exec\n\
dlock check init --token 1795172174223117";

/// Options of `check`.
#[derive(Debug, clap::Args)]
#[command(after_help = super::footer::footer(EXAMPLES), after_long_help = super::footer::long_footer("check", EXAMPLES))]
pub struct CheckArgs {
    /// Name of the lock; under dlock exec, the default is the lock of the current run.
    #[arg(value_name = "NAME", required_unless_present = "action")]
    pub name: Option<Action>,

    /// Name of the lock, instead of NAME.
    #[arg(
        short,
        long,
        env = "DLOCK_ACTION",
        value_name = "NAME",
        conflicts_with = "name"
    )]
    pub action: Option<Action>,

    /// Fencing token to check; under dlock exec, the default is the token of the current run.
    #[arg(long, env = "DLOCK_TOKEN", value_name = "TOKEN")]
    pub token: u64,

    /// Print an SQL statement that checks the token in a transaction; requires exec --fence.
    ///
    /// If the statement succeeds, the lock is not granted to another contender until the transaction ends.
    /// dlock prints the statement without connecting to the server.
    #[arg(long, env = "DLOCK_OPT_SQL")]
    #[arg(value_parser = super::value::switch)]
    pub sql: bool,
}
