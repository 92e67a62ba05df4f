//! Updates the metrics file and runs the hooks of a run. Runs on the main thread.
//!
//! No function in this module waits. If an observer fails after its start, the failure is reported and has no other
//! effect.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cli::observe::ObserveArgs;
use crate::event::Event;
use crate::event::queue::EventSender;
use crate::exit::{ExitCause, ExitError, Status};
use crate::lease::Grant;
use crate::lease::instant::BootInstant;
use crate::metrics::writer::{Note, Writer};
use crate::metrics::{MetricsResult, RunMetrics};
use crate::process::hook::{Hook, HookTrigger};
use crate::report::Report;
use crate::report::escape::printable;
use crate::report::log::EventKind;
use crate::store::Contender;
use crate::sys::clock;

/// The facts of a run, and the observers that receive them.
#[derive(Debug)]
pub(in crate::commands) struct RunObservers {
    facts: RunMetrics,
    started: BootInstant,
    granted: Option<BootInstant>,
    /// The metrics file. None if there is none.
    file: Option<PathBuf>,
    writer: Option<Writer>,
    hook: Option<Hook>,
    /// Hooks that have not ended.
    running: Vec<HookTrigger>,
}

impl RunObservers {
    /// Creates the facts of a run without observers.
    pub(in crate::commands) fn none(contenders: &[Contender]) -> Self {
        Self {
            facts: RunMetrics::new(
                contenders.iter().map(|it| it.action.clone()).collect(),
                contenders
                    .iter()
                    .map(|it| it.holder.label.clone())
                    .next()
                    .unwrap_or_default(),
            ),
            started: clock::now(),
            granted: None,
            file: None,
            writer: None,
            hook: None,
            running: Vec::new(),
        }
    }

    /// Starts the observers that `observe` selects. Hooks do not get the environment variables in `hidden`.
    pub(super) fn start(
        &mut self,
        observe: &ObserveArgs,
        hidden: Vec<OsString>,
        events: &EventSender,
    ) -> io::Result<()> {
        // A send fails only at the end of the process, after the receiver of events is dropped.
        self.file.clone_from(&observe.metrics_file);
        if let Some(file) = &observe.metrics_file {
            let events = events.clone();
            let notify = move |note| drop(events.send(Event::Metrics(note)));
            self.writer = Some(Writer::start(file.clone(), notify)?);
        }
        if let Some(command) = &observe.on_event {
            let events = events.clone();
            let notify = move |trigger, result| drop(events.send(Event::Hook(trigger, result)));
            self.hook = Some(Hook::new(command, hidden, notify)?);
        }
        Ok(())
    }

    /// Records that the leases of `grants` are granted, and that the work starts.
    pub(super) fn granted(&mut self, grants: &[Grant]) {
        self.granted = Some(clock::now());
        self.facts.slot = grants.first().map(|grant| grant.slot);
        self.facts.tokens = grants.iter().map(|grant| grant.token).collect();
        self.facts.held = true;
        self.write();
        self.run(HookTrigger::Granted);
    }

    /// Records that a renewal succeeded.
    pub(super) fn renewed(&mut self) {
        self.facts.renewals += 1;
        self.write();
    }

    /// Records that a renewal failed.
    pub(super) fn renewal_failed(&mut self) {
        self.facts.failures += 1;
        self.write();
    }

    /// Records the result of the run, the reason, and the label of the other process or of the
    /// operator that caused the result. Only the first call has an effect, because a lost lease
    /// stays lost. Notifies the observers immediately if the lease is lost.
    pub(super) fn ended(&mut self, outcome: MetricsResult, reason: &str, other: &str) {
        if self.facts.outcome.is_some() {
            return;
        }
        self.facts.outcome = Some(outcome);
        // Scripts may print these strings on a terminal, so control characters are escaped.
        self.facts.reason = printable(reason).into_owned();
        self.facts.other = printable(other).into_owned();
        if outcome == MetricsResult::Lost {
            self.facts.status = Some(Status::LOST);
            self.facts.held = false;
            self.write();
            self.run(HookTrigger::Lost);
        }
    }

    /// Records that the lease stays held for `--min-hold` until `until`, a duration since 1970 by this machine's clock.
    pub(super) const fn stays_held(&mut self, until: Duration) {
        self.facts.min_hold_until = Some(until);
    }

    /// Records that dlock ends, and notifies the observers.
    pub(super) fn finish(&mut self, end: Result<Status, &ExitError>) {
        let status = end.unwrap_or_else(|ending| {
            let (outcome, other) = match &ending.cause {
                ExitCause::Done(holder) => (MetricsResult::Done, &**holder),
                ExitCause::Held(holder) => (MetricsResult::Held, &**holder),
                ExitCause::Interrupted => (MetricsResult::Interrupted, ""),
                ExitCause::Failed => (MetricsResult::Error, ""),
            };
            self.ended(outcome, &ending.why, other);
            ending.status
        });
        self.facts.held = false;
        self.facts.status = Some(status);
        self.facts.ended_at = Some(clock::wall());
        self.write();
        match self.facts.outcome {
            // The observers have already been notified of the loss.
            Some(MetricsResult::Lost) => {}
            Some(MetricsResult::Done | MetricsResult::Held) => self.run(HookTrigger::Skipped),
            _ if self.granted.is_some() => self.run(HookTrigger::Released),
            _ => {}
        }
    }

    /// Updates the facts that depend on the current time.
    fn update_durations(&mut self) {
        let now = clock::now();
        let granted = self.granted.unwrap_or(now);
        self.facts.wait = granted.since(self.started);
        self.facts.hold = now.since(granted);
    }

    fn write(&mut self) {
        self.update_durations();
        if let Some(writer) = &self.writer {
            writer.write(self.facts.clone());
        }
    }

    fn run(&mut self, trigger: HookTrigger) {
        self.update_durations();
        if let Some(hook) = &mut self.hook {
            self.running.push(trigger);
            hook.run(trigger, &self.facts);
        }
    }

    /// Handles `event` if it comes from a hook or from the metrics thread, and reports a failure.
    pub(super) fn handle_event(&mut self, report: &Report, event: &Event) {
        match event {
            Event::Hook(trigger, result) => {
                self.running.retain(|running| running != trigger);
                if let Some(failure) = result.failure() {
                    let text = format_args!("--on-event for {} {failure}", trigger.as_str());
                    report.info(EventKind::HookFailed, text);
                }
            }
            Event::Metrics(Note::Over) => self.writer = None,
            Event::Metrics(Note::Failed(error)) => {
                let file = self.file.as_deref().unwrap_or(Path::new(""));
                let text = format_args!("cannot write the metrics to {}: {error}", file.display());
                report.info(EventKind::MetricsFailed, text);
            }
            _ => {}
        }
    }

    /// Returns true until the metrics file is written and all hooks have ended.
    pub(super) const fn are_busy(&self) -> bool {
        self.writer.is_some() || self.are_hooks_running()
    }

    /// Returns true if a hook has not ended.
    pub(super) const fn are_hooks_running(&self) -> bool {
        !self.running.is_empty()
    }

    /// Kills the hooks that have not ended.
    pub(super) fn kill_hooks(&mut self) {
        if let Some(hook) = &mut self.hook {
            hook.stop();
        }
    }

    /// Returns the triggers of the hooks that have not ended, and removes them from the running
    /// hooks.
    pub(super) fn abandon_hooks(&mut self) -> impl Iterator<Item = HookTrigger> {
        self.running.drain(..)
    }
}
