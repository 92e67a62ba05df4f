//! The grammar of `status --watch`.

use std::time::Duration;

use clap::ValueEnum;

/// The shortest interval: a person does not see more, and a server need not answer more.
const SHORTEST: Duration = Duration::from_millis(100);

/// The longest: a typing error shows itself.
const LONGEST: Duration = Duration::from_hours(24);

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Options of `status` about showing it again and again.
#[derive(Debug, clap::Args)]
pub struct WatchArgs {
    /// Show it anew at this interval, until q or Ctrl-C [default interval: 1s]: on a terminal a screen
    /// with keys (? shows them), elsewhere as text or one JSON document a line.
    #[arg(long, env = "DLOCK_OPT_WATCH", value_name = "INTERVAL")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "1s")]
    #[arg(value_parser = interval)]
    pub watch: Option<Duration>,

    /// Whether the screen of --watch has colours; auto heeds NO_COLOR.
    #[arg(long, env = "DLOCK_OPT_COLOR", value_name = "WHEN", value_enum)]
    #[arg(default_value_t = Color::Auto)]
    pub color: Color,
}

fn interval(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(interval) if (SHORTEST..=LONGEST).contains(&interval) => Ok(interval),
        Ok(_) => Err("an interval is from 100ms to 24h".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
