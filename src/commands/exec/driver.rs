//! The loop of `dlock exec`: receives every event, passes it to the keeper or to the command, and carries out the steps of
//! the keeper. Runs on the main thread.
//!
//! The loop never blocks on the server, so it always handles deadlines and signals. The keeper decides everything about
//! the lease, and the command is stopped by the monitor. The loop ends when the life of the lease is over.

mod notices;
mod reminders;

use std::time::Duration;

use super::exits::monitor_gone;
use super::observers::RunObservers;
use super::plan::ExecPlan;
use super::work::{Work, WorkEvent, still_alive};
use crate::event::Event;
use crate::event::address_reader::AddressReader;
use crate::event::event_loop::{EventLoop, LONGEST_SLEEP};
use crate::event::queue::EventSender;
use crate::event::queue_reader::QueueReader;
use crate::exit::{ExitError, Status};
use crate::lease::instant::BootInstant;
use crate::outcome::RunOutcome;
use crate::process::hook;
use crate::process::monitor::ParentMessage;
use crate::process::supervisor::{KILL, StopReason};
use crate::protocol::keeper::{
    Input, Keeper, LeftSessions, PhaseKind, ReleaseEffort, Step, WorkEnd,
};
use crate::report::clock_jump::ClockComparison;
use crate::report::lease::LeaseReport;
use crate::report::log::EventKind;
use crate::report::{Report, messages};
use crate::store::RunHistory;
use crate::sys::clock;
use crate::sys::signal::{self, JobControl, SIGTSTP, SIGWINCH, Signal};
use crate::sys::tree::ExitReason;

/// Drives one keeper and one command.
pub(super) struct Driver<'a> {
    pub(super) plan: &'a ExecPlan,
    pub(super) report: &'a Report,
    pub(super) texts: LeaseReport<'a>,
    pub(super) events: EventLoop,
    pub(super) sender: EventSender,
    pub(super) keeper: Keeper,
    pub(super) work: Work<'a>,
    /// Reads the queue for the reminders of a waiter.
    pub(super) queue_reader: QueueReader,
    /// Checks that the address still leads to the server of the holder's connection.
    pub(super) address_reader: AddressReader,
    pub(super) clock: ClockComparison,
    /// Metrics file and hooks of the run.
    pub(super) observers: RunObservers,
    /// How the run will end. None until that is known.
    pub(super) end: Option<RunEnd>,
}

/// How a run ends.
pub(super) enum RunEnd {
    /// The command does not start.
    NotStarted(ExitError),
    /// The command has ended.
    Ended(EndedRun),
}

/// A command that has ended.
pub(super) struct EndedRun {
    outcome: RunOutcome,
    /// One line that explains the outcome to users.
    reason: String,
    /// How long the lease stays held after the release. None if it does not.
    keep: Option<Duration>,
    /// True if other processes rely on the record of this success.
    must_record: bool,
}

