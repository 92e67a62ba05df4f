//! Killing all of a tree, round by round until it is dead. Runs in the monitor, and on the main thread of
//! dlock when the monitor is dead.

use std::time::Duration;

use crate::lease::instant::BootInstant;
use crate::sys::tree::Tree;

/// Shortest pause between two rounds: what an orphan's parent leaves behind becomes ours only when that
/// has died.
const ROUND: Duration = Duration::from_millis(5);

/// From SIGKILL to saying that something does not die of it.
const STUCK: Duration = Duration::from_secs(2);

/// A tree that has to die.
#[derive(Debug)]
pub struct Killing {
    began: BootInstant,
    complain_at: BootInstant,
}

impl Killing {
    /// A killing that begins `now`.
    #[must_use]
    pub fn new(now: BootInstant) -> Self {
        Self {
            began: now,
            complain_at: now + STUCK,
        }
    }

    /// Kills what is alive of `tree`. Returns when to do it again, and now and again a process that does
    /// not die of it.
    #[must_use]
    pub fn round(&mut self, tree: &Tree, now: BootInstant) -> (BootInstant, Option<u32>) {
        let alive = tree.kill_all().filter(|_| now >= self.complain_at);
        if alive.is_some() {
            self.complain_at = now + STUCK;
        }
        (next_round(self.began, now), alive)
    }
}

/// When to go through a tree again, since when that has been done: quick at first. What is not reached or
/// does not die by then may take its time.
pub(super) fn next_round(since: BootInstant, now: BootInstant) -> BootInstant {
    now + ROUND.max(now.since(since) / 8)
}
