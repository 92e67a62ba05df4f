//! The boot clock, which dlock uses for its own deadlines, and the wall clock, which is only for display and metrics.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::lease::instant::BootInstant;

/// Returns the current instant on `CLOCK_BOOTTIME`.
#[must_use]
pub fn now() -> BootInstant {
    BootInstant::new(read(ClockId::Boottime))
}

/// Returns the time since 1970 on the machine's wall clock. No decision may use this time, because the wall clock can
/// be set at any time.
#[must_use]
pub fn wall() -> Duration {
    read(ClockId::Realtime)
}

fn read(clock: ClockId) -> Duration {
    // The time is negative only before 1970.
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}
