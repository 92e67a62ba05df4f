//! The options of `exec` that skip a run or hold the lock after it.

use std::time::Duration;

use crate::lease::once::{Once, OnceKey};
use crate::lease::timing::MAX_TTL;

/// Options that skip a run or hold the lock after it.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct OnceArgs {
    /// Run the command only if no run with this option has succeeded yet; otherwise exit with 0.
    ///
    /// If KEY is set, for example to an image tag, only a success under the same key counts. A waiter
    /// exits with 0 if another run succeeds first.
    #[arg(long, env = "DLOCK_OPT_ONCE", value_name = "KEY", num_args = 0..=1, require_equals = true)]
    #[arg(help_heading = "Once")]
    pub once: Option<Option<OnceKey>>,

    /// Run the command only if no run has succeeded within this period; otherwise exit with 0.
    ///
    /// dlock measures the period by the server's clock. Runs without this option also count. A waiter
    /// exits with 0 if another run succeeds first.
    #[arg(
        long,
        env = "DLOCK_OPT_ONCE_PER",
        value_name = "DURATION",
        conflicts_with = "once"
    )]
    #[arg(value_parser = humantime::parse_duration)]
    #[arg(help_heading = "Once")]
    pub once_per: Option<Duration>,

    /// Minimum time for which the lock is held after the grant.
    ///
    /// If the command ends earlier, dlock exits immediately, but the lock stays held until this time has
    /// passed. This option has no effect if the lease is lost or revoked.
    #[arg(long, env = "DLOCK_OPT_MIN_HOLD", value_name = "DURATION", value_parser = min_hold)]
    #[arg(help_heading = "Once")]
    pub min_hold: Option<Duration>,
}

impl OnceArgs {
    /// Returns the condition for skipping a run. None if neither --once nor --once-per is set.
    #[must_use]
    pub fn once(&self) -> Option<Once> {
        match (&self.once, self.once_per) {
            (Some(key), _) => Some(Once::Ever(key.clone().unwrap_or_default())),
            (None, Some(period)) => Some(Once::Per(period)),
            (None, None) => None,
        }
    }
}

/// Parses a duration of at most [`MAX_TTL`]. The duration is limited because dlock may exit before the duration ends,
/// and can then no longer release the lease.
///
/// # Errors
/// Returns a message if `text` is not a duration or is too long.
fn min_hold(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(duration) if duration <= MAX_TTL => Ok(duration),
        Ok(_) => Err(format!(
            "must be at most {}",
            humantime::format_duration(MAX_TTL)
        )),
        Err(error) => Err(error.to_string()),
    }
}
