//! The text at the end of each help text.

use crate::exit;

/// The reference to the manual, which ends each help text.
pub(super) const SEE_ALSO: &str =
    "See dlock(7) for how dlock works and what happens on each failure.";

/// Returns the text at the end of each long help text: the exit statuses and [`SEE_ALSO`].
pub(super) fn long_footer() -> String {
    format!("{}\n\n{SEE_ALSO}", exit::help())
}
