//! The grammar of `doctor`.

use clap::builder::NonEmptyStringValueParser;

/// The examples in the help text.
const EXAMPLES: &str = "\
dlock doctor";

/// Options of `doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = super::footer::footer(EXAMPLES), after_long_help = super::footer::long_footer("doctor", EXAMPLES))]
pub struct DoctorArgs {
    /// Account of the command's own connections, to check whether dlock can see and end its sessions.
    ///
    /// USER is the name of the account without its host.
    #[arg(long, env = "DLOCK_OPT_SESSION_USER", value_name = "USER")]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub session_user: Option<String>,

    /// Print JSON instead of text; see dlock-doctor(1) for the format.
    #[arg(long, env = "DLOCK_OPT_JSON")]
    #[arg(value_parser = super::value::switch)]
    pub json: bool,
}
