//! The loop of `dlock exec`: receives every event, passes it to a keeper or to the command, and carries out the steps of
//! the keepers. Runs on the main thread.
//!
//! The loop never blocks on the server, so it always handles deadlines and signals. The keepers decide everything about the
//! leases, and the command is stopped by the monitor. The command is stopped when one of the leases is lost. The loop ends
//! when the life of each lease is over.

mod notices;
mod reminders;
mod started;

use std::time::Duration;

use self::started::Started;
use super::exits::monitor_gone;
use super::observers::RunObservers;
use super::plan::RunPlan;
use super::run_lease::RunLease;
use super::work::{Work, WorkEvent};
use crate::event::event_loop::{EventLoop, LONGEST_SLEEP};
use crate::event::{Event, LeaseEvent};
use crate::exit::{ExitError, Status};
use crate::lease::instant::BootInstant;
use crate::outcome::RunOutcome;
use crate::process::hook;
use crate::process::monitor::ParentMessage;
use crate::process::supervisor::{KILL, StopReason};
use crate::protocol::keeper::{Input, Keeper, LeftSessions, ReleaseEffort, Step, WorkEnd};
use crate::protocol::keepers::Keepers;
use crate::report::log::EventKind;
use crate::report::{Report, messages};
use crate::store::RunHistory;
use crate::store::target::Targets;
use crate::sys::clock;
use crate::sys::signal::{self, JobControl, SIGTSTP, SIGWINCH, Signal};
use crate::sys::tree::ExitReason;

/// Drives the keepers of a run and its work.
pub(in crate::commands) struct Driver<'a> {
    pub(super) plan: &'a RunPlan,
    pub(super) report: &'a Report,
    pub(in crate::commands) events: EventLoop,
    pub(super) keepers: Keepers,
    pub(super) targets: Targets,
    /// The readers, the texts and the clock of each lease that was granted or is awaited.
    pub(super) leases: Vec<RunLease<'a>>,
    pub(super) work: Box<dyn Work + 'a>,
    /// The state of the work. None before its start.
    pub(super) started: Option<Started>,
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
    /// False if the release of a lease has failed.
    is_released: bool,
}

