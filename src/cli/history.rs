//! The grammar of `history`.

use std::time::UNIX_EPOCH;

use super::table::TableArgs;
use crate::lease::action::Action;
use crate::store::HistorySince;

/// The examples in the help text.
const EXAMPLES: &str = "\
dlock history\n\
dlock history init --number 5";

/// Options of `history`.
#[derive(Debug, clap::Args)]
#[command(after_help = super::footer::footer(EXAMPLES), after_long_help = super::footer::long_footer("history", EXAMPLES))]
pub struct HistoryArgs {
    /// Actions to show [default: all actions].
    #[arg(value_name = "ACTION")]
    pub actions: Vec<Action>,

    /// Action to show; this option may be repeated.
    #[arg(short, long = "action", value_name = "NAME")]
    pub action: Vec<Action>,

    /// Maximum number of entries to show, newest first.
    #[arg(long, env = "DLOCK_OPT_NUMBER", value_name = "N", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub number: u32,

    /// Show only runs that failed: all runs except those whose command exited with 0.
    #[arg(long, env = "DLOCK_OPT_FAILED")]
    #[arg(value_parser = super::value::switch)]
    pub failed: bool,

    /// Show only entries that ended within a duration (2h) or after a time in UTC (2026-11-22, 2026-11-22T21:04:00Z).
    #[arg(long, env = "DLOCK_OPT_SINCE", value_name = "DURATION|TIME", value_parser = since)]
    pub since: Option<HistorySince>,

    /// Print the entries oldest first, and then print new entries until the user presses Ctrl-C.
    #[arg(short, long, env = "DLOCK_OPT_FOLLOW")]
    #[arg(value_parser = super::value::switch)]
    pub follow: bool,

    /// Print JSON instead of a table; see dlock-history(1) for the format.
    #[arg(long, env = "DLOCK_OPT_JSON")]
    #[arg(value_parser = super::value::switch)]
    pub json: bool,

    /// Options of the table.
    #[command(flatten)]
    pub table: TableArgs,
}

/// Parses the value of `--since`: a duration, a date, or a time in UTC.
///
/// # Errors
/// Returns a message if `text` is none of these.
fn since(text: &str) -> Result<HistorySince, String> {
    if let Ok(ago) = humantime::parse_duration(text) {
        return Ok(HistorySince::Ago(ago));
    }
    let midnight = format!("{text}T00:00:00Z");
    let time = humantime::parse_rfc3339_weak(text).or(humantime::parse_rfc3339(&midnight));
    let since_1970 = time
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since_1970.map(HistorySince::At).ok_or_else(|| {
        "must be a duration such as 2h, or a time in UTC such as 2026-11-22T21:04:00Z".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::since;
    use crate::store::HistorySince;

    #[test]
    fn since_is_a_duration_a_date_or_a_time() {
        let ago = |seconds| Ok(HistorySince::Ago(Duration::from_secs(seconds)));
        let at = |seconds| Ok(HistorySince::At(Duration::from_secs(seconds)));
        assert_eq!(since("2h 1m"), ago(7_260));
        assert_eq!(since("1970-01-02"), at(86_400));
        assert_eq!(since("1970-01-02 00:00:01"), at(86_401));
        assert_eq!(since("1970-01-02T00:00:01Z"), at(86_401));
        for text in ["", "yesterday", "2h ago", "1969-12-31", "2026-13-01", "T"] {
            assert!(since(text).is_err(), "{text}");
        }
    }
}
