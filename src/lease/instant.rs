//! Instants on the machine's own boot clock, and deadlines counted from them.
//!
//! `std::time::Instant` stops while the machine sleeps; a lease does not. So all of dlock's time
//! is `CLOCK_BOOTTIME`, read in `sys::clock` alone and passed around as values.

use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An instant on `CLOCK_BOOTTIME`: time since boot, sleep included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BootInstant(Duration);

impl BootInstant {
    /// The instant `since_boot` after boot.
    #[must_use]
    pub const fn new(since_boot: Duration) -> Self {
        Self(since_boot)
    }

    /// Time since boot.
    #[must_use]
    pub const fn since_boot(self) -> Duration {
        self.0
    }

    /// Time from `earlier` to `self`, zero if `earlier` is later.
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

/// The instants by which a command must be told to stop and be dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Deadline {
    /// SIGTERM: one grace before `kill`.
    pub term: BootInstant,
    /// SIGKILL: one margin before the lease ends.
    pub kill: BootInstant,
}
