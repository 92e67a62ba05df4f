//! `dlock wait`: waits until the action is free or, with `--done`, until a success is recorded.
//!
//! `dlock wait` polls the server and changes nothing, so its account needs only read access. It does not join
//! the queue, because a process in the queue delays the waiters behind it.

use std::mem::replace;
use std::time::Duration;

use anyhow::Context;

use crate::cli::value::Wait;
use crate::cli::wait::WaitArgs;
use crate::event::event_loop::EventLoop;
use crate::event::queue::EventQueue;
use crate::event::{Event, LeaseEvent};
use crate::exit::{ExitError, Status};
use crate::lease::action::Action;
use crate::lease::instant::BootInstant;
use crate::lease::once::{Once, OnceKey};
use crate::lease::timing::Timing;
use crate::report::log::{EventKind, WaitFacts};
use crate::report::{Report, messages};
use crate::store::takeover::{HolderSession, allowed_in};
use crate::store::target::Targets;
use crate::store::{
    Contender, Failure, FailureKind, Holder, LockRecord, LockState, Request, Response,
};
use crate::sys::clock;
use crate::sys::signal::{self, JobControl, SIGTSTP, SignalFd};

/// The initial interval between two polls. It is short, because the holder's run may be short.
const FIRST_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The maximum interval between two polls. At this interval, each waiting process sends one cheap
/// request per second.
const LONGEST_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Minimum interval to the next poll after a poll without a response. A node of a cluster that lags keeps the session of
/// such a poll for some time, so frequent polls could use up its connections.
const SILENT_POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Time for the first poll if a limit is zero: one connect and one response.
const FIRST_POLL_LIMIT: Duration = Duration::from_secs(4);
/// Time for the poll at the end of a limit. It is too short for a user to notice.
const FINAL_POLL_LIMIT: Duration = Duration::from_millis(250);

/// The ttl from which the time limits of requests are derived. `wait` itself holds no lease.
const TTL: Duration = Duration::from_secs(30);

/// The state of one wait.
struct SuccessWait<'a> {
    report: &'a Report,
    action: Action,
    /// The success to wait for. None waits until the action is free.
    done: Option<OnceKey>,
    record: Option<LockRecord>,
    failure: Option<Failure>,
    /// True if the message that the tables do not contain the action was printed.
    has_warned: bool,
    /// Time of the most recent valid response. The start time if no valid response has arrived.
    responded_at: BootInstant,
    /// True after the first valid response.
    has_response: bool,
    /// Time without a valid response after which the wait fails.
    connect_timeout: Duration,
}

/// Waits until the action is free, or until the success is recorded.
///
/// # Errors
/// Fails if `--timeout` expires, if a fatal signal arrives, if the server refuses a request, or if no
/// request succeeds within `--connect-timeout`.
pub fn run(args: WaitArgs, targets: Targets, report: &Report) -> anyhow::Result<Status> {
    let action = args.name.action().clone();
    report.about(&action);
    let done = args.done.map(Option::unwrap_or_default);
    let timing = Timing::new(TTL, None).map_err(|why| ExitError::new(Status::INTERNAL, why))?;
    let contender = Contender {
        once: done.clone().map(Once::Ever),
        ..Contender::without_command(action.clone(), Holder::default(), timing.ttl)
    };
    let signals = SignalFd::open(JobControl::Announced).context("cannot receive signals")?;
    report.write_behind();
    let (events, sender) = EventQueue::new(signals, None).context("cannot wait for events")?;
    let mut event_loop = EventLoop::new(events, sender);
    (event_loop.add_lease(contender, targets, timing)).context("cannot start a thread")?;
    let started = clock::now();
    let limit = match args.timeout {
        Wait::Forever => None,
        Wait::AtMost(timeout) => Some(started + timeout),
    };
    let mut wait = SuccessWait {
        report,
        action,
        done,
        record: None,
        failure: None,
        has_warned: false,
        responded_at: started,
        has_response: false,
        connect_timeout: args.connect_timeout,
    };
    let outcome = wait.run(&mut event_loop, started, limit);
    report.finish();
    event_loop.stop();
    Ok(outcome?)
}

