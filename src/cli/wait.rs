//! The grammar of `wait`.

use std::time::Duration;

use super::name::NameArgs;
use super::value::Wait;
use crate::lease::once::OnceKey;

/// The examples in the help text.
const EXAMPLES: &str = "\
dlock wait init --timeout 5m\n\
dlock wait init --done=v42";

/// Options of `wait`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "dlock wait [OPTIONS] <NAME>",
    after_help = super::footer::footer(EXAMPLES),
    after_long_help = super::footer::long_footer("wait", EXAMPLES)
)]
pub struct WaitArgs {
    /// Name of the lock.
    #[command(flatten)]
    pub name: NameArgs,

    /// Wait until exec --once (or --once=KEY) has succeeded, not until the lock is free.
    #[arg(long, env = "DLOCK_OPT_DONE", value_name = "KEY", num_args = 0..=1, require_equals = true)]
    pub done: Option<Option<OnceKey>>,

    /// Maximum time to wait, measured from the start of dlock wait; 0 checks once.
    #[arg(long, env = "DLOCK_OPT_TIMEOUT", value_name = "DURATION|forever")]
    #[arg(default_value = "forever")]
    pub timeout: Wait,

    /// Maximum time without a response from the server; 0 makes one attempt.
    #[arg(
        long,
        env = "DLOCK_OPT_CONNECT_TIMEOUT",
        value_name = "DURATION",
        default_value = "1m"
    )]
    #[arg(value_parser = humantime::parse_duration)]
    pub connect_timeout: Duration,
}
