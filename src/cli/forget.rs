//! The grammar of `forget`.

use super::name::NameArgs;
use crate::lease::once::OnceKey;

/// The examples in the help text.
const EXAMPLES: &str = "\
dlock forget init --once\n\
dlock forget init --once=v42";

/// Options of `forget`.
#[derive(Debug, clap::Args)]
#[command(after_help = super::footer::footer(EXAMPLES), after_long_help = super::footer::long_footer("forget", EXAMPLES))]
pub struct ForgetArgs {
    /// Name of the lock.
    #[command(flatten)]
    pub name: NameArgs,

    /// Delete the success of exec --once, or of exec --once=KEY if KEY is set.
    #[arg(long, env = "DLOCK_OPT_ONCE", value_name = "KEY", num_args = 0..=1, require_equals = true)]
    #[arg(required = true)]
    pub once: Option<Option<OnceKey>>,

    /// Name of the operator, as shown in the history [default: USER@HOST].
    #[arg(long, env = "DLOCK_OPT_OPERATOR", value_name = "TEXT", value_parser = super::value::label)]
    pub operator: Option<String>,

    /// Reason to record in the history, as a note.
    #[arg(long, env = "DLOCK_OPT_REASON", value_name = "TEXT", value_parser = super::value::note)]
    pub reason: Option<String>,
}
