//! The loop of `dlock exec`: receives every event, passes it to the keeper or to the command, and carries out the steps of
//! the keeper. Runs on the main thread.
//!
//! The loop never blocks on the server, so it always handles deadlines and signals. The keeper decides everything about
//! the lease, and the command is stopped by the monitor. The loop ends when the life of the lease is over.

use std::time::Duration;

use super::exits::{monitor_gone, not_granted, not_started};
use super::observers::RunObservers;
use super::plan::ExecPlan;
use super::work::{Work, WorkEvent, still_alive};
use crate::event::Event;
use crate::event::address_reader::AddressReader;
use crate::event::event_loop::{EventLoop, LONGEST_SLEEP};
use crate::event::queue::EventSender;
use crate::event::queue_reader::{QueueReader, READ_INTERVAL};
use crate::exit::{ExitError, Status};
use crate::lease::Token;
use crate::lease::instant::BootInstant;
use crate::metrics::MetricsResult;
use crate::outcome::RunOutcome;
use crate::process::hook;
use crate::process::monitor::ParentMessage;
use crate::process::supervisor::{KILL, StopReason};
use crate::protocol::acquire::{Acquire, NotGranted};
use crate::protocol::keeper::{
    Input, Keeper, LeftSessions, Notice, PhaseKind, ReleaseEffort, SessionOwner, SessionsNotEnded,
    Step, WorkEnd,
};
use crate::protocol::release::Released;
use crate::report::clock_jump::ClockComparison;
use crate::report::lease::LeaseReport;
use crate::report::log::{EventKind, WaitFacts};
use crate::report::{Report, lost_grant, messages, waiting};
use crate::store::session::ListedSession;
use crate::store::{Failure, LockRecord, Loss, RunHistory};
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
            Event::Connected(server) => {
                for skipped in &server.skipped {
                    self.report.debug(EventKind::HostSkipped, skipped);
                }
                self.report.debug(EventKind::Connected, server);
            }
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

    /// Handles everything that the keeper reports.
    fn handle_notices(&mut self) {
        while let Some(notice) = self.keeper.notice() {
            self.handle_notice(notice);
        }
    }

    fn handle_notice(&mut self, notice: Notice) {
        let now = clock::now();
        let waited = now.since(self.keeper.started());
        match notice {
            Notice::Waiting(failure) => {
                if let Some(acquire) = self.keeper.acquire() {
                    self.texts.waiting(acquire, failure.as_ref(), waited, now);
                }
            }
            Notice::NoQueueLock => {
                let acquire = self.keeper.acquire();
                let tries_again = acquire.is_some_and(Acquire::retries_queue_lock);
                self.texts.no_queue_lock(tries_again);
            }
            Notice::Silence(limit) => self.texts.silence(limit),
            Notice::Granted(grant) => self.granted(grant.token, waited),
            Notice::NotGranted(reason) => self.not_granted(reason, waited),
            Notice::SessionsLeft => {
                if let Some(wait) = self.keeper.session_wait() {
                    self.texts.sessions_left(wait, now);
                }
            }
            Notice::SessionsEnded(owner, killed) => self.texts.sessions_ended(owner, killed),
            Notice::SessionsNotEnded { owner, why, left } => {
                self.sessions_not_ended(owner, why, left.as_deref(), waited);
            }
            Notice::Executing(sessions) => self.texts.executing(&sessions),
            Notice::Ready => self.start_work(waited),
            Notice::Renewed {
                took,
                failing_since,
                problem,
            } => {
                self.renewed();
                self.texts.renewed(took, failing_since, now);
                if let Some(problem) = problem {
                    self.texts.tracking_problem(problem);
                }
            }
            Notice::RenewalFailed { failure, is_first } => {
                self.renewal_failed();
                self.texts.renewal_failed(&failure, is_first);
            }
            Notice::GrantLost { is_first } => {
                self.renewal_failed();
                self.texts.grant_lost(is_first);
            }
            Notice::Disconnected => {
                (self.texts).delay_disconnected(now + self.plan.keeper.timing.request_timeout);
            }
            Notice::Moved { is_revoked } => {
                let has_lease = self.keeper.grant().is_some();
                self.texts.moved(is_revoked, has_lease);
            }
            Notice::Lost(loss, record) => self.lease_lost(loss, &record, now),
            Notice::Released(released) => self.released(&released),
            Notice::NotReleased(failure) => self.not_released(failure.as_ref()),
        }
    }

    fn granted(&self, token: Token, waited: Duration) {
        self.report.granted(token);
        let (action, waited) = (&self.plan.contender.action, messages::duration(waited));
        let text = format_args!("acquired {action} in {waited} (token {token})");
        let has_reminded = self.report.has_reminded();
        self.report
            .milestone(EventKind::Granted, text, has_reminded);
    }

    fn not_granted(&mut self, reason: NotGranted, waited: Duration) {
        let latest = self.queue_reader.latest();
        let no_response = || self.events.no_response();
        let error = not_granted(reason, latest, no_response, waited, self.plan.conflict());
        self.end.get_or_insert(RunEnd::NotStarted(error));
    }

    fn sessions_not_ended(
        &mut self,
        owner: SessionOwner,
        why: SessionsNotEnded,
        left: Option<&ListedSession>,
        waited: Duration,
    ) {
        match owner {
            SessionOwner::OwnWork => self.texts.sessions_not_ended(&why),
            SessionOwner::EarlierRun => {
                let error = not_started(why, left, waited, self.plan.conflict());
                self.end.get_or_insert(RunEnd::NotStarted(error));
            }
        }
    }

    /// Moves the deadline of the command, and counts the renewal in the metrics of the run.
    fn renewed(&mut self) {
        if let (true, Some(deadline)) = (self.is_working(), self.keeper.deadline()) {
            self.work.renewed(deadline);
        }
        if self.work.has_started() {
            self.observers.renewed();
        }
    }

    /// Counts a failed renewal in the metrics of the run. Before the command starts, there is no run.
    fn renewal_failed(&mut self) {
        if self.work.has_started() {
            self.observers.renewal_failed();
        }
    }

    fn start_work(&mut self, waited: Duration) {
        let (Some(deadline), Some(grant)) = (self.keeper.deadline(), self.keeper.grant()) else {
            return;
        };
        self.report.finish();
        self.work.start(deadline, grant.token, waited);
        self.observers.granted(grant.token);
    }

    fn lease_lost(&mut self, loss: Loss, record: &LockRecord, now: BootInstant) {
        self.work.stop();
        let is_early = (self.keeper.deadline()).is_some_and(|deadline| now < deadline.kill);
        let (why, other) = self.texts.loss(loss, record, is_early);
        self.lost(other, &why, "stopping");
    }

    /// Reports that the lease is lost or will be lost. `other` is the label of the new holder or of the operator who
    /// revoked the lease. None if there is no such label.
    fn lost(&mut self, other: Option<&str>, why: &str, doing: &str) {
        let text = format!("{why}; {doing} the command");
        let meta = EventKind::Lost.by(other);
        let status = RunOutcome::Lost.status();
        self.report.exit_status(meta, status, &text);
        let other = other.unwrap_or_default();
        self.observers.ended(MetricsResult::Lost, why, other);
    }

    /// Updates the outcome of the run according to the result of the release, and reports it.
    fn released(&mut self, released: &Released) {
        let Some(RunEnd::Ended(run)) = &mut self.end else {
            return;
        };
        let outcome = run.outcome.after(released);
        let until = run.keep.map(|keep| clock::wall() + keep);
        if let (Released::Recorded | Released::Unrecorded(_), Some(until)) = (released, until) {
            self.observers.stays_held(until);
        }
        let action = &self.plan.contender.action;
        match released {
            Released::Recorded => self.texts.released(until),
            Released::Unrecorded(failure) => self.texts.unrecorded(failure),
            Released::NotHolder(loss) if run.outcome != outcome => {
                run.reason = match loss {
                    Loss::Revoked => {
                        format!("{action} was released by an operator before the command had ended")
                    }
                    Loss::TakenOver => format!("{action} was lost before the command had ended"),
                    Loss::LostGrant => lost_grant::not_released(action),
                };
                let (kind, consequence) = match run.must_record {
                    true => (
                        EventKind::NotRecorded,
                        ", so its success does not count as done",
                    ),
                    false => (EventKind::NotReleased, ""),
                };
                let text = format_args!("{}{consequence}", run.reason);
                self.report.error(kind, text);
            }
            // This loss has already been reported.
            Released::NotHolder(_) => {}
        }
        run.outcome = outcome;
    }

    /// Handles a release that has failed. A success that could not be recorded does not count. Otherwise the lease ends
    /// when it expires.
    fn not_released(&mut self, failure: Option<&Failure>) {
        let Some(RunEnd::Ended(run)) = &mut self.end else {
            return;
        };
        let why = failure.map_or("no response from the server", |failure| &failure.message);
        if run.must_record {
            run.reason = String::from("its success could not be recorded");
            run.outcome = RunOutcome::Unrecorded;
            let action = &self.plan.contender.action;
            let text = format!(
                "{action} succeeded, but the success could not be recorded: {why}; it does not count as done"
            );
            let meta = EventKind::NotRecorded.into();
            self.report.exit_status(meta, run.outcome.status(), &text);
        } else if run.outcome.held_lease() {
            self.texts.not_released(why, self.plan.keeper.timing.ttl);
        }
    }

    /// Reports the present state again if this contender waits in the queue and a reminder is due. The database thread
    /// waits for the queue lock, so another thread reads the state. A reminder on a separate line waits for the end of
    /// this read, but not longer than the request timeout.
    fn report_turn(&mut self) {
        let Some(acquire) = self.keeper.acquire() else {
            return;
        };
        if !self.events.is_waiting_turn() || !self.report.is_reminder_due() {
            return;
        }
        let now = clock::now();
        let latest_state = |reader: &QueueReader| {
            let states = reader.latest().into_iter().chain(acquire.observed());
            let latest = states.max_by_key(|(_, _, read_at)| *read_at)?;
            Some((latest.0.clone(), latest.1, latest.2))
        };
        let is_rewritten = self.report.rewrites_reminders();
        let Some((record, ahead, read_at)) = latest_state(&self.queue_reader) else {
            return;
        };
        if now.since(read_at) >= READ_INTERVAL {
            self.queue_reader.start(acquire.queue_entry(), ahead, now);
        }
        if !is_rewritten && self.queue_reader.is_awaited() {
            return;
        }
        let waited = now.since(acquire.started());
        let (current_for, describe): (_, fn(_, _, _, _, _) -> _) = match is_rewritten {
            // The state on a terminal is read again while it is displayed.
            true => (2 * READ_INTERVAL, waiting::waiting_line),
            false => (READ_INTERVAL, waiting::still_waiting),
        };
        let age = Some(now.since(read_at)).filter(|age| *age >= current_for);
        let text = describe(&self.plan.contender.action, &record, ahead, waited, age);
        // The lease of an outdated record may have been renewed.
        let leased = Some(&record).filter(|_| age.is_none());
        let facts = WaitFacts::new(waited, Some(ahead), leased);
        let meta = EventKind::Waiting.by(messages::whose(&record));
        self.report.remind(meta.waiting(facts), text);
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
