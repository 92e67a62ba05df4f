//! Time limits of an acquisition.

use std::time::Duration;

use super::{Acquire, AcquirePhase, WaitLimits};
use crate::lease::instant::BootInstant;

/// Minimum wait limit during the last step of a wait: an attempt on a free record, or the confirmation of a lease. This
/// time is too short for a user to notice, and long enough for a slow network.
pub(super) const FINAL_TRY: Duration = Duration::from_millis(250);

/// The time limits of one acquisition, and what they are measured from.
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

impl Acquire {
    /// Returns the instant at which to give up. None if no limit applies in the current phase.
    pub(super) fn limit(&self) -> Option<BootInstant> {
        let TimeLimits {
            limits: WaitLimits { wait, connect },
            started,
            first_response,
            was_full,
        } = self.limits;
        let Some(first_response) = first_response else {
            return match &self.failure {
                // The server has responded that it has too many connections, so the wait for a connection counts as a
                // wait for the lock.
                _ if was_full => wait.map(|wait| started + wait.max(connect)),
                // With a limit of zero, there is one attempt, which has time for one connect and one response.
                None if connect.is_zero() => Some(started + 2 * self.timing.request_timeout),
                _ => Some(started + connect),
            };
        };
        let (least, confirmed_by) = match self.phase {
            AcquirePhase::Confirm { since, .. } => {
                (FINAL_TRY, Some(since + connect.max(FINAL_TRY)))
            }
            AcquirePhase::TryAcquire(_) | AcquirePhase::FreeOwnRecord(..) => (FINAL_TRY, None),
            _ => (Duration::ZERO, None),
        };
        let turn = wait.map(|wait| first_response + wait.max(least));
        turn.into_iter().chain(confirmed_by).min()
    }
}
