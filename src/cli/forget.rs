//! The grammar of `forget`.

use crate::lease::action::Action;
use crate::lease::once::OnceKey;

/// Options of `forget`.
#[derive(Debug, clap::Args)]
#[command(after_help = super::footer::SEE_ALSO, after_long_help = super::footer::long_footer())]
pub struct ForgetArgs {
    /// Name of the lock.
    #[arg(short, long, env = "DLOCK_OPT_ACTION", value_name = "NAME")]
    pub action: Action,

    /// The success to forget: that of exec --once, with the same KEY if there was one.
    #[arg(long, env = "DLOCK_OPT_ONCE", value_name = "KEY", num_args = 0..=1, require_equals = true)]
    #[arg(required = true)]
    pub once: Option<Option<OnceKey>>,

    /// Name of the operator in the history [default: HOST/PID].
    #[arg(long, env = "DLOCK_OPT_HOLDER", value_name = "TEXT", value_parser = super::value::label)]
    pub holder: Option<String>,

    /// Note in the history, such as the reason.
    #[arg(long, env = "DLOCK_OPT_NOTE", value_name = "TEXT", value_parser = super::value::note)]
    pub note: Option<String>,
}
