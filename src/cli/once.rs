//! The options of `exec` that make a run needless.

use std::time::Duration;

use crate::lease::once::{Key, Once};
use crate::lease::timing::MAX_TTL;

/// What makes a run needless, and what keeps the lock from the next.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct OnceArgs {
    /// Run the command only if it has not succeeded yet (under this KEY, an image tag for
    /// instance); otherwise exit with 0. Who waits leaves with 0 as soon as another succeeds.
    #[arg(long, env = "DLOCK_OPT_ONCE", value_name = "KEY", num_args = 0..=1, require_equals = true)]
    pub once: Option<Option<Key>>,

    /// Run the command only if it has not succeeded for this long by the server's clock; otherwise
    /// exit with 0, as with --once.
    #[arg(
        long,
        env = "DLOCK_OPT_ONCE_PER",
        value_name = "DURATION",
        conflicts_with = "once"
    )]
    #[arg(value_parser = humantime::parse_duration)]
    pub once_per: Option<Duration>,

    /// Keep the lock from others until this long after it was granted, also when the command ends
    /// sooner; dlock itself does not wait for it.
    #[arg(long, env = "DLOCK_OPT_MIN_HOLD", value_name = "DURATION", value_parser = min_hold)]
    pub min_hold: Option<Duration>,
}

impl OnceArgs {
    /// The rule, if there is one.
    #[must_use]
    pub fn once(&self) -> Option<Once> {
        match (&self.once, self.once_per) {
            (Some(key), _) => Some(Once::Ever(key.clone().unwrap_or_default())),
            (None, Some(period)) => Some(Once::Per(period)),
            (None, None) => None,
        }
    }
}

/// At most as long as a lease may be: nobody is there to give it up sooner.
fn min_hold(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(duration) if duration <= MAX_TTL => Ok(duration),
        Ok(_) => Err(format!("at most {}", humantime::format_duration(MAX_TTL))),
        Err(error) => Err(error.to_string()),
    }
}