impl SuccessWait<'_> {
    /// Polls until the action is free or the success is recorded, with a pause between two polls.
    fn run(
        &mut self,
        event_loop: &mut EventLoop,
        started: BootInstant,
        limit: Option<BootInstant>,
    ) -> Result<Status, ExitError> {
        let mut pause = FIRST_POLL_INTERVAL;
        let mut least = FIRST_POLL_LIMIT;
        loop {
            // With a limit of zero, there is one poll, which has time for one connect and one response.
            let connect_limit = Some(self.responded_at + self.connect_timeout);
            // A slow connect must not end a wait with a short limit.
            let limit_here = limit.map(|limit| match self.has_response {
                true => limit,
                false => limit.max(started + FIRST_POLL_LIMIT),
            });
            let limits = limit_here.into_iter().chain(connect_limit).min();
            let least = match limits {
                Some(until) if until > clock::now() => Duration::ZERO,
                _ => replace(&mut least, FINAL_POLL_LIMIT),
            };
            let until = limits.unwrap_or(started).max(clock::now() + least);
            if self.poll(event_loop, until)? {
                return Ok(Status::OK);
            }
            let now = clock::now();
            let waited = messages::duration(now.since(started));
            if let Some(failure) = &self.failure
                && now.since(self.responded_at) >= self.connect_timeout
            {
                let why = format!("{failure}; gave up after {waited}");
                return Err(ExitError::new(failure.kind.status(), why));
            }
            if limit.is_some_and(|limit| now >= limit) {
                let status = match (&self.failure, &self.record) {
                    (Some(failure), None) => failure.kind.status(),
                    _ => Status::HELD,
                };
                let why = format!("{}; gave up after {waited}", self.state());
                return Err(ExitError::new(status, why));
            }
            let holder = self.record.as_ref().and_then(messages::whose);
            let text = format_args!("waiting: {}", self.state());
            let facts = WaitFacts::new(now.since(started), None, self.record.as_ref());
            self.report
                .remind(EventKind::Waiting.by(holder).waiting(facts), text);
            let is_silent = self.failure.as_ref();
            let is_silent = is_silent.is_some_and(|failure| failure.kind == FailureKind::Unknown);
            let next_at = now
                + match is_silent {
                    true => SILENT_POLL_INTERVAL,
                    false => pause,
                };
            pause = (pause * 3 / 2).min(LONGEST_POLL_INTERVAL);
            // If the server does not respond, the connect limit also ends the pause.
            let connect_limit =
                (self.failure.is_some()).then(|| self.responded_at + self.connect_timeout);
            let wake = [Some(next_at), limit, connect_limit].into_iter().flatten();
            self.sleep_until(event_loop, wake.min().unwrap_or(next_at))?;
        }
    }

    /// Polls once. Returns true if the action is free or the success is recorded. Gives up at `until`, because name
    /// resolution has no time limit.
    fn poll(&mut self, event_loop: &mut EventLoop, until: BootInstant) -> Result<bool, ExitError> {
        let sent = clock::now();
        event_loop.database_mut(0).send(Request::Get);
        let response = loop {
            match self.event(event_loop, until)? {
                Some(Event::Lease(_, LeaseEvent::Response(response))) => break response,
                None if clock::now() >= until => {
                    let now = clock::now();
                    // The time limit of the wait can end a poll early. Then the latest record is more useful to the
                    // user than a late response.
                    if self.record.is_none()
                        || now.since(sent) >= FIRST_POLL_LIMIT
                        || now.since(self.responded_at) >= self.connect_timeout
                    {
                        self.failure
                            .get_or_insert_with(|| event_loop.database(0).no_response());
                    }
                    return Ok(false);
                }
                Some(_) | None => {}
            }
        };
        let now = clock::now();
        match response.outcome {
            Ok(Response::AlreadyDone(_)) => return Ok(true),
            Ok(Response::Record(record)) => {
                (self.responded_at, self.failure) = (now, None);
                self.has_response = true;
                if !record.is_known && !self.has_warned {
                    let text = messages::unknown(&self.action);
                    self.report.info(EventKind::Message, text);
                    self.has_warned = true;
                }
                let is_over = self.done.is_none() && is_free(&record);
                self.record = Some(record);
                return Ok(is_over);
            }
            // No command has run yet. `setup` or the first run creates the tables, so this is not an error.
            Err(failure) if failure.kind == FailureKind::NoTables && self.done.is_some() => {
                self.responded_at = now;
                self.failure = None;
            }
            Err(failure) => match failure.kind {
                // The server has accepted this account before, so the server may be starting, or an
                // administrator may be changing the privileges of the account.
                FailureKind::LoginRefused if self.record.is_some() => self.failure = Some(failure),
                FailureKind::LoginRefused
                | FailureKind::Denied
                | FailureKind::Config
                | FailureKind::SharedSessions
                | FailureKind::NoTables => {
                    return Err(ExitError::new(failure.kind.status(), failure));
                }
                _ => self.failure = Some(failure),
            },
            Ok(other) => self.failure = Some(other.unexpected()),
        }
        Ok(false)
    }

    /// Sleeps until `until` and handles signals during the sleep.
    fn sleep_until(&self, event_loop: &mut EventLoop, until: BootInstant) -> Result<(), ExitError> {
        while clock::now() < until {
            self.event(event_loop, until)?;
        }
        Ok(())
    }

    /// Waits for the next event until `until`. Handles signals and reports connections.
    ///
    /// # Errors
    /// Fails if the default action of a signal ends the process.
    fn event(
        &self,
        event_loop: &mut EventLoop,
        until: BootInstant,
    ) -> Result<Option<Event>, ExitError> {
        let event = event_loop.next(until);
        match &event {
            Some(Event::Signal(signal)) if signal::is_fatal(signal.number) => {
                return Err(ExitError::interrupted(signal.number, &self.action));
            }
            Some(Event::Signal(signal)) if signal.number == SIGTSTP => {
                self.report.finish_before_stop();
                signal::stop_this_process();
            }
            Some(Event::Lease(_, LeaseEvent::Connected(server))) => self.report.connected(server),
            _ => {}
        }
        Ok(event)
    }

    /// Returns a description of the current state for users.
    fn state(&self) -> String {
        if let Some(failure) = &self.failure {
            return failure.to_string();
        }
        let held = self
            .record
            .as_ref()
            .filter(|record| record.state() != LockState::Free)
            .map(|record| messages::holding(&self.action, record));
        match (&self.done, held) {
            (None, held) => held.unwrap_or_else(|| format!("{} is held", self.action)),
            (Some(key), held) => {
                let keys = self.record.as_ref().map_or(&[][..], |it| &it.done_keys);
                let not_done = messages::not_done(&self.action, key, keys);
                let held = held.map_or(String::new(), |held| format!("; {held}"));
                format!("{not_done}{held}")
            }
        }
    }
}

/// Returns true if no process holds the action and the action is not paused. An expired lease counts as held
/// until it can be taken over.
fn is_free(record: &LockRecord) -> bool {
    match record.state() {
        _ if record.pause.is_some() => false,
        LockState::Free => true,
        LockState::Odd => false,
        _ => allowed_in(record, HolderSession::Unknown).is_zero(),
    }
}
