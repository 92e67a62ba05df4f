//! The grammar of `dlock doctor`.

use super::{MORE, more};

/// Options of `doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = MORE, after_long_help = more())]
pub struct DoctorArgs {
    /// JSON instead of lines; dlock-doctor(1) documents its form.
    #[arg(long, env = "DLOCK_OPT_JSON")]
    #[arg(value_parser = clap::builder::FalseyValueParser::new())]
    pub json: bool,
}
