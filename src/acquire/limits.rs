//! How long to keep trying, and when to give up.

use std::time::Duration;

use super::{Acquire, Phase};
use crate::lease::instant::BootInstant;

/// Time to finish what has begun when the user's time is over: a free row that is tried once more, a
/// lease that has to be confirmed. Not to be noticed, and enough for a slow network.
const FINAL_TRY: Duration = Duration::from_millis(250);

/// How long to keep trying.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WaitLimits {
    /// Maximum time in line, from the server's first answer on. None waits for ever.
    pub wait: Option<Duration>,
    /// Maximum time to that first answer, and to the confirmation of a grant. At least one attempt is
    /// always made.
    pub connect: Duration,
}

impl Acquire {
    /// When to give up, as far as that is known by now.
    pub(super) fn limit(&self) -> Option<BootInstant> {
        let WaitLimits { wait, connect } = self.limits;
        let Some(answered) = self.answered else {
            return match &self.failure {
                // It has been reached; what we wait for is a turn like any other.
                _ if self.was_full => wait.map(|wait| self.started + wait.max(connect)),
                // The first attempt may use its own limits up: one connect and one reply.
                None => Some(self.started + connect.max(2 * self.timing.attempt)),
                Some(_) => Some(self.started + connect),
            };
        };
        let (least, confirmed_by) = match self.phase {
            Phase::Confirm { since, .. } => (FINAL_TRY, Some(since + connect.max(FINAL_TRY))),
            Phase::Attempt(_) | Phase::Settle(_) => (FINAL_TRY, None),
            _ => (Duration::ZERO, None),
        };
        let turn = wait.map(|wait| answered + wait.max(least));
        turn.into_iter().chain(confirmed_by).min()
    }
}
