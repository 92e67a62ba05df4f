//! The time limits of an acquisition.

use std::time::Duration;

use crate::lease::instant::BootInstant;

/// Minimum wait limit during the last step of a wait: an attempt on a free record, or the confirmation of a lease. This
/// time is too short for a user to notice.
///
/// If the network or the server is slow, the minimum is twice the time to the first response, but not longer than the
/// request timeout. Otherwise, a contender that does not wait could never take over an expired lease there.
pub(super) const FINAL_TRY: Duration = Duration::from_millis(250);

/// Time limits of an acquisition. The final step of a wait may exceed a limit by a short time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WaitLimits {
    /// Maximum time to wait for the lease after the server's first response. None waits forever.
    pub wait: Option<Duration>,
    /// Maximum time from the start to the server's first response, and maximum time to confirm a grant. If it
    /// is zero, one attempt is sent, and has time for one connect and one response. If the server has too many connections,
    /// the longer of `wait` and `connect` limits the time to the first response.
    pub connect: Duration,
}

impl WaitLimits {
    /// Returns the limits of a second acquisition if the server has responded to the first one for the time `waited`. The
    /// limit of the wait covers both.
    #[must_use]
    pub fn after(self, waited: Duration) -> Self {
        Self {
            wait: self.wait.map(|wait| wait.saturating_sub(waited)),
            ..self
        }
    }
}

/// The step of an acquisition that may exceed the wait limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FinalStep {
    /// The acquisition waits, so it may not exceed the limit.
    None,
    /// An attempt on a free record, or the release of an own record.
    Attempt,
    /// The confirmation of a lease, since this instant.
    Confirm { since: BootInstant },
}

/// The time limits of one acquisition, and the instants from which they are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct TimeLimits {
    pub(super) limits: WaitLimits,
    started: BootInstant,
    /// Instant of the server's first response. None before the first response.
    first_response: Option<BootInstant>,
    /// True if the server has refused a connection because the maximum number of connections was reached.
    pub(super) was_full: bool,
}

impl TimeLimits {
    pub(super) const fn new(limits: WaitLimits, started: BootInstant) -> Self {
        Self {
            limits,
            started,
            first_response: None,
            was_full: false,
        }
    }

    pub(super) const fn started(&self) -> BootInstant {
        self.started
    }

    /// Records a response that was received at `now`.
    pub(super) fn responded(&mut self, now: BootInstant) {
        self.first_response.get_or_insert(now);
    }

    /// Returns true if the server has responded.
    pub(super) const fn has_response(&self) -> bool {
        self.first_response.is_some()
    }

    /// Returns the instant at which to give up during `step`. None if no limit applies. `has_failed` is true if the latest
    /// request has failed.
    pub(super) fn limit(
        &self,
        step: FinalStep,
        has_failed: bool,
        request_timeout: Duration,
    ) -> Option<BootInstant> {
        let WaitLimits { wait, connect } = self.limits;
        let Some(first_response) = self.first_response else {
            return match has_failed {
                // The server has responded that it has too many connections, so the wait for a connection counts as a
                // wait for the lock.
                _ if self.was_full => wait.map(|wait| self.started + wait.max(connect)),
                // With a limit of zero, there is one attempt, which has time for one connect and one response.
                false if connect.is_zero() => Some(self.started + 2 * request_timeout),
                _ => Some(self.started + connect),
            };
        };
        let slow = 2 * first_response.since(self.started);
        let final_try = slow.min(request_timeout).max(FINAL_TRY);
        let (least, confirmed_by) = match step {
            FinalStep::Confirm { since } => (final_try, Some(since + connect.max(final_try))),
            FinalStep::Attempt => (final_try, None),
            FinalStep::None => (Duration::ZERO, None),
        };
        let turn = wait.map(|wait| first_response + wait.max(least));
        turn.into_iter().chain(confirmed_by).min()
    }

    /// Removes the start if no limit depends on it any more. Returns true if so.
    pub(super) fn normalize_for_model(&mut self) -> bool {
        let is_over = (self.has_response() || self.was_full) && self.limits.wait.is_none();
        if is_over {
            let past = BootInstant::new(Duration::ZERO);
            (self.started, self.first_response) = (past, Some(past));
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::WaitLimits;

    #[test]
    fn wait_limit_covers_several_acquisitions() {
        let seconds = Duration::from_secs;
        let limits = |wait| WaitLimits {
            wait,
            connect: seconds(60),
        };
        for (wait, waited, left) in [
            (Some(10), 0, Some(10)),
            (Some(10), 4, Some(6)),
            (Some(10), 11, Some(0)),
            (None, 11, None),
        ] {
            let left = limits(left.map(seconds));
            assert_eq!(limits(wait.map(seconds)).after(seconds(waited)), left);
        }
    }
}
