//! The options of `exec` that let others know what becomes of a run.

use std::path::PathBuf;

use clap::builder::{NonEmptyStringValueParser, PathBufValueParser, TypedValueParser};

/// Who else is told what becomes of a run.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ObserveArgs {
    /// Keep metrics of this run in this file, in Prometheus' text format, for node_exporter's
    /// textfile collector.
    #[arg(long, env = "DLOCK_OPT_METRICS_FILE", value_name = "FILE")]
    #[arg(value_parser = PathBufValueParser::new().try_map(file))]
    #[arg(value_hint = clap::ValueHint::FilePath)]
    pub metrics_file: Option<PathBuf>,

    /// Run this with sh -c when the lock is granted, lost, released or skipped, beside the command, for
    /// 10s at most and for 1s at most after the end of the run.
    #[arg(long, env = "DLOCK_OPT_ON_EVENT", value_name = "COMMAND")]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    #[arg(value_hint = clap::ValueHint::CommandString)]
    pub on_event: Option<String>,
}

/// A path that a file can be at.
fn file(path: PathBuf) -> Result<PathBuf, &'static str> {
    match path.file_name() {
        Some(_) => Ok(path),
        None => Err("that is no name of a file"),
    }
}
