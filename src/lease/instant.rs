//! Instants on the machine's boot clock, and deadlines on that clock.
//!
//! The clock of `std::time::Instant` stops while the machine sleeps, but a lease can expire during that time. Therefore
//! dlock's deadlines and wait limits are instants on `CLOCK_BOOTTIME`. Only `sys::clock` reads that clock. Pure
//! modules receive instants as values.

use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An instant on `CLOCK_BOOTTIME`: the time since boot, including sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BootInstant(Duration);

impl BootInstant {
    /// Creates the instant `since_boot` after boot.
    #[must_use]
    pub const fn new(since_boot: Duration) -> Self {
        Self(since_boot)
    }

    /// Returns the time since boot.
    #[must_use]
    pub const fn since_boot(self) -> Duration {
        self.0
    }

    /// Returns the time from `earlier` to `self`, or zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for BootInstant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

impl Sub<Duration> for BootInstant {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(duration))
    }
}

/// The instants at which a command receives the stop signal and SIGKILL if its lease is not renewed before then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Deadline {
    /// Time at which dlock begins to terminate the command with the stop signal (`--stop-signal`): one grace period before `kill`.
    pub term: BootInstant,
    /// Time of SIGKILL: at least one safety margin before the lease expires.
    pub kill: BootInstant,
}
