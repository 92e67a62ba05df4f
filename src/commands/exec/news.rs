//! What others than the user are told of a run: metrics in a file, and hooks.
//!
//! Nothing in here waits but [`Desk::conclude`], when the lease is given up and the command is dead,
//! and that not for long. What goes wrong is told and changes nothing.

use std::io;
use std::path::PathBuf;

use super::desk::Desk;
use crate::event::Event;
use crate::event::queue::Teller;
use crate::exit::{Cause, Ending, Status};
use crate::hook::{self, Facts, Hook, HookResult, Occasion};
use crate::lease::Token;
use crate::lease::action::Action;
use crate::lease::instant::BootInstant;
use crate::metrics::writer::{self, Note, Writer};
use crate::metrics::{End, Metrics, Outcome};
use crate::report::escape::printable;
use crate::report::log::What;
use crate::report::{Report, words};
use crate::sys::process::Unstartable;
use crate::sys::tree;
use crate::sys::{clock, signal};

/// How a run ended, as far as it had begun.
#[derive(Debug)]
struct Verdict {
    outcome: Outcome,
    reason: String,
    /// The other who has it, has done it or has taken it.
    other: String,
}

/// What has been told, and to whom there is to tell.
#[derive(Debug)]
pub(in crate::commands) struct News {
    holder: String,
    started: BootInstant,
    granted: Option<BootInstant>,
    metrics: Metrics,
    verdict: Option<Verdict>,
    /// Whether it has been told that the lease is lost.
    is_lost: bool,
    writer: Option<Writer>,
    hook: Option<Hook>,
    /// Hooks that have not ended.
    running: Vec<Occasion>,
}

impl News {
    /// Nobody is told anything.
    pub(in crate::commands) fn to_nobody(action: Action) -> Self {
        Self {
            holder: String::new(),
            started: clock::now(),
            granted: None,
            metrics: Metrics::new(action),
            verdict: None,
            is_lost: false,
            writer: None,
            hook: None,
            running: Vec::new(),
        }
    }

    /// From now on `hook` is run for `holder`, and metrics are kept in `file`.
    pub(super) fn tell(
        &mut self,
        holder: String,
        file: Option<PathBuf>,
        hook: Option<String>,
        events: &Teller,
    ) -> io::Result<()> {
        // Nobody receives events any more when the process ends.
        if let Some(file) = file {
            let events = events.clone();
            let tell = move |note| drop(events.tell(Event::Metrics(note)));
            self.writer = Some(Writer::start(file, tell)?);
        }
        if let Some(command) = hook {
            let events = events.clone();
            let tell = move |occasion, result| drop(events.tell(Event::Hook(occasion, result)));
            self.hook = Some(Hook::new(&command, tell)?);
        }
        self.holder = holder;
        Ok(())
    }

    /// The lease is ours, and the command is let go.
    pub(super) fn granted(&mut self, token: Token) {
        self.granted = Some(clock::now());
        self.metrics.token = Some(token);
        self.metrics.held = true;
        self.write();
        self.run(Occasion::Granted, None);
    }

    /// A renewal succeeded.
    pub(super) fn renewed(&mut self) {
        self.metrics.renewals += 1;
        self.write();
    }

    /// A renewal failed.
    pub(super) fn renewal_failed(&mut self) {
        self.metrics.failures += 1;
        self.write();
    }

    /// The lease is not ours any more, or not for long: the command is being stopped. Told once, at
    /// the first sign.
    pub(super) fn lost(&mut self, other: &str, reason: &str) {
        if !self.is_lost {
            self.is_lost = true;
            self.metrics.held = false;
            self.verdict = Some(Verdict {
                outcome: Outcome::Lost,
                reason: reason.to_owned(),
                other: other.to_owned(),
            });
            self.write();
            self.run(Occasion::Lost, Some(Status::LOST));
        }
    }

    /// The command has ended and the lease is given up; what was lost before stays so.
    pub(super) fn ended(&mut self, outcome: Outcome, reason: &str) {
        if !self.is_lost {
            self.verdict = Some(Verdict {
                outcome,
                reason: reason.to_owned(),
                other: String::new(),
            });
        }
    }

    /// Nothing more will happen: dlock ends like this.
    fn over(&mut self, end: Result<Status, &Ending>) {
        let status = match end {
            Ok(status) => status,
            Err(ending) => {
                self.verdict.get_or_insert_with(|| never_run(ending));
                ending.status
            }
        };
        let outcome = self
            .verdict
            .as_ref()
            .map_or(Outcome::Error, |it| it.outcome);
        self.metrics.held = false;
        self.metrics.end = Some(End {
            outcome,
            status,
            at: clock::wall(),
        });
        let metrics = self.measured();
        if let Some(writer) = &self.writer {
            writer.write_last(metrics);
        }
        match outcome {
            Outcome::Lost if self.is_lost => {}
            Outcome::Lost => self.run(Occasion::Lost, Some(status)),
            Outcome::Done | Outcome::Held => self.run(Occasion::Skipped, Some(status)),
            _ if self.granted.is_some() => self.run(Occasion::Released, Some(status)),
            _ => {}
        }
    }

