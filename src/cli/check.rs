//! The grammar of `check`.

use crate::lease::action::Action;

/// Options of `check`.
#[derive(Debug, clap::Args)]
#[command(after_help = super::footer::SEE_ALSO, after_long_help = super::footer::long_footer())]
pub struct CheckArgs {
    /// Name of the lock; in a command of dlock exec, the default is the lock of that run.
    #[arg(short, long, env = "DLOCK_ACTION", value_name = "NAME")]
    pub action: Action,

    /// Fencing token to check; in a command of dlock exec, the default is the token of that run.
    #[arg(long, env = "DLOCK_TOKEN", value_name = "TOKEN")]
    pub token: u64,

    /// Print an SQL statement that checks the token in a transaction; requires exec --fence.
    ///
    /// If the token is current, the lock is not granted to another contender until the transaction ends.
    /// dlock prints the statement without connecting to the server.
    #[arg(long, env = "DLOCK_OPT_SQL")]
    #[arg(value_parser = clap::builder::FalseyValueParser::new())]
    pub sql: bool,
}
