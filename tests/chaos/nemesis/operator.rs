//! An operator that revokes leases with `dlock release`.

use std::process::Stdio;
use std::time::Duration;

use super::{Nemesis, SEARCH};
use crate::history::Micros;
use crate::schedule::{Route, Step};

impl Nemesis<'_> {
    /// Runs `dlock release` for the action. Returns the start time of the fault; None if no holder was found or `dlock
    /// release` failed. Half of the releases do not wait for a holder. Such a release may find no lease, or may revoke
    /// the lease of a run whose command has not started.
    pub(super) fn inject_lease_fault(&self, step: Step) -> Option<Micros> {
        if step.severity < 0.5 {
            let live_runs = &self.context.live_runs;
            live_runs.holder(&self.action, Duration::ZERO, SEARCH)?;
        }
        let fault = self.begin(step.kind, None, None);
        let release = self
            .context
            .dlock()
            .args(["release", "--action", &self.action, "--yes"])
            .env(
                "DLOCK_URL",
                self.site.url(&self.action, step.choice, Route::Proxy),
            )
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        fault.end(self.context, release.expect("dlock starts").success())
    }
}