    /// The metrics as of now.
    fn measured(&mut self) -> Metrics {
        let now = clock::now();
        self.metrics.wait = self.granted.unwrap_or(now).since(self.started);
        self.metrics.hold = now.since(self.granted.unwrap_or(now));
        self.metrics.clone()
    }

    fn write(&mut self) {
        if self.writer.is_some() {
            let metrics = self.measured();
            self.writer
                .iter()
                .for_each(|writer| writer.write(metrics.clone()));
        }
    }

    fn run(&mut self, occasion: Occasion, status: Option<Status>) {
        let Metrics { wait, hold, .. } = self.measured();
        let Some(hook) = &mut self.hook else {
            return;
        };
        let text = |text: fn(&Verdict) -> &str| self.verdict.as_ref().map(text).unwrap_or_default();
        self.running.push(occasion);
        hook.run(&Facts {
            occasion,
            action: self.metrics.action.as_str(),
            token: self.metrics.token,
            holder: &self.holder,
            // Scripts print these.
            other: &printable(text(|verdict| &verdict.other)),
            result: text(|verdict| verdict.outcome.word()),
            status: status.map(Status::code),
            reason: &printable(text(|verdict| &verdict.reason)),
            waited: wait,
            held: hold,
        });
    }

    /// Takes in what hook and file have come to, if `event` is about them; what failed is told.
    pub(super) fn heard(&mut self, report: &Report, event: &Event) {
        match event {
            Event::Hook(occasion, result) => self.hooked(report, *occasion, *result),
            Event::Metrics(Note::Over) => self.writer = None,
            Event::Metrics(Note::Failed(error)) => {
                let text = format_args!("cannot write the metrics: {error}");
                report.notice(What::MetricsFailed, text);
            }
            _ => {}
        }
    }

    fn hooked(&mut self, report: &Report, occasion: Occasion, result: HookResult) {
        self.running.retain(|running| *running != occasion);
        let text = match result {
            HookResult::Ended(tree::End::Exited(0)) => return,
            HookResult::Ended(tree::End::Exited(status)) => format!("exited with {status}"),
            HookResult::Ended(tree::End::Killed(signal)) => {
                format!("was killed by signal {signal}")
            }
            HookResult::TimedOut => {
                let limit = words::duration(hook::LIMIT);
                format!("took more than {limit} and was killed")
            }
            HookResult::Stopped => "had not ended when dlock did and was killed".to_owned(),
            HookResult::Unstartable(errno) => match Unstartable::from_errno(errno) {
                Unstartable::NotFound => "cannot be run: no such command".to_owned(),
                Unstartable::NotExecutable(error) => format!("cannot be run: {error}"),
            },
        };
        let occasion = occasion.word();
        let text = format_args!("--on-event for {occasion} {text}");
        report.notice(What::HookFailed, text);
    }
}

/// What is to be said of a run that never began.
fn never_run(why: &Ending) -> Verdict {
    let (outcome, other) = match &why.cause {
        Cause::Done(holder) => (Outcome::Done, holder.clone()),
        Cause::Held(holder) => (Outcome::Held, holder.clone()),
        Cause::Interrupted => (Outcome::Interrupted, String::new()),
        Cause::Failed => (Outcome::Error, String::new()),
    };
    Verdict {
        outcome,
        reason: why.why.clone(),
        other,
    }
}

impl Desk<'_> {
    /// Tells how it ended and waits until that is told, though not for long, and not after a signal
    /// that would end us.
    pub(super) fn conclude(&mut self, end: Result<Status, &Ending>) {
        self.news.over(end);
        let now = clock::now();
        self.wait_until_told(now + hook::AT_END, now + writer::PATIENCE);
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

    fn wait_until_told(&mut self, told_by: BootInstant, written_by: BootInstant) {
        loop {
            let now = clock::now();
            let running = !self.news.running.is_empty();
            let told = running.then_some(told_by).filter(|until| now < *until);
            let writing = self.news.writer.is_some();
            let written = writing.then_some(written_by).filter(|until| now < *until);
            let Some(until) = told.max(written) else {
                return;
            };
            if let Some(Event::Signal(signal)) = self.event(until)
                && signal::is_deadly(signal.number)
            {
                return;
            }
        }
    }
}
