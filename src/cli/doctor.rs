//! The grammar of `doctor`.

use super::footer::{SEE_ALSO, long_footer};

/// Options of `doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = SEE_ALSO, after_long_help = long_footer())]
pub struct DoctorArgs {
    /// Print JSON instead of text; see dlock-doctor(1) for the format.
    #[arg(long, env = "DLOCK_OPT_JSON")]
    #[arg(value_parser = clap::builder::FalseyValueParser::new())]
    pub json: bool,
}
