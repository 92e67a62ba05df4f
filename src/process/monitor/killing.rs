//! Kills all processes of a tree, in rounds until the tree is dead. Runs in the monitor, or on the main thread of dlock
//! if the monitor is dead.

use std::time::Duration;

use crate::lease::instant::BootInstant;
use crate::sys::tree::Tree;

/// Shortest pause between two rounds. More than one round may be necessary, because the children of a process become
/// children of the subreaper only after that process has died.
const MIN_PAUSE: Duration = Duration::from_millis(5);

/// Time from the first SIGKILL to the first report of a process that does not die, and minimum time between two
/// reports.
const STUCK_AFTER: Duration = Duration::from_secs(2);

/// The state of killing one tree.
#[derive(Debug)]
pub struct Killing {
    started: BootInstant,
    report_at: BootInstant,
}

impl Killing {
    /// Creates the state before the first round, which starts at `now`.
    #[must_use]
    pub fn new(now: BootInstant) -> Self {
        Self {
            started: now,
            report_at: now + STUCK_AFTER,
        }
    }

    /// Sends SIGKILL to all processes of `tree` that are alive. Returns the instant at which the next round is due, and
    /// the id of a process that does not die. An id is returned at most once every two seconds; in all other rounds it
    /// is None.
    #[must_use]
    pub fn round(&mut self, tree: &mut dyn Tree, now: BootInstant) -> (BootInstant, Option<u32>) {
        let stuck = tree.kill_all().filter(|_| now >= self.report_at);
        if stuck.is_some() {
            self.report_at = now + STUCK_AFTER;
        }
        (next_round(self.started, now), stuck)
    }
}

/// Returns the instant at which the next round over a tree is due, for rounds that started at `since`. Pauses are short
/// at first and become longer as time passes.
pub(super) fn next_round(since: BootInstant, now: BootInstant) -> BootInstant {
    now + MIN_PAUSE.max(now.since(since) / 8)
}
