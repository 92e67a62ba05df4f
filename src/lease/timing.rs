//! The durations that are derived from a ttl, and the check that they fit into the ttl.
//!
//! ```text
//! send ──interval──┬─try─┬─try─┬─try─┬────…──── stop ──grace── KILL ──margin── lease ends
//! ```
//! One renewal interval and three failed tries must fit into the time before the stop signal, so that a short network or server
//! fault does not stop the command.

use std::fmt;
use std::time::Duration;

use super::instant::{BootInstant, Deadline};
use crate::mutant::{self, Safeguard};

/// Maximum ttl. If the ttl were longer, a crashed holder would block its action for longer than users are willing to
/// wait.
pub const MAX_TTL: Duration = Duration::from_hours(24);

/// All durations of one lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Timing {
    /// Duration of the lease.
    pub ttl: Duration,
    /// Time from the stop signal (`--stop-signal`) to SIGKILL.
    pub grace: Duration,
    /// The safety margin: the minimum time from SIGKILL to the expiry of the lease. The margin covers the time that the
    /// kill takes, and the difference between the rates of the clocks that measure the lease.
    pub margin: Duration,
    /// Time from sending a renewal that succeeds to sending the next renewal.
    pub renew_interval: Duration,
    /// Maximum time of one connect, and of one read or write on the connection. After this time, dlock closes the
    /// connection. A wait for the queue lock is not limited by this time.
    pub request_timeout: Duration,
}

/// The reason why a ttl is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimingError {
    /// The ttl is longer than [`MAX_TTL`].
    TooLong,
    /// The ttl is shorter than the sum of its parts.
    TooShort {
        /// The requested ttl.
        ttl: Duration,
        /// The requested or default grace period.
        grace: Duration,
        /// The sum of the parts.
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
                "ttl {} is too short: a grace period of {}, the safety margin and time to renew need {}; \
                 raise --ttl or lower --grace",
                text(ttl),
                text(grace),
                text(needed),
            ),
        }
    }
}

impl std::error::Error for TimingError {}

/// Returns the time between two renewals. This time is at most 10 s, so that the holder of a long lease detects a
/// revocation soon.
fn renew_interval(ttl: Duration) -> Duration {
    (ttl / 6).min(Duration::from_secs(10))
}

/// Returns the timeout of a request. This timeout is at most 2 s, because a healthy server normally responds much
/// sooner, and a longer timeout would leave less time for retries.
fn request_timeout(ttl: Duration) -> Duration {
    (ttl / 6).min(Duration::from_secs(2))
}

/// Returns the maximum time between two renewals by a healthy holder of a lease of `ttl`.
#[must_use]
pub fn renewal_overdue_after(ttl: Duration) -> Duration {
    renew_interval(ttl) + request_timeout(ttl)
}

/// Returns the time for which a connection proves that dlock's address leads to the server of the connection. After this
/// time, a holder checks the address over a new connection, and a waiter does so before it uses a grant.
///
/// If the address has moved, contenders on the new server take over the lease at the earliest one ttl after they have
/// first read the record there. Half a ttl leaves time to read the record again (a request timeout), and to stop the
/// command. The maximum makes the holder of a long lease notice a move soon.
#[must_use]
pub fn address_check_interval(ttl: Duration) -> Duration {
    (ttl / 2).clamp(Duration::from_secs(1), Duration::from_secs(30))
}

impl Timing {
    /// Returns the timing of a lease of `ttl`. If `grace` is None, the grace period is a sixth of the ttl, but at most
    /// 10 s.
    ///
    /// # Errors
    /// Fails if the parts do not fit into the ttl, or if the ttl is longer than [`MAX_TTL`].
    pub fn new(ttl: Duration, grace: Option<Duration>) -> Result<Self, TimingError> {
        if ttl > MAX_TTL {
            return Err(TimingError::TooLong);
        }
        let timing = Self {
            ttl,
            // If the ttl is the default of 30 s, the grace period is 5 s, which is enough for most programs to stop.
            // The user must request a grace period of more than 10 s, because a long grace period shortens the time for
            // renewals.
            grace: grace.unwrap_or_else(|| (ttl / 6).min(Duration::from_secs(10))),
            // Over one ttl, two clocks normally differ by far less than a thirtieth of the ttl. The minimum margin
            // covers the time to kill processes on a busy machine.
            margin: match mutant::is_disabled(Safeguard::Margin) {
                false => (ttl / 30).clamp(Duration::from_millis(250), Duration::from_secs(5)),
                true => Duration::ZERO,
            },
            renew_interval: renew_interval(ttl),
            request_timeout: request_timeout(ttl),
        };
        let needed = timing
            .grace
            .saturating_add(timing.margin + timing.renew_interval + 3 * timing.request_timeout);
        if needed > ttl {
            return Err(TimingError::TooShort {
                ttl,
                grace: timing.grace,
                needed,
            });
        }
        Ok(timing)
    }

    /// Returns the deadline of a lease whose most recent successful request was sent at `sent`.
    ///
    /// `sent` is the instant immediately before the request is sent. The server measures the ttl from a later instant,
    /// when it carries out the request. Therefore the lease expires on the server after the deadline.
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
    fn default_ttl_has_a_grace_of_5_s_and_a_margin_of_1_s() {
        let timing = Timing::new(secs(30), None).expect("a valid ttl");
        assert_eq!((timing.grace, timing.margin), (secs(5), secs(1)));
        assert_eq!(
            (timing.renew_interval, timing.request_timeout),
            (secs(5), secs(2))
        );
        let sent = BootInstant::new(secs(100));
        let deadline = timing.deadline(sent);
        assert_eq!(deadline.term.since(sent), secs(24));
        assert_eq!(deadline.kill.since(sent), secs(29));
    }

    #[test]
    fn every_valid_ttl_has_room_for_three_failed_renewals_before_term() {
        for millis in (500..120_000).step_by(250) {
            let ttl = Duration::from_millis(millis);
            let Ok(timing) = Timing::new(ttl, None) else {
                assert!(millis < 1_800, "{ttl:?} is refused");
                continue;
            };
            let sent = BootInstant::new(secs(1));
            let room = timing.deadline(sent).term.since(sent);
            assert!(
                room >= timing.renew_interval + 3 * timing.request_timeout,
                "{ttl:?}"
            );
        }
    }

    #[test]
    fn ttl_that_is_too_short_or_too_long_is_refused() {
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
