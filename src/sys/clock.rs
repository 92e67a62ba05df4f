//! The one clock that dlock lives by, and the wall clock, which is for showing only.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::lease::instant::BootInstant;

/// The present instant on `CLOCK_BOOTTIME`.
#[must_use]
pub fn now() -> BootInstant {
    BootInstant::new(read(ClockId::Boottime))
}

/// The time since 1970 by the machine's wall clock, which anybody may set: never for a decision.
#[must_use]
pub fn wall() -> Duration {
    read(ClockId::Realtime)
}

fn read(clock: ClockId) -> Duration {
    // Negative only before 1970.
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}
