//! An operator that revokes leases with `dlock release`.

use std::process::Stdio;
use std::time::Duration;

use super::{Nemesis, SEARCH};
use crate::history::Micros;
use crate::schedule::Step;

impl Nemesis<'_> {
    /// Releases the action. Returns the time; None if there was no lease. Half of the releases do not wait for a
    /// holder: between two holders a release may come too late, or revoke the lease of a run whose command has not been
    /// started.
    pub(super) fn strike_lease(&self, step: Step) -> Option<Micros> {
        if step.severity < 0.5 {
            let live_runs = &self.context.live_runs;
            live_runs.holder(&self.action, Duration::ZERO, SEARCH)?;
        }
        let fault = self.begin(step.kind, None, None);
        let release = self
            .context
            .dlock()
            .args(["release", "--action", &self.action, "--yes"])
            .env("DLOCK_URL", self.site.database.url())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        fault.end(self.context, release.expect("dlock starts").success())
    }
}
