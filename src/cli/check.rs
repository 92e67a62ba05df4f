//! The grammar of `check`.

use crate::lease::action::Action;

/// Options of `check`.
#[derive(Debug, clap::Args)]
#[command(after_help = super::MORE, after_long_help = super::more())]
pub struct CheckArgs {
    /// Name of the lock; inside the command of exec, the lock that it runs under.
    #[arg(short, long, env = "DLOCK_ACTION", value_name = "NAME")]
    pub action: Action,

    /// The fencing token to check; inside the command of exec, the one that it was granted.
    #[arg(long, env = "DLOCK_TOKEN", value_name = "TOKEN")]
    pub token: u64,

    /// Print the statement that checks the token in a transaction and keeps others from the lock until
    /// the transaction ends; needs no server, and --fence on exec.
    #[arg(long, env = "DLOCK_OPT_SQL")]
    #[arg(value_parser = clap::builder::FalseyValueParser::new())]
    pub sql: bool,
}