impl Driver<'_> {
    /// Runs until the life of the lease is over. Returns the exit status, or an error that the caller prints as its last
    /// message.
    pub(super) fn run(&mut self) -> Result<Status, ExitError> {
        while let Some(wake) = self.step() {
            let started = clock::now();
            let event = self.receive(wake);
            self.work.slept(clock::now().since(started));
            self.handle(event);
            if self.work.kill_orphans() {
                // The monitor is dead, so this process has killed the tree.
                self.work_ended(ExitReason::Killed(KILL), StopReason::MonitorDied);
            }
        }
        match self.end.take() {
            Some(RunEnd::NotStarted(error)) => Err(error),
            Some(RunEnd::Ended(run)) => {
                let (outcome, status) = (run.outcome, run.outcome.status());
                self.observers.ended(outcome.result(), &run.reason, "");
                match outcome {
                    RunOutcome::NeverRan(_) | RunOutcome::LeftBehind => {
                        Err(ExitError::new(status, run.reason))
                    }
                    _ => Ok(status),
                }
            }
            None => Err(ExitError::new(Status::INTERNAL, "the run has no end")),
        }
    }

    /// Carries out everything that is due. Returns the instant at which something is due next. None if nothing is left to
    /// do.
    fn step(&mut self) -> Option<BootInstant> {
        loop {
            let now = clock::now();
            let step = self.keeper.poll(now);
            self.handle_notices();
            match step {
                Step::Send(request) => self.events.send(request),
                Step::Interrupt => self.events.interrupt(),
                Step::Reconnect => self.events.reconnect(),
                Step::ReadAddress(expected) => self.address_reader.start(expected),
                Step::Over => return None,
                Step::Wait(_) if self.has_live_process() => return None,
                Step::Wait(until) => return Some(self.wake(now, until)),
            }
        }
    }

    /// Handles what is due for the command and for the reports. Returns the instant at which something is due next, at
    /// `until` at the latest.
    fn wake(&mut self, now: BootInstant, until: Option<BootInstant>) -> BootInstant {
        if (self.texts.disconnected_at()).is_some_and(|at| now >= at) {
            self.texts.disconnected();
        }
        let disconnected_at = self.texts.disconnected_at();
        let mut timers: Vec<BootInstant> = until.into_iter().chain(disconnected_at).collect();
        if self.is_working() {
            let interrupter = self.events.interrupter();
            self.work.watch_if_due(now, interrupter, &self.sender);
            let deadline = self.keeper.deadline();
            timers.extend(
                deadline
                    .into_iter()
                    .flat_map(|deadline| self.work.timers(deadline)),
            );
        }
        let timers = timers.into_iter().filter(|at| *at > now);
        timers.min().unwrap_or(now + LONGEST_SLEEP)
    }

    /// Returns true from the start of the command until its end.
    fn is_working(&self) -> bool {
        self.keeper.phase() == PhaseKind::Held && self.work.has_started()
    }

    /// Waits for the next event until `until`, and handles what does not depend on the phase of the lease.
    fn receive(&mut self, until: BootInstant) -> Option<Event> {
        let event = self.events.next(until)?;
        self.observers.handle_event(self.report, &event);
        match &event {
            Event::Response(response) => {
                if let Some(step) = self.clock.observe(response) {
                    let text = format_args!(
                        "the server's clock was set {step}; ages in dlock status are wrong by this amount"
                    );
                    self.report.info(EventKind::ClockStep, text);
                }
            }
            Event::Connected(server) => self.report.connected(server),
            Event::Signal(signal)
                if signal.number == SIGTSTP && self.plan.job_control == JobControl::Announced =>
            {
                self.suspend();
                return None;
            }
            _ => {}
        }
        Some(event)
    }

    /// Stops this process after Ctrl-Z. A holder first reports that it cannot renew its lease. The monitor still enforces
    /// the deadline.
    fn suspend(&self) {
        if let (true, Some(deadline)) = (self.is_working(), self.keeper.deadline()) {
            let left = deadline.term.since(clock::now());
            let text = messages::suspended(&self.plan.contender.action, left);
            self.report.info(EventKind::Suspended, text);
        }
        self.report.finish();
        signal::stop_this_process();
    }

    fn handle(&mut self, event: Option<Event>) {
        let now = clock::now();
        match event {
            Some(Event::Signal(signal)) => self.signal(signal),
            Some(Event::Monitor(message)) => self.monitor_message(message),
            Some(Event::Response(response)) => {
                self.queue_reader.observe(&response);
                self.keeper.handle(now, Input::Response(response));
            }
            Some(Event::Connected(_)) => self.keeper.handle(now, Input::Connected),
            Some(Event::Disconnected) => self.keeper.handle(now, Input::Disconnected),
            Some(Event::Connections(connections)) => {
                self.keeper.handle(now, Input::Connections(connections));
            }
            Some(Event::AddressRead(record)) => {
                self.address_reader.finish();
                self.keeper
                    .handle(now, Input::AddressRead(record.as_deref()));
            }
            Some(Event::QueueRead(response)) => {
                self.keeper.handle(now, Input::QueueRead(&response));
                self.queue_reader.finish(*response);
                self.report_turn();
            }
            Some(Event::Heartbeat) => {
                self.work.heartbeat_error = None;
                self.keeper.handle(now, Input::Heartbeat);
            }
            Some(Event::HeartbeatUnreadable(errno)) => self.work.heartbeat_error = Some(errno),
            Some(Event::Hook(..) | Event::Metrics(_)) => {}
            None => {
                self.report_turn();
                if let (true, Some(deadline)) = (self.is_working(), self.keeper.deadline()) {
                    self.work.enforce(deadline);
                }
            }
        }
        self.handle_notices();
    }

    /// Handles a signal: the command gets it while it runs. Before and after that, it ends the wait.
    fn signal(&mut self, signal: Signal) {
        if self.is_working() {
            if let Some(pid) = self.work.signal(signal) {
                self.ended(RunOutcome::LeftBehind, still_alive(pid, self.plan));
            }
        } else if signal::is_fatal(signal.number) {
            let action = &self.plan.contender.action;
            self.give_up(ExitError::interrupted(signal.number, action));
        } else if signal.number == SIGWINCH && self.keeper.phase() == PhaseKind::Acquiring {
            self.report.resized();
            self.report_turn();
        }
    }

    /// Gives up the lease. `error` is the reason if the command has not started.
    fn give_up(&mut self, error: ExitError) {
        self.end.get_or_insert(RunEnd::NotStarted(error));
        self.keeper.handle(clock::now(), Input::GiveUp);
    }

    fn monitor_message(&mut self, message: ParentMessage) {
        if !self.work.has_started() {
            if let ParentMessage::Gone(end) = message {
                self.give_up(monitor_gone(end));
            }
            return;
        }
        if !self.is_working() {
            return;
        }
        let action = &self.plan.contender.action;
        match self.work.handle_message(message) {
            WorkEvent::None => {}
            WorkEvent::Expired => {
                self.texts.disconnected();
                let why = self.work.why_not_renewed(&self.keeper);
                self.lost(None, &format!("cannot keep {action}: {why}"), "stopping");
            }
            WorkEvent::MonitorDied(end) => {
                self.lost(None, &format!("the monitor of {action} {end}"), "killing");
            }
            WorkEvent::Ended(end, stop_reason) => self.work_ended(end, stop_reason),
            WorkEvent::NeverRan(outcome, why) => self.ended(outcome, why),
        }
    }

    /// Handles the end of the command, whose process tree is dead.
    fn work_ended(&mut self, end: ExitReason, stop_reason: StopReason) {
        let reason = self.work.reason(end, stop_reason);
        let outcome = RunOutcome::of(end, stop_reason, self.keeper.loss());
        self.ended(outcome, reason);
    }

    /// Records how the run has ended, and lets the keeper release the lease, unless a process of the command is alive.
    fn ended(&mut self, outcome: RunOutcome, reason: String) {
        let Some(grant) = self.keeper.grant() else {
            return;
        };
        let facts = self.work.facts();
        let mut release = outcome.request(grant, facts, self.plan.min_hold);
        if self.plan.contender.history == 0 {
            release.history = RunHistory::Skipped;
        }
        let has_succeeded = outcome == RunOutcome::Exited(0);
        let effort = match self.plan.contender.once {
            Some(_) if has_succeeded => ReleaseEffort::Persistent,
            _ => ReleaseEffort::Brief {
                may_hand_off: self.plan.contender.once.is_none(),
            },
        };
        self.end = Some(RunEnd::Ended(EndedRun {
            outcome,
            reason,
            keep: release.keep,
            must_record: effort == ReleaseEffort::Persistent,
        }));
        if outcome == RunOutcome::LeftBehind {
            return;
        }
        let sessions = match has_succeeded && !self.work.was_killed() {
            false => LeftSessions::End,
            true if self.report.is_verbose() => LeftSessions::Look,
            true => LeftSessions::Keep,
        };
        let end = WorkEnd {
            release,
            took: facts.took,
            sessions,
            effort,
        };
        self.keeper.handle(clock::now(), Input::WorkEnded(end));
    }

    fn has_live_process(&self) -> bool {
        let Some(RunEnd::Ended(run)) = &self.end else {
            return false;
        };
        run.outcome == RunOutcome::LeftBehind
    }

    /// Notifies the observers that dlock ends, waits a short time for them to finish, and then
    /// kills the hooks that still run. A signal that would end this process also ends this wait.
    /// Call this method after the release.
    pub(super) fn finish_observers(&mut self, end: Result<Status, &ExitError>) {
        self.observers.finish(end);
        let notified_by = clock::now() + hook::AT_END;
        while self.observers.are_busy() && clock::now() < notified_by {
            if let Some(Event::Signal(signal)) = self.receive(notified_by)
                && signal::is_fatal(signal.number)
            {
                break;
            }
        }
        self.observers.kill_hooks();
        let dead_by = clock::now() + hook::TO_DIE;
        while self.observers.are_hooks_running() && clock::now() < dead_by {
            let _ = self.receive(dead_by);
        }
        for trigger in self.observers.abandon_hooks() {
            let trigger = trigger.as_str();
            let text = format_args!("--on-event for {trigger} does not die and is left behind");
            self.report.info(EventKind::HookFailed, text);
        }
    }

    /// Ends the threads and the monitor.
    pub(super) fn stop(self) {
        self.events.stop();
        self.work.end();
    }
}
