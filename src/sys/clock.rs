//! The boot clock, which dlock uses for its own deadlines, the wall clock, which is only for display and metrics, and the
//! processor time of a thread.

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

/// Returns the processor time that the calling thread has used.
#[must_use]
pub fn thread_time() -> Duration {
    read(ClockId::ThreadCPUTime)
}

fn read(clock: ClockId) -> Duration {
    // The time is negative only before 1970.
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}
