//! The options of `exec` that make a run needless.

use crate::lease::once::{Key, Once};

/// What makes a run needless.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct OnceArgs {
    /// Run the command only if it has not succeeded yet (under this KEY, an image tag for
    /// instance); otherwise exit with 0. Who waits leaves with 0 as soon as another succeeds.
    #[arg(long, env = "DLOCK_ONCE", value_name = "KEY", num_args = 0..=1, require_equals = true)]
    pub once: Option<Option<Key>>,
}

impl OnceArgs {
    /// The rule, if there is one.
    #[must_use]
    pub fn once(self) -> Option<Once> {
        self.once.map(|key| Once::Ever(key.unwrap_or_default()))
    }
}