impl Driver<'_> {
    /// Runs until the life of each lease is over. Returns the exit status, or an error that the caller prints as its last
    /// message.
    pub(super) fn run(&mut self) -> Result<Status, ExitError> {
        while let Some(wake) = self.step() {
            let started = clock::now();
            let event = self.receive(wake);
            if let Some(work) = &mut self.started {
                work.slept(clock::now().since(started));
            }
            self.handle(event);
            if self.work.kill_orphans() {
                // The monitor is dead, so this process has killed the tree.
                self.work_ended(ExitReason::Killed(KILL), StopReason::MonitorDied);
            }
        }
        let is_released = match &self.end {
            Some(RunEnd::Ended(run)) => run.is_released && run.outcome.held_lease(),
            _ => false,
        };
        let status_of_release = self.work.over(is_released);
        match self.end.take() {
            Some(RunEnd::NotStarted(error)) => Err(error),
            Some(RunEnd::Ended(run)) => {
                let (outcome, status) = (run.outcome, run.outcome.status());
                self.observers.ended(outcome.result(), &run.reason, "");
                match outcome {
                    RunOutcome::NeverRan(_) | RunOutcome::LeftBehind => {
                        Err(ExitError::new(status, run.reason))
                    }
                    RunOutcome::Exited(_) => Ok(status_of_release.unwrap_or(status)),
                    // If a lease is known to be lost, it is not in doubt whether it was released.
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
            let (lease, step) = self.keepers.poll(now);
            self.handle_notices();
            match step {
                Step::Send(request) => self.events.database_mut(lease).send(request),
                Step::Interrupt => self.events.database(lease).interrupt(),
                Step::Reconnect => self.events.database(lease).reconnect(),
                Step::ReadAddress(expected) => self.leases[lease].address_reader.start(expected),
                Step::Over => return None,
                Step::Wait(_) if self.has_live_process() => return None,
                Step::Wait(until) => return Some(self.wake(now, until)),
            }
        }
    }

    /// Handles what is due for the command and for the reports. Returns the instant at which something is due next, at
    /// `until` at the latest.
    fn wake(&mut self, now: BootInstant, until: Option<BootInstant>) -> BootInstant {
        let mut timers = Vec::from_iter(until);
        for lease in &mut self.leases {
            if (lease.texts.disconnected_at()).is_some_and(|at| now >= at) {
                lease.texts.disconnected();
            }
            timers.extend(lease.texts.disconnected_at());
        }
        if self.is_working() {
            let interrupter = self.events.database(0).interrupter();
            self.work
                .watch_if_due(now, interrupter, self.events.sender());
            if let Some(deadline) = self.keepers.deadline() {
                timers.extend(self.work.timers(deadline));
            }
        }
        let timers = timers.into_iter().filter(|at| *at > now);
        timers.min().unwrap_or(now + LONGEST_SLEEP)
    }

    /// Returns true from the start of the command until its end.
    fn is_working(&self) -> bool {
        self.started.is_some() && !matches!(self.end, Some(RunEnd::Ended(_)))
    }

    /// Waits for the next event until `until`, and handles what does not depend on the phase of the lease.
    fn receive(&mut self, until: BootInstant) -> Option<Event> {
        let event = self.events.next(until)?;
        self.observers.handle_event(self.report, &event);
        match &event {
            Event::Lease(lease, LeaseEvent::Response(response)) => {
                if let Some(step) = self.leases[*lease].clock.observe(response) {
                    let text = format_args!(
                        "the server's clock was set {step}; ages in dlock status are wrong by this amount"
                    );
                    self.report.info(EventKind::ClockStep, text);
                }
            }
            Event::Lease(_, LeaseEvent::Connected(server)) => self.report.connected(server),
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
        if let (true, Some(deadline)) = (self.is_working(), self.keepers.deadline()) {
            let left = deadline.term.since(clock::now());
            let text = messages::suspended(&self.plan.names, left);
            self.report.info(EventKind::Suspended, text);
        }
        self.report.finish_before_stop();
        signal::stop_this_process();
    }

    fn handle(&mut self, event: Option<Event>) {
        let now = clock::now();
        match event {
            Some(Event::Lease(lease, event)) => self.lease_event(lease, event),
            Some(Event::Signal(signal)) => self.signal(signal),
            Some(Event::Monitor(message)) => self.monitor_message(message),
            Some(Event::Connections(connections)) => {
                self.keepers
                    .handle_all(now, || Input::Connections(connections.clone()));
            }
            Some(Event::Heartbeat) => {
                self.heartbeat_checked(None);
                self.keepers.handle_all(now, || Input::Heartbeat);
            }
            Some(Event::InputEnded(input)) if self.is_working() => {
                let event = self.work.input_ended(input);
                self.work_event(event);
            }
            Some(Event::InputEnded(input)) if self.end.is_none() => {
                let why = format!("{input} ended before {} was held", self.plan.names);
                self.give_up(ExitError::new(Status::HELD, why));
            }
            Some(Event::StateFile(error)) => {
                let text = format_args!("cannot write the state file: {error}");
                self.report.info(EventKind::Message, text);
            }
            Some(Event::HeartbeatUnreadable(errno)) => self.heartbeat_checked(Some(errno)),
            Some(Event::InputEnded(_) | Event::Hook(..) | Event::Metrics(_)) => {}
            None => {
                self.report_turn();
                if let (true, Some(deadline)) = (self.is_working(), self.keepers.deadline()) {
                    let event = self.work.enforce(deadline);
                    self.work_event(event);
                }
            }
        }
        self.handle_notices();
    }

    fn lease_event(&mut self, number: usize, event: LeaseEvent) {
        let now = clock::now();
        let lease = &mut self.leases[number];
        match event {
            LeaseEvent::Response(response) => {
                lease.queue_reader.observe(&response);
                self.keepers.handle(now, number, Input::Response(response));
            }
            LeaseEvent::Connected(_) => self.keepers.handle(now, number, Input::Connected),
            LeaseEvent::Disconnected => self.keepers.handle(now, number, Input::Disconnected),
            LeaseEvent::AddressRead(record) => {
                lease.address_reader.finish();
                let input = Input::AddressRead(record.as_deref());
                self.keepers.handle(now, number, input);
            }
            LeaseEvent::QueueRead(response) => {
                self.keepers
                    .handle(now, number, Input::QueueRead(&response));
                lease.queue_reader.finish(*response);
                self.report_turn();
            }
        }
    }

    /// Handles a signal: the command gets it while it runs. Before and after that, it ends the wait.
    fn signal(&mut self, signal: Signal) {
        if self.is_working() {
            let event = self.work.signal(signal);
            self.work_event(event);
        } else if signal::is_fatal(signal.number) {
            self.give_up(ExitError::interrupted(signal.number, &self.plan.names));
        } else if signal.number == SIGWINCH && self.started.is_none() {
            self.report.resized();
            self.report_turn();
        }
    }

    /// Gives up the leases. `error` is the reason if the command has not started.
    fn give_up(&mut self, error: ExitError) {
        self.end.get_or_insert(RunEnd::NotStarted(error));
        self.keepers.handle_all(clock::now(), || Input::GiveUp);
    }

    fn monitor_message(&mut self, message: ParentMessage) {
        if self.started.is_none() {
            if let ParentMessage::Gone(end) = message {
                self.give_up(monitor_gone(end));
            }
            return;
        }
        if !self.is_working() {
            return;
        }
        let event = self.work.handle_message(message);
        self.work_event(event);
    }

    fn work_event(&mut self, event: WorkEvent) {
        match event {
            WorkEvent::None => {}
            WorkEvent::Expired => self.expired(),
            WorkEvent::MonitorDied(end) => {
                let why = format!("the monitor of {} {end}", self.plan.names);
                self.lost(None, &why, "killing");
            }
            WorkEvent::Ended(end, stop_reason) => self.work_ended(end, stop_reason),
            WorkEvent::NeverRan(outcome, why) => self.ended(outcome, None, why),
            WorkEvent::LeftBehind(why) => self.ended(RunOutcome::LeftBehind, None, why),
        }
    }

    /// Reports that the monitor stops the command, because the lease with the earliest deadline could not be renewed.
    fn expired(&mut self) {
        let leases = self.leases.iter_mut().zip(self.keepers.each());
        let Some((lease, keeper)) = leases.min_by_key(|(_, keeper)| keeper.deadline()) else {
            return;
        };
        lease.texts.disconnected();
        let file = self.plan.heartbeat_file.as_deref();
        let why = (self.started.as_ref()).map(|work| work.why_not_renewed(keeper, file));
        let why = why.unwrap_or_default();
        let why = format!("cannot keep {}: {why}", lease.contender.action);
        self.lost(None, &why, "stopping");
    }

    /// Handles the end of the command, whose process tree is dead.
    fn work_ended(&mut self, end: ExitReason, stop_reason: StopReason) {
        let reason = self.work.reason(end, stop_reason);
        let loss = self.keepers.each().iter().find_map(Keeper::loss);
        let outcome = RunOutcome::of(end, stop_reason, loss);
        self.ended(outcome, loss.map(|_| end), reason);
    }

    /// Records how the run has ended, and lets the keepers release the leases, unless a process of the command is alive.
    /// `stopped` is how the command has ended if it was stopped because a lease is lost.
    fn ended(&mut self, outcome: RunOutcome, stopped: Option<ExitReason>, reason: String) {
        let processes = self.work.killed().unwrap_or(0);
        let facts = self.started.as_ref();
        let facts = facts.map(|work| work.facts(clock::now(), processes));
        let facts = facts.unwrap_or_default();
        let has_succeeded = outcome == RunOutcome::Exited(0);
        let must_record = has_succeeded && self.plan.first().once.is_some();
        let mut run = EndedRun {
            outcome,
            reason,
            keep: None,
            must_record,
            is_released: true,
        };
        let effort = match must_record {
            true => ReleaseEffort::Persistent,
            false => ReleaseEffort::Brief {
                may_hand_off: self.plan.first().once.is_none(),
            },
        };
        let sessions = match has_succeeded && self.work.keeps_sessions() {
            false => LeftSessions::End,
            true if self.report.is_verbose() => LeftSessions::Look,
            true => LeftSessions::Keep,
        };
        for lease in (0..self.leases.len()).rev() {
            let keeper = &self.keepers.each()[lease];
            let Some(grant) = keeper.grant() else {
                continue;
            };
            let outcome = match (stopped, keeper.loss()) {
                (Some(end), None) => RunOutcome::OtherLost(end),
                (Some(_), Some(loss)) => RunOutcome::from(loss),
                (None, _) => outcome,
            };
            let mut release = outcome.request(grant, facts, self.plan.min_hold);
            if self.plan.first().history == 0 {
                release.history = RunHistory::Skipped;
            }
            run.keep = run.keep.max(release.keep);
            let end = WorkEnd {
                release,
                took: facts.took,
                sessions,
                effort,
            };
            if run.outcome != RunOutcome::LeftBehind {
                let input = Input::WorkEnded(end);
                self.keepers.handle(clock::now(), lease, input);
            }
        }
        self.end = Some(RunEnd::Ended(run));
    }

    fn heartbeat_checked(&mut self, errno: Option<i32>) {
        if let Some(work) = &mut self.started {
            work.heartbeat_checked(errno);
        }
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
            let text = format_args!(
                "--on-event for {trigger} was still running when dlock ended and was killed, but is not dead yet"
            );
            self.report.info(EventKind::HookFailed, text);
        }
    }

    /// Ends the threads and the monitor.
    pub(super) fn stop(self) {
        self.events.stop();
        self.work.end();
    }
}
