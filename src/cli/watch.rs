//! The grammar of `status --watch`.

use std::time::Duration;

/// Shortest interval. A shorter interval would increase the load on the server, and a user could not follow the
/// updates.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// Longest interval. A longer interval is probably a typing error.
const MAX_INTERVAL: Duration = Duration::from_hours(24);

/// Options of `status` for repeated output.
#[derive(Debug, clap::Args)]
pub struct WatchArgs {
    /// Refresh the output at the given interval, until the user presses q or Ctrl-C [default interval: 1s].
    ///
    /// On a terminal, dlock shows an interactive screen (the key ? shows all keys). Otherwise, the output
    /// is text or one JSON document per line.
    #[arg(long, env = "DLOCK_OPT_WATCH", value_name = "INTERVAL")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "1s")]
    #[arg(value_parser = interval)]
    pub watch: Option<Duration>,

    /// Name of the operator for a release on the --watch screen [default: USER@HOST].
    #[arg(long, env = "DLOCK_OPT_OPERATOR", value_name = "TEXT", value_parser = super::value::label)]
    pub operator: Option<String>,
}

/// Parses the interval of `--watch`.
///
/// # Errors
/// Returns a message if `text` is not a duration or is out of range.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(interval) if (MIN_INTERVAL..=MAX_INTERVAL).contains(&interval) => Ok(interval),
        Ok(_) => Err("must be from 100ms to 24h".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
