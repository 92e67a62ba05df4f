//! Writes the metrics file and runs the hooks of a run. On the main thread.
//!
//! Nothing in here waits but [`Desk::conclude`], when the lease is given up and the command is dead,
//! and that not for long. What goes wrong is told and changes nothing.

use std::io;

use super::desk::Desk;
use crate::cli::observe::ObserveArgs;
use crate::event::Event;
use crate::event::queue::Teller;
use crate::exit::{Cause, Ending, Status};
use crate::hook::{self, Hook, Occasion};
use crate::lease::Token;
use crate::lease::instant::BootInstant;
use crate::metrics::writer::{Note, Writer};
use crate::metrics::{Facts, Outcome};
use crate::report::Report;
use crate::report::escape::printable;
use crate::report::log::What;
use crate::store::Contender;
use crate::sys::{clock, signal};

/// What there is to tell, and whom.
#[derive(Debug)]
pub(in crate::commands) struct News {
    facts: Facts,
    started: BootInstant,
    granted: Option<BootInstant>,
    writer: Option<Writer>,
    hook: Option<Hook>,
    /// Hooks that have not ended.
    running: Vec<Occasion>,
}

impl News {
    /// Nobody is told anything.
    pub(in crate::commands) fn to_nobody(contender: &Contender) -> Self {
        Self {
            facts: Facts::new(contender.action.clone(), contender.holder.label.clone()),
            started: clock::now(),
            granted: None,
            writer: None,
            hook: None,
            running: Vec::new(),
        }
    }

    /// From now on those are told that `observe` names.
    pub(super) fn tell(&mut self, observe: &ObserveArgs, events: &Teller) -> io::Result<()> {
        // Nobody receives events any more when the process ends.
        if let Some(file) = &observe.metrics_file {
            let events = events.clone();
            let tell = move |note| drop(events.tell(Event::Metrics(note)));
            self.writer = Some(Writer::start(file.clone(), tell)?);
        }
        if let Some(command) = &observe.on_event {
            let events = events.clone();
            let tell = move |occasion, result| drop(events.tell(Event::Hook(occasion, result)));
            self.hook = Some(Hook::new(command, tell)?);
        }
        Ok(())
    }

    /// The lease is ours, and the command is let go.
    pub(super) fn granted(&mut self, token: Token) {
        self.granted = Some(clock::now());
        self.facts.token = Some(token);
        self.facts.held = true;
        self.write();
        self.run(Occasion::Granted);
    }

    /// A renewal succeeded.
    pub(super) fn renewed(&mut self) {
        self.facts.renewals += 1;
        self.write();
    }

    /// A renewal failed.
    pub(super) fn renewal_failed(&mut self) {
        self.facts.failures += 1;
        self.write();
    }

    /// How the run ended or will end, why, and on account of whom. The first word stands: what was lost
    /// stays lost. A loss is told at once.
    pub(super) fn ended(&mut self, outcome: Outcome, reason: &str, other: &str) {
        if self.facts.outcome.is_some() {
            return;
        }
        self.facts.outcome = Some(outcome);
        // Scripts print these.
        self.facts.reason = printable(reason).into_owned();
        self.facts.other = printable(other).into_owned();
        if outcome == Outcome::Lost {
            self.facts.status = Some(Status::LOST);
            self.facts.held = false;
            self.write();
            self.run(Occasion::Lost);
        }
    }

    /// Nothing more will happen: dlock ends like this.
    fn over(&mut self, end: Result<Status, &Ending>) {
        let status = end.unwrap_or_else(|ending| {
            let (outcome, other) = match &ending.cause {
                Cause::Done(holder) => (Outcome::Done, &**holder),
                Cause::Held(holder) => (Outcome::Held, &**holder),
                Cause::Interrupted => (Outcome::Interrupted, ""),
                Cause::Failed => (Outcome::Error, ""),
            };
            self.ended(outcome, &ending.why, other);
            ending.status
        });
        self.facts.held = false;
        self.facts.status = Some(status);
        self.facts.ended_at = Some(clock::wall());
        self.write();
        match self.facts.outcome {
            // Told at the first sign of it.
            Some(Outcome::Lost) => {}
            Some(Outcome::Done | Outcome::Held) => self.run(Occasion::Skipped),
            _ if self.granted.is_some() => self.run(Occasion::Released),
            _ => {}
        }
    }

    /// Brings the facts up to date that change with time alone.
    fn measure(&mut self) {
        let now = clock::now();
        let granted = self.granted.unwrap_or(now);
        self.facts.wait = granted.since(self.started);
        self.facts.hold = now.since(granted);
    }

    fn write(&mut self) {
        self.measure();
        if let Some(writer) = &self.writer {
            writer.write(self.facts.clone());
        }
    }

    fn run(&mut self, occasion: Occasion) {
        self.measure();
        if let Some(hook) = &mut self.hook {
            self.running.push(occasion);
            hook.run(occasion, &self.facts);
        }
    }

    /// Takes in what hook and file have come to, if `event` is about them; what failed is told.
    pub(super) fn heard(&mut self, report: &Report, event: &Event) {
        match event {
            Event::Hook(occasion, result) => {
                self.running.retain(|running| running != occasion);
                if let Some(failure) = result.failure() {
                    let text = format_args!("--on-event for {} {failure}", occasion.word());
                    report.notice(What::HookFailed, text);
                }
            }
            Event::Metrics(Note::Over) => self.writer = None,
            Event::Metrics(Note::Failed(error)) => {
                let text = format_args!("cannot write the metrics: {error}");
                report.notice(What::MetricsFailed, text);
            }
            _ => {}
        }
    }
}

impl Desk<'_> {
    /// Tells how it ended and waits until that is told, though not for long, and not after a signal
    /// that would end us.
    pub(super) fn conclude(&mut self, end: Result<Status, &Ending>) {
        self.news.over(end);
        let told_by = clock::now() + hook::AT_END;
        while (self.news.writer.is_some() || !self.news.running.is_empty())
            && clock::now() < told_by
        {
            if let Some(Event::Signal(signal)) = self.event(told_by)
                && signal::is_deadly(signal.number)
            {
                break;
            }
        }
        if let Some(hook) = &mut self.news.hook {
            hook.stop();
        }
        let dead_by = clock::now() + hook::TO_DIE;
        while !self.news.running.is_empty() && clock::now() < dead_by {
            let _ = self.event(dead_by);
        }
        for occasion in self.news.running.drain(..) {
            let occasion = occasion.word();
            let text = format_args!("--on-event for {occasion} does not die and is left behind");
            self.report.notice(What::HookFailed, text);
        }
    }
}
