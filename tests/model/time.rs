//! The model's time in ticks, and the conversion of real durations.
//!
//! A tick is longer than the clock-skew allowance (5 s), so each allowance costs one tick and every pause of the state
//! machines is over at the next tick. No behaviour is lost: a machine that could act within a tick acts in a later one,
//! and every later tick is tried.

use std::time::Duration;

use dlock::lease::instant::BootInstant;
use dlock::lease::timing::Timing;

/// Length of a tick, which is longer than `store::CLOCK_SKEW_ALLOWANCE`.
const TICK: Duration = Duration::from_secs(6);

/// Tick at which a run begins. The state machines subtract durations from instants, which must not precede the boot.
const BOOT: u32 = 100;

/// Length of a lease in ticks: one each for the renew interval, the grace and the margin, and one in which a renewal
/// may fail.
pub(crate) const TTL: u8 = 4;

/// A number of ticks since the start of the run.
pub(crate) type Tick = u8;

/// Returns `ticks` as a duration.
pub(crate) fn ticks(ticks: u8) -> Duration {
    TICK * u32::from(ticks)
}

/// Returns `duration`, which must be a whole number of ticks, in ticks.
pub(crate) fn whole_ticks(duration: Duration) -> i8 {
    i8::try_from(duration.as_secs() / TICK.as_secs()).expect("a short run")
}

/// Returns the instant at which `tick` begins.
pub(crate) fn instant(tick: Tick) -> BootInstant {
    BootInstant::new(TICK * (BOOT + u32::from(tick)))
}

/// Returns the timing of every lease in the model. The margin is one tick because killing takes up to one.
pub(crate) fn timing() -> Timing {
    Timing {
        ttl: ticks(TTL),
        grace: ticks(1),
        margin: ticks(1),
        renew_interval: ticks(1),
        request_timeout: ticks(1),
    }
}
