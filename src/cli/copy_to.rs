//! The grammar of `copy-to`.

use std::path::PathBuf;

/// The examples in the help text.
const EXAMPLES: &str = "dlock copy-to /tools/dlock";

/// Options of `copy-to`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = super::footer::offline_footer(EXAMPLES),
    after_long_help = super::footer::long_footer("copy-to", EXAMPLES)
)]
pub struct CopyToArgs {
    /// Path of the new file, in an existing folder; replaces an existing file.
    #[arg(value_name = "PATH", value_hint = clap::ValueHint::FilePath)]
    pub path: PathBuf,
}
