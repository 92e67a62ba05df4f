//! The one clock that dlock lives by, and the wall clock, which is for showing only.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::lease::instant::BootInstant;

/// The present instant on `CLOCK_BOOTTIME`.
#[must_use]
pub fn now() -> BootInstant {
    let time = clock_gettime(ClockId::Boottime);
    BootInstant::new(Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    ))
}

/// The time since 1970 by the machine's wall clock, which anybody may set: never for a decision.
#[must_use]
pub fn wall() -> Duration {
    let time = clock_gettime(ClockId::Realtime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}
