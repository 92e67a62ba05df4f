//! How long to pause between two questions.

use std::time::Duration;

use super::Acquire;
use crate::lease::instant::BootInstant;

/// First and longest pause between two looks of whoever is next: fast enough that a short command
/// hands over soon, slow enough to be nothing to the server.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(100);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Pause before another look at a gate or a row that is changing hands.
pub(super) const MOMENT: Duration = Duration::from_millis(25);

impl Acquire {
    /// Pauses, but not past the moment when the row may be taken.
    pub(super) fn pause_until(
        &mut self,
        now: BootInstant,
        takeable: BootInstant,
        longest: Duration,
    ) {
        let pause = self.next_pause(longest);
        self.next_at = (now + pause).min(takeable.max(now + MOMENT));
    }

    /// The next pause: half as long again each time up to `longest`, spread by a quarter.
    pub(super) fn next_pause(&mut self, longest: Duration) -> Duration {
        let pause = self.pause.min(longest);
        self.pause = (pause * 3 / 2).min(longest);
        pause * (192 + u32::from(self.claim.jitter(self.turn)) / 2) / 256
    }
}
