//! The event loop of the main thread: receives events and sends requests to the server.
//!
//! The loop never blocks on the server. It interrupts a request that takes too long, unless the
//! request waits for the queue lock.

use std::io;
use std::time::Duration;

use super::observers::RunObservers;
use crate::event::Event;
use crate::event::address_reader::AddressReader;
use crate::event::database::DatabaseThread;
use crate::event::queue::{EventQueue, EventSender};
use crate::event::queue_reader::QueueReader;
use crate::exit::{ExitError, Status};
use crate::lease::action::Action;
use crate::lease::instant::{BootInstant, Deadline};
use crate::lease::once::Once;
use crate::lease::timing::Timing;
use crate::process::hook;
use crate::protocol::clock_jump::ClockComparison;
use crate::report::log::EventKind;
use crate::report::{Report, messages};
use crate::store::mysql::Database;
use crate::store::target::Targets;
use crate::store::{Contender, Failure, FailureKind, Request};
use crate::sys::clock;
use crate::sys::signal::{self, JobControl, SIGTSTP};

/// Maximum sleep of the loop. The timer of the sleep stops while the machine is suspended, but
/// leases continue to expire. If a deadline passes while the machine is suspended, the loop detects
/// this at most one maximum sleep after the machine resumes.
pub(in crate::commands) const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// Receives all events and sends all requests to the server.
pub(in crate::commands) struct EventLoop<'a> {
    pub(in crate::commands) report: &'a Report,
    pub(in crate::commands) action: Action,
    /// The success that makes a run unnecessary, and that a successful run must record. None
    /// without `--once`.
    pub(in crate::commands) once: Option<Once>,
    pub(in crate::commands) timing: Timing,
    events: EventQueue,
    sender: EventSender,
    pub(in crate::commands) database: DatabaseThread,
    /// Number of open requests, which are requests without a response. The database thread handles
    /// these requests one by one.
    open: u32,
    /// Time at which the database thread began to handle the oldest open request, or at which that
    /// request was last interrupted. Valid only while a request is open.
    open_since: BootInstant,
    /// True if an open request waits for the queue lock. The duration of such a wait depends on the
    /// queue, so the loop does not interrupt it.
    pub(super) is_waiting_turn: bool,
    /// Reads the queue for the reminders of a waiter.
    pub(super) queue_reader: QueueReader,
    /// Addresses of the servers.
    pub(super) servers: String,
    /// Checks that the address still leads to the server of the holder's connection.
    pub(super) address_reader: AddressReader,
    clock: ClockComparison,
    /// Whether this loop stops the process on Ctrl-Z.
    pub(in crate::commands) job_control: JobControl,
    /// Deadline of the lease under which the command runs. None while no command runs.
    pub(super) deadline: Option<Deadline>,
    /// Metrics file and hooks of the run.
    pub(in crate::commands) observers: RunObservers,
}

