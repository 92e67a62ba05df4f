//! An operator who ends leases by hand.

use std::process::Stdio;
use std::time::Duration;

use super::{Nemesis, SEARCH};
use crate::history::Micros;
use crate::schedule::Step;

impl Nemesis<'_> {
    /// Releases the action; when, if somebody had the lease. Half of the time at whatever moment it is: also between two
    /// holders, where the release may come too late or to a run whose command has not begun.
    pub(super) fn strike_lease(&self, step: Step) -> Option<Micros> {
        if step.severity < 0.5 {
            let board = &self.course.board;
            board.holder(&self.action, Duration::ZERO, SEARCH)?;
        }
        let fault = self.begin(step.kind, None, None);
        let release = self
            .course
            .dlock()
            .args(["release", "--action", &self.action, "--yes"])
            .env("DLOCK_URL", self.site.database.url())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        fault.end(self.course, release.expect("dlock starts").success())
    }
}
