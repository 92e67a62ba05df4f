//! The grammar of `forget`.

use crate::lease::action::Action;
use crate::lease::once::Key;

/// Options of `forget`.
#[derive(Debug, clap::Args)]
#[command(after_help = super::MORE, after_long_help = super::more())]
pub struct ForgetArgs {
    /// Name of the lock.
    #[arg(short, long, env = "DLOCK_OPT_ACTION", value_name = "NAME")]
    pub action: Action,

    /// Which success: the one under this KEY, or without one the one of --once alone.
    #[arg(long, env = "DLOCK_OPT_ONCE", value_name = "KEY", num_args = 0..=1, require_equals = true)]
    #[arg(required = true)]
    pub once: Option<Option<Key>>,

    /// What the history shows as who did it [default: HOST/PID].
    #[arg(long, env = "DLOCK_OPT_HOLDER", value_name = "TEXT", value_parser = super::label)]
    pub holder: Option<String>,

    /// What the history shows as the reason.
    #[arg(long, env = "DLOCK_OPT_NOTE", value_name = "TEXT", value_parser = super::note)]
    pub note: Option<String>,
}
