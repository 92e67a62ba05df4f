//! How long to keep trying, and when to give up.

use std::time::Duration;

use super::{Acquire, Aim};
use crate::lease::instant::BootInstant;

/// Time for one more look at what was undecided when the user's time was over: not to be noticed,
/// but enough to tell a free row from a held one.
const LAST_LOOKS: Duration = Duration::from_millis(90);

/// How long to keep trying.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Patience {
    /// In line, from the server's first answer on; none: for ever.
    pub wait: Option<Duration>,
    /// For that first answer. At least one attempt is always made.
    pub reach: Duration,
}

impl Acquire {
    /// When to give up, as far as that is known by now.
    pub(super) fn limit(&self) -> Option<BootInstant> {
        let Patience { wait, reach } = self.patience;
        if let Some(answered) = self.answered {
            if matches!(self.aim, Aim::Confirm(_)) {
                return None;
            }
            let least = match self.undecided {
                true => LAST_LOOKS,
                false => Duration::ZERO,
            };
            return wait.map(|wait| answered + wait.max(least));
        }
        if self.full {
            // It has been reached; what we wait for is a turn like any other.
            return wait.map(|wait| self.started + wait.max(reach));
        }
        // The first attempt may use its own limits up: one connect and one reply.
        let least = match self.failure {
            None => 2 * self.timing.attempt,
            Some(_) => Duration::ZERO,
        };
        Some(self.started + reach.max(least))
    }
}
