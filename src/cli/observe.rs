//! The options of `exec` for metrics and hooks.

use std::path::PathBuf;

use clap::builder::{NonEmptyStringValueParser, PathBufValueParser, TypedValueParser};

/// Options for metrics and hooks.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ObserveArgs {
    /// File to which dlock writes the metrics of this run, in the Prometheus text format.
    ///
    /// The textfile collector of node_exporter can read this file.
    #[arg(long, env = "DLOCK_OPT_METRICS_FILE", value_name = "FILE")]
    #[arg(value_parser = PathBufValueParser::new().try_map(file))]
    #[arg(value_hint = clap::ValueHint::FilePath)]
    #[arg(help_heading = "Observing")]
    pub metrics_file: Option<PathBuf>,

    /// Hook to run with sh -c when the lease is granted, lost or released, and when the run is skipped.
    ///
    /// The hook runs in parallel with the command. dlock kills the hook if it runs for more than 10s, or
    /// for more than 1s after the end of the run.
    #[arg(long, env = "DLOCK_OPT_ON_EVENT", value_name = "COMMAND")]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    #[arg(value_hint = clap::ValueHint::CommandString)]
    #[arg(help_heading = "Observing")]
    pub on_event: Option<String>,
}

/// Returns `path` if it has a file name.
///
/// # Errors
/// Fails if `path` has no file name, for example `/` or `..`.
fn file(path: PathBuf) -> Result<PathBuf, &'static str> {
    match path.file_name() {
        Some(_) => Ok(path),
        None => Err("the path has no file name"),
    }
}
