//! Time limits of an acquisition.

use std::time::Duration;

use super::{Acquire, AcquirePhase, WaitLimits};
use crate::lease::instant::BootInstant;

/// Minimum wait limit during the last step of a wait: an attempt on a free record, or the confirmation of a lease. This
/// time is too short for a user to notice, and long enough for a slow network.
pub(super) const FINAL_TRY: Duration = Duration::from_millis(250);

impl Acquire {
    /// Returns the instant at which to give up. None if no limit applies in the current phase.
    pub(super) fn limit(&self) -> Option<BootInstant> {
        let WaitLimits { wait, connect } = self.limits;
        let Some(first_response) = self.first_response else {
            return match &self.failure {
                // The server has responded that it has too many connections, so the wait for a connection counts as a
                // wait for the lock.
                _ if self.was_full => wait.map(|wait| self.started + wait.max(connect)),
                // With a limit of zero, there is one attempt, which has time for one connect and one response.
                None if connect.is_zero() => Some(self.started + 2 * self.timing.request_timeout),
                _ => Some(self.started + connect),
            };
        };
        let (least, confirmed_by) = match self.phase {
            AcquirePhase::Confirm { since, .. } => {
                (FINAL_TRY, Some(since + connect.max(FINAL_TRY)))
            }
            AcquirePhase::TryAcquire(_) | AcquirePhase::FreeOwnRecord(_) => (FINAL_TRY, None),
            _ => (Duration::ZERO, None),
        };
        let turn = wait.map(|wait| first_response + wait.max(least));
        turn.into_iter().chain(confirmed_by).min()
    }
}