impl EventLoop<'_> {
    /// Creates the event loop and starts the database thread.
    pub(in crate::commands) fn open(
        report: &Report,
        timing: Timing,
        contender: Contender,
        targets: Targets,
        events: EventQueue,
        sender: EventSender,
    ) -> io::Result<EventLoop<'_>> {
        let servers = targets.to_string();
        let queue_reader =
            QueueReader::new(targets.clone(), contender.clone(), timing, sender.clone());
        let address_reader = AddressReader::new(
            targets.clone(),
            contender.clone(),
            timing,
            sender.clone(),
            clock::now(),
        );
        let database = Database::new(targets, timing.request_timeout, timing.ttl);
        Ok(EventLoop {
            report,
            observers: RunObservers::none(&contender),
            action: contender.action.clone(),
            once: contender.once.clone(),
            timing,
            events,
            database: DatabaseThread::start(database, contender, sender.clone())?,
            sender,
            open: 0,
            open_since: clock::now(),
            is_waiting_turn: false,
            queue_reader,
            servers,
            address_reader,
            clock: ClockComparison::default(),
            job_control: JobControl::Off,
            deadline: None,
        })
    }

    /// Sends a request. The response arrives as an event.
    pub(in crate::commands) fn send(&mut self, request: Request) {
        if self.open == 0 {
            self.open_since = clock::now();
        }
        self.open += 1;
        self.is_waiting_turn |= matches!(request, Request::WaitTurn(_));
        self.database.send(request);
    }

    /// Returns the failure of a request to which the server has not responded in time.
    pub(in crate::commands) fn no_response(&self) -> Failure {
        let message = format!("cannot reach {}: no response in time", self.servers);
        Failure::new(FailureKind::Unreachable, message)
    }

    /// Returns a sender of events to this loop.
    pub(super) fn events(&self) -> EventSender {
        self.sender.clone()
    }

    /// Returns true if a request is open.
    pub(super) const fn has_open_request(&self) -> bool {
        self.open > 0
    }

    /// Waits for the next event and returns it. None if no event arrives before `until`, or if none
    /// arrives during a sleep of [`LONGEST_SLEEP`]. Interrupts an open request that takes too long.
    /// The driver's own time limits apply to each system call, so they do not limit the whole request.
    pub(in crate::commands) fn event(&mut self, until: BootInstant) -> Option<Event> {
        loop {
            let now = clock::now();
            let is_limited = self.has_open_request() && !self.is_waiting_turn;
            let overdue = is_limited.then(|| self.open_since + 3 * self.timing.request_timeout);
            if overdue.is_some_and(|overdue| now >= overdue) {
                self.database.interrupt();
                self.open_since = now;
                continue;
            }
            let wake = overdue.map_or(until, |overdue| overdue.min(until));
            let sleep = wake.since(now).min(LONGEST_SLEEP);
            match self.events.next(sleep) {
                Some(Event::Response(response)) => {
                    self.open = self.open.saturating_sub(1);
                    (self.open_since, self.is_waiting_turn) = (clock::now(), false);
                    if let Some(step) = self.clock.observe(&response) {
                        let text = format_args!(
                            "the server's clock was set {step}; ages in dlock status are wrong by this amount"
                        );
                        self.report.info(EventKind::ClockStep, text);
                    }
                    return Some(Event::Response(response));
                }
                Some(Event::Connected(server)) => {
                    self.address_reader.connected(clock::now());
                    for skipped in &server.skipped {
                        self.report.debug(EventKind::HostSkipped, skipped);
                    }
                    self.report.debug(EventKind::Connected, server);
                }
                Some(Event::Signal(signal))
                    if signal.number == SIGTSTP && self.job_control == JobControl::Announced =>
                {
                    self.suspend();
                }
                Some(event) => {
                    self.observers.handle_event(self.report, &event);
                    return Some(event);
                }
                None if clock::now() >= until || sleep == LONGEST_SLEEP => return None,
                None => {}
            }
        }
    }

    /// Stops this process after Ctrl-Z. A holder first reports that it cannot renew its lease. The monitor still enforces
    /// the deadline.
    fn suspend(&self) {
        if let Some(deadline) = self.deadline {
            let left = deadline.term.since(clock::now());
            let text = messages::suspended(&self.action, left);
            self.report.info(EventKind::Suspended, text);
        }
        self.report.finish();
        signal::stop_this_process();
    }

    /// Notifies the observers that dlock ends, waits a short time for them to finish, and then
    /// kills the hooks that still run. A signal that would end this process also ends this wait.
    /// Call this method after the release.
    pub(super) fn finish_observers(&mut self, end: Result<Status, &ExitError>) {
        self.observers.finish(end);
        let notified_by = clock::now() + hook::AT_END;
        while self.observers.are_busy() && clock::now() < notified_by {
            if let Some(Event::Signal(signal)) = self.event(notified_by)
                && signal::is_fatal(signal.number)
            {
                break;
            }
        }
        self.observers.kill_hooks();
        let dead_by = clock::now() + hook::TO_DIE;
        while self.observers.are_hooks_running() && clock::now() < dead_by {
            let _ = self.event(dead_by);
        }
        for trigger in self.observers.abandon_hooks() {
            let trigger = trigger.as_str();
            let text = format_args!("--on-event for {trigger} does not die and is left behind");
            self.report.info(EventKind::HookFailed, text);
        }
    }

    /// Stops the database thread if no request is open. If a request is open, the thread may be
    /// stuck, so this method does not wait for it.
    pub(in crate::commands) fn stop(self) {
        if !self.has_open_request() {
            self.database.stop();
        }
    }
}
