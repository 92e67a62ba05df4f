//! The grammar of `check`.

use crate::lease::action::Action;

/// Options of `check`.
#[derive(Debug, clap::Args)]
#[command(after_help = super::footer::SEE_ALSO, after_long_help = super::footer::long_footer())]
pub struct CheckArgs {
    /// Name of the lock; inside dlock exec, the lock that the command runs under.
    #[arg(short, long, env = "DLOCK_ACTION", value_name = "NAME")]
    pub action: Action,

    /// Fencing token to check; inside dlock exec, the token of its grant.
    #[arg(long, env = "DLOCK_TOKEN", value_name = "TOKEN")]
    pub token: u64,

    /// Print a statement that checks the token in a transaction; needs exec --fence.
    ///
    /// The lock is not granted to another contender until the transaction ends. Printing the statement
    /// needs no server.
    #[arg(long, env = "DLOCK_OPT_SQL")]
    #[arg(value_parser = clap::builder::FalseyValueParser::new())]
    pub sql: bool,
}
