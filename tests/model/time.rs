//! The model's time: ticks, and what the real durations come to in them.
//!
//! A tick is longer than the allowance for a server's clock (5 s), so that each allowance costs one
//! tick and every pause of the real machines is over at the next one. That loses nothing: a machine
//! that could act within a tick acts in a later one, and every later tick is tried.

use std::time::Duration;

use dlock::lease::instant::BootInstant;
use dlock::lease::timing::Timing;

/// Longer than `store::ALLOWANCE`.
const TICK: Duration = Duration::from_secs(6);

/// The machines count back from instants; none of them may fall before the boot.
const BOOT: u32 = 100;

/// Length of a lease in ticks: one each for the interval, the grace and the margin, and one in
/// which a renewal may fail.
pub(crate) const TTL: u8 = 4;

/// A number of ticks, counted from the start of the run.
pub(crate) type Tick = u8;

/// `ticks` as a duration.
pub(crate) fn ticks(ticks: u8) -> Duration {
    TICK * u32::from(ticks)
}

/// How many ticks pass in `duration`, which is a whole number of them.
pub(crate) fn whole_ticks(duration: Duration) -> i8 {
    i8::try_from(duration.as_secs() / TICK.as_secs()).expect("a short run")
}

/// The instant at which tick `tick` begins.
pub(crate) fn instant(tick: Tick) -> BootInstant {
    BootInstant::new(TICK * (BOOT + u32::from(tick)))
}

/// The durations of every lease in the model. Killing takes up to one tick, so that is the margin.
pub(crate) fn timing() -> Timing {
    Timing {
        ttl: ticks(TTL),
        grace: ticks(1),
        margin: ticks(1),
        interval: ticks(1),
        attempt: ticks(1),
    }
}
