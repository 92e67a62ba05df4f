//! The time of the model, in ticks, and the conversion between ticks and durations.
//!
//! A tick is longer than the clock-skew allowance (5 s). The allowance therefore lasts one tick, and every pause of the
//! state machines ends at the next tick. The model loses no behaviour: if a state machine could act within a tick, it
//! acts in a later tick, and the checker tries every later tick.

use std::time::Duration;

use dlock::lease::instant::BootInstant;
use dlock::lease::timing::Timing;

/// Length of a tick, which is longer than `store::CLOCK_SKEW_ALLOWANCE`.
const TICK: Duration = Duration::from_secs(6);

/// Number of ticks between the boot and the start of a run. The state machines subtract durations from instants, and
/// the result must not precede the boot.
const BOOT: u32 = 100;

/// Length of a lease in ticks: one tick each for the renew interval, the grace period and the safety margin, and one
/// tick in which a renewal may fail.
pub(crate) const TTL: u8 = 4;

/// A number of ticks since the start of the run.
pub(crate) type Tick = u8;

pub(crate) fn ticks(ticks: u8) -> Duration {
    TICK * u32::from(ticks)
}

/// Returns `duration` in ticks. Must be called with a whole number of ticks.
pub(crate) fn whole_ticks(duration: Duration) -> i8 {
    i8::try_from(duration.as_secs() / TICK.as_secs()).expect("a short run")
}

pub(crate) fn instant(tick: Tick) -> BootInstant {
    BootInstant::new(TICK * (BOOT + u32::from(tick)))
}

/// Returns the timing of every lease in the model. The safety margin is one tick, because killing a process tree takes
/// up to one tick.
pub(crate) fn timing() -> Timing {
    Timing {
        ttl: ticks(TTL),
        grace: ticks(1),
        margin: ticks(1),
        renew_interval: ticks(1),
        request_timeout: ticks(1),
    }
}
