//! What is the matter with an action, as far as a look at it can tell.
//!
//! The row says when the lease was last renewed, by the server's clock; the server says whether the
//! holder's session is there. The rest follows from how often a healthy holder renews.

use std::time::Duration;

use super::takeover::{HolderSession, allowed_in};
use super::{Sighting, State};
use crate::lease::timing;

/// What is the matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Diagnosis {
    /// Nobody holds it.
    Free,
    /// Nobody is granted it: an operator closed it.
    Closed,
    /// All is well.
    Renewing,
    /// The run is over; `--min-hold` keeps the lease.
    Kept,
    /// An operator ended the lease, which goes on until the command is dead.
    Broken,
    /// The last renewal lies in the server's future: its clock was set back since.
    ClockSetBack,
    /// A renewal is overdue. With a session that is there the process is frozen; otherwise it may be
    /// cut off as well.
    Silent,
    /// The holder's session has ended, and the holder has not reconnected: it is dead, or about to.
    Gone,
    /// The lease is over by the server's clock.
    Lapsed,
}

impl Diagnosis {
    /// What the matter with `seen` is.
    #[must_use]
    pub fn of(seen: &Sighting) -> Self {
        match seen.state() {
            State::Free => Self::Free,
            State::Closed => Self::Closed,
            State::Broken => Self::Broken,
            State::Lapsed => Self::Lapsed,
            State::Held if seen.kept_until.is_some() => Self::Kept,
            State::Held if seen.session_alive == Some(false) => Self::Gone,
            State::Held if !seen.renewed_ahead.is_zero() => Self::ClockSetBack,
            State::Held if seen.renewed_ago > timing::silence(seen.ttl) => Self::Silent,
            State::Held => Self::Renewing,
        }
    }

    /// The word for it in JSON.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Closed => "closed",
            Self::Renewing => "renewing",
            Self::Kept => "kept",
            Self::Broken => "broken",
            Self::ClockSetBack => "clock-set-back",
            Self::Silent => "silent",
            Self::Gone => "gone",
            Self::Lapsed => "lapsed",
        }
    }
}

/// When another may take the lease over, if it is not renewed any more and the action not opened before.
/// Assumes that the queue lock, where the holder has it, passes to the next contender.
#[must_use]
pub fn takeable_in(seen: &Sighting) -> Duration {
    allowed_in(seen, HolderSession::LostQueueLock)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Diagnosis, takeable_in};
    use crate::lease::Claim;
    use crate::store::{Remainder, Sighting};

    /// Held for 30 s and renewed `ago` seconds ago.
    fn renewed(ago: u64) -> Sighting {
        Sighting {
            claim: Some(Claim::new([1; 16])),
            ttl: Duration::from_secs(30),
            renewed_ago: Duration::from_secs(ago),
            remainder: match 30_u64.checked_sub(ago) {
                Some(left) => Remainder::Left(Duration::from_secs(left)),
                None => Remainder::Lapsed(Duration::from_secs(ago - 30)),
            },
            ..Sighting::never_held("init".parse().expect("a name"))
        }
    }

    #[test]
    fn a_holder_is_silent_only_when_a_renewal_and_the_time_it_may_take_are_over() {
        assert_eq!(Diagnosis::of(&renewed(7)), Diagnosis::Renewing);
        assert_eq!(Diagnosis::of(&renewed(8)), Diagnosis::Silent);
        assert_eq!(Diagnosis::of(&renewed(31)), Diagnosis::Lapsed);
    }

    #[test]
    fn a_session_that_has_ended_is_told_before_the_silence_that_comes_of_it() {
        let seen = Sighting {
            session_alive: Some(false),
            ..renewed(20)
        };
        assert_eq!(Diagnosis::of(&seen), Diagnosis::Gone);
    }

    #[test]
    fn a_lease_whose_session_had_the_gate_is_taken_over_sooner() {
        let seen = renewed(20);
        assert_eq!(takeable_in(&seen), Duration::from_secs(15));
        let gated = Sighting {
            gated_here: true,
            ..seen
        };
        assert_eq!(takeable_in(&gated), Duration::from_millis(10_900));
    }
}
