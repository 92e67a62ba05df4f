//! The grammar of `leader`.

use super::name::NameArgs;
use super::value::Wait;

/// The examples in the help text.
const EXAMPLES: &str = "\
dlock leader app --wait 1m\n\
dlock leader app --follow | while read -r leader; do ./update-proxy \"$leader\"; done";

/// Options of `leader`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "dlock leader [OPTIONS] <NAME>",
    after_help = super::footer::footer(EXAMPLES),
    after_long_help = super::footer::long_footer("leader", EXAMPLES)
)]
pub struct LeaderArgs {
    /// Name of the lock.
    #[command(flatten)]
    pub name: NameArgs,

    /// Print a line for each change until the user presses Ctrl-C; an empty line means that there is no leader.
    #[arg(short, long, env = "DLOCK_OPT_FOLLOW")]
    #[arg(value_parser = super::value::switch)]
    pub follow: bool,

    /// Maximum time to wait for a leader; 0 checks once.
    #[arg(short, long, env = "DLOCK_OPT_WAIT", value_name = "DURATION|forever")]
    #[arg(default_value = "0", conflicts_with = "follow")]
    pub wait: Wait,

    /// Print each line as a JSON object; see dlock-leader(1) for the format.
    #[arg(long, env = "DLOCK_OPT_JSON")]
    #[arg(value_parser = super::value::switch)]
    pub json: bool,
}
