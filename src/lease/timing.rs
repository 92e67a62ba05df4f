//! The durations that follow from a ttl, and whether they fit into it.
//!
//! ```text
//! send ──interval──┬─try─┬─try─┬─try─┬────…──── TERM ──grace── KILL ──margin── lease ends
//! ```
//! One interval and three failed tries must pass before TERM, so that a short fault of the network
//! or the server never touches the command.

use std::fmt;
use std::time::Duration;

use super::instant::{BootInstant, Deadline};
use crate::twin::{self, Mechanism};

/// Longest lease: beyond a day a crashed holder would block longer than anybody waits.
pub const MAX_TTL: Duration = Duration::from_hours(24);

/// All durations of one lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Timing {
    /// Length of the lease.
    pub ttl: Duration,
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
    /// Taken off the end of the lease: covers the time that killing takes and clocks that do not
    /// run at exactly the same rate.
    pub margin: Duration,
    /// From the send of one renewal to the next.
    pub interval: Duration,
    /// How long one request may take before its connection is given up.
    pub attempt: Duration,
}

/// Why a ttl and a grace do not go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimingError {
    /// Longer than [`MAX_TTL`].
    TooLong,
    /// The parts need `needed`, more than the ttl has.
    TooShort {
        /// The ttl that was asked for.
        ttl: Duration,
        /// The grace in force.
        grace: Duration,
        /// What the parts add up to.
        needed: Duration,
    },
}

impl fmt::Display for TimingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |duration: Duration| {
            humantime::format_duration(Duration::from_millis(
                u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            ))
        };
        match *self {
            Self::TooLong => write!(f, "ttl must be at most {}", text(MAX_TTL)),
            Self::TooShort { ttl, grace, needed } => write!(
                f,
                "ttl {} is too short: a grace of {}, the safety margin and time to renew need {}; \
                 raise --ttl or lower --grace",
                text(ttl),
                text(grace),
                text(needed),
            ),
        }
    }
}

impl std::error::Error for TimingError {}

/// At most 10 s, so that a holder of a long lease hears soon that it was broken.
fn interval(ttl: Duration) -> Duration {
    (ttl / 6).min(Duration::from_secs(10))
}

/// Two seconds is above any healthy server's answer; longer would eat up the retries.
fn attempt(ttl: Duration) -> Duration {
    (ttl / 6).min(Duration::from_secs(2))
}

/// How long after a renewal the next one must have come, if the holder of a lease of `ttl` is well.
#[must_use]
pub fn silence(ttl: Duration) -> Duration {
    interval(ttl) + attempt(ttl)
}

impl Timing {
    /// The timing of a lease of `ttl`, with `grace` if the user chose one.
    ///
    /// # Errors
    /// When the parts do not fit into the ttl, or it is longer than [`MAX_TTL`].
    pub fn new(ttl: Duration, grace: Option<Duration>) -> Result<Self, TimingError> {
        if ttl > MAX_TTL {
            return Err(TimingError::TooLong);
        }
        let timing = Self {
            ttl,
            // A sixth of the ttl is 5 s of the default 30 s, what most programs need to stop; more
            // than 10 s has to be asked for, since it is taken from the time for renewals.
            grace: grace.unwrap_or_else(|| (ttl / 6).min(Duration::from_secs(10))),
            // 1/30 is far above any clock's rate error; the floor is for killing on a busy machine.
            margin: match twin::is_out(Mechanism::Margin) {
                false => (ttl / 30).clamp(Duration::from_millis(250), Duration::from_secs(5)),
                true => Duration::ZERO,
            },
            interval: interval(ttl),
            attempt: attempt(ttl),
        };
        let needed = timing
            .grace
            .saturating_add(timing.margin + timing.interval + 3 * timing.attempt);
        if needed > ttl {
            return Err(TimingError::TooShort {
                ttl,
                grace: timing.grace,
                needed,
            });
        }
        Ok(timing)
    }

    /// The deadline of a lease whose last good request was sent at `sent`.
    ///
    /// Counted from before the send: the server counts from when it got the request, which is
    /// later, so its lease outlives ours.
    #[must_use]
    pub fn deadline(&self, sent: BootInstant) -> Deadline {
        let kill = sent + self.ttl - self.margin;
        Deadline {
            term: kill - self.grace,
            kill,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Timing, TimingError};
    use crate::lease::instant::BootInstant;

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_default_lease_leaves_a_grace_of_5_s_and_a_margin_of_1_s() {
        let timing = Timing::new(secs(30), None).expect("30s fits");
        assert_eq!((timing.grace, timing.margin), (secs(5), secs(1)));
        assert_eq!((timing.interval, timing.attempt), (secs(5), secs(2)));
        let sent = BootInstant::new(secs(100));
        let deadline = timing.deadline(sent);
        assert_eq!(deadline.term.since(sent), secs(24));
        assert_eq!(deadline.kill.since(sent), secs(29));
    }

    #[test]
    fn every_accepted_lease_has_room_for_three_failed_renewals_before_term() {
        for millis in (500..120_000).step_by(250) {
            let ttl = Duration::from_millis(millis);
            let Ok(timing) = Timing::new(ttl, None) else {
                assert!(millis < 1_800, "{ttl:?} is refused");
                continue;
            };
            let sent = BootInstant::new(secs(1));
            let room = timing.deadline(sent).term.since(sent);
            assert!(room >= timing.interval + 3 * timing.attempt, "{ttl:?}");
        }
    }

    #[test]
    fn what_cannot_fit_is_refused() {
        assert!(matches!(
            Timing::new(secs(1), None),
            Err(TimingError::TooShort { .. })
        ));
        assert!(matches!(
            Timing::new(secs(30), Some(secs(25))),
            Err(TimingError::TooShort { .. })
        ));
        assert!(matches!(
            Timing::new(secs(30), Some(Duration::MAX)),
            Err(TimingError::TooShort { .. })
        ));
        assert_eq!(Timing::new(secs(86_401), None), Err(TimingError::TooLong));
        assert!(Timing::new(secs(30), Some(Duration::ZERO)).is_ok());
    }
}
