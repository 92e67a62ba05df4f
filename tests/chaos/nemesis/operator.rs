//! An operator that revokes leases, and pauses and resumes actions, with `dlock release`.

use std::process::Output;
use std::time::Duration;

use super::Nemesis;
use crate::fault_kind::FaultKind;
use crate::history::{Event, Micros};
use crate::schedule::{Route, Step};

/// Request for a pause, with its length if the operator does not end it, because the server cannot be reached.
const LONGEST_PAUSE: &str = "--pause=30s";

const RESUME_ATTEMPTS: usize = 5;

impl Nemesis<'_> {
    /// Runs `dlock release` for the action. Returns the start time of the fault; None if no holder was found or `dlock
    /// release` failed. Half of the requests do not wait for a holder. Such a request may find no lease, or may revoke
    /// the lease of a run whose command has not started.
    pub(super) fn inject_lease_fault(&self, step: Step) -> Option<Micros> {
        if step.severity < 0.5 {
            let live_runs = &self.context.live_runs;
            live_runs.holder(self.action(), Duration::ZERO, |_| true)?;
        }
        let fault = self.begin(step.kind, None, None);
        let is_pause = step.kind == FaultKind::Pause;
        let output = self.release(step, if is_pause { LONGEST_PAUSE } else { "--all" });
        if let Some(run) = revoked_run(&output.stderr) {
            let journal = &self.context.journal;
            journal.record_of(Some(run), self.action(), Event::Revoked);
        }
        if is_pause {
            let length = step.kind.length(Duration::from_secs(3), step.severity);
            self.context.live_runs.pause(length);
            let mut attempts = 0..RESUME_ATTEMPTS;
            while attempts.next().is_some() && !self.release(step, "--resume").status.success() {}
        }
        self.end(fault, output.status.success())
    }

    fn release(&self, step: Step, request: &str) -> Output {
        let url = self.site.url(self.action(), step.choice, Route::Proxy);
        let mut dlock = self.context.dlock();
        dlock.args(["release", "--action", self.action(), "--yes"]);
        dlock.args(["--log-format", "json", request]);
        dlock.env("DLOCK_URL", url).output().expect("dlock starts")
    }
}

/// Returns the run whose lease a request has revoked, according to the messages of `dlock release`.
fn revoked_run(messages: &[u8]) -> Option<u64> {
    let is_done = |message: &serde_json::Value| {
        let event = message["event"].as_str();
        event == Some("released") || event == Some("paused")
    };
    let messages = std::str::from_utf8(messages).ok()?.lines();
    let mut messages = messages.filter_map(|line| serde_json::from_str(line).ok());
    let holder = messages.find(is_done)?["holder"].as_str()?.to_owned();
    holder.strip_prefix("run ")?.parse().ok()
}
