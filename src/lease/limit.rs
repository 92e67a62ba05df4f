//! The limit of a lease: how many leases of an action may exist at once while its holder's command runs.

use std::num::NonZeroU32;

/// The largest number of leases of an action, this one included, that its holder accepts. The limit 1 is an exclusive
/// lease. The smallest limit among the holders and a contender decides whether the contender is granted a lease, so
/// contenders of one action may have different limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Limit(NonZeroU32);

impl Limit {
    /// The limit of an exclusive lease.
    pub const ONE: Self = Self(NonZeroU32::MIN);

    /// No limit. The holder accepts any number of holders that have no limit either.
    pub const NONE: Self = Self(NonZeroU32::MAX);

    /// Returns the limit of at most `count` leases.
    #[must_use]
    pub const fn new(count: NonZeroU32) -> Self {
        Self(count)
    }

    /// Returns true if the lease is exclusive. Such a lease is in the record of the action, and each other lease is in a
    /// slot.
    #[must_use]
    pub fn is_exclusive(self) -> bool {
        self == Self::ONE
    }

    /// Returns the largest number of leases. None if there is no limit.
    #[must_use]
    pub fn count(self) -> Option<u32> {
        (self != Self::NONE).then(|| self.0.get())
    }

    /// Returns true if `count` leases may exist at once.
    #[must_use]
    pub const fn allows(self, count: u64) -> bool {
        count <= self.0.get() as u64
    }
}
