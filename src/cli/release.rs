//! The grammar of `release`.

use std::time::Duration;

use super::name::NameArgs;

/// The examples in the help text.
const EXAMPLES: &str = "\
dlock release init --reason 'the command hangs'\n\
dlock release gpu --slot 2\n\
dlock release init --pause 2h\n\
dlock release init --resume";

/// Options of `release`.
#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each of them is a separate option"
)]
#[command(after_help = super::footer::footer(EXAMPLES), after_long_help = super::footer::long_footer("release", EXAMPLES))]
pub struct ReleaseArgs {
    /// Name of the lock.
    #[command(flatten)]
    pub name: NameArgs,

    /// Change the lock only if its token is TOKEN; dlock status shows the token.
    ///
    /// If there are several holders, release the one with this token.
    #[arg(long, value_name = "TOKEN")]
    pub token: Option<u64>,

    /// Release the holder in slot N, if there are several holders.
    #[arg(long, value_name = "N", conflicts_with_all = ["token", "pause", "resume"])]
    pub slot: Option<u32>,

    /// Release all holders, if there are several.
    #[arg(long, conflicts_with_all = ["token", "slot", "pause", "resume"])]
    pub all: bool,

    /// Reason to show to the holder and the waiters, and to record in the history.
    #[arg(long, env = "DLOCK_OPT_REASON", value_name = "TEXT", value_parser = super::value::note)]
    pub reason: Option<String>,

    /// Do not ask for confirmation; required if standard input is not a terminal.
    #[arg(short, long, env = "DLOCK_OPT_YES")]
    #[arg(value_parser = super::value::switch)]
    pub yes: bool,

    /// Pause the lock for the given duration, and revoke its lease if there is one.
    #[arg(long, env = "DLOCK_OPT_PAUSE", value_name = "DURATION", value_parser = super::value::positive_duration)]
    #[arg(conflicts_with = "resume")]
    pub pause: Option<Duration>,

    /// Pause a lock that no process has ever used, for example before its first run.
    #[arg(long, env = "DLOCK_OPT_CREATE")]
    #[arg(value_parser = super::value::switch)]
    pub create: bool,

    /// Resume a paused lock; this does not affect a current lease.
    #[arg(long, env = "DLOCK_OPT_RESUME")]
    #[arg(value_parser = super::value::switch)]
    pub resume: bool,

    /// Name of the operator, shown with the reason [default: USER@HOST].
    #[arg(long, env = "DLOCK_OPT_OPERATOR", value_name = "TEXT", value_parser = super::value::label)]
    pub operator: Option<String>,
}
