//! The grammar of `release`.

use std::time::Duration;

use crate::lease::action::Action;

/// Options of `release`.
#[derive(Debug, clap::Args)]
#[command(after_help = super::MORE, after_long_help = super::more())]
pub struct ReleaseArgs {
    /// Name of the lock.
    #[arg(short, long, env = "DLOCK_OPT_ACTION", value_name = "NAME")]
    pub action: Action,

    /// Do it only if this is the lock's token, as dlock status shows it.
    #[arg(long, value_name = "TOKEN")]
    pub token: Option<u64>,

    /// Why; the holder, those who wait and the history are told.
    #[arg(long, env = "DLOCK_OPT_REASON", value_name = "TEXT", value_parser = super::note)]
    pub reason: Option<String>,

    /// Do not ask; needed where there is no terminal.
    #[arg(short, long, env = "DLOCK_OPT_YES")]
    #[arg(value_parser = clap::builder::FalseyValueParser::new())]
    pub yes: bool,

    /// Let nobody have the lock for this time, whether it is held now or not.
    #[arg(long, env = "DLOCK_OPT_HOLD_OFF", value_name = "DURATION", value_parser = super::runtime)]
    #[arg(conflicts_with = "reopen")]
    pub hold_off: Option<Duration>,

    /// End the time of an earlier --hold-off; a lease is left alone.
    #[arg(long, env = "DLOCK_OPT_REOPEN")]
    #[arg(value_parser = clap::builder::FalseyValueParser::new())]
    pub reopen: bool,

    /// Who does it, for the same people [default: USER@HOST].
    #[arg(long, env = "DLOCK_OPT_HOLDER", value_name = "TEXT", value_parser = super::label)]
    pub holder: Option<String>,
}
