//! Waits from the first attempt to the grant, and reports the state of the wait to the user. Runs
//! on the main thread.

use std::mem::replace;
use std::time::Duration;

use super::event_loop::EventLoop;
use super::exits::{done, monitor_gone};
use crate::cli::exec::ExecArgs;
use crate::event::Event;
use crate::event::queue_reader::READ_INTERVAL;
use crate::exit::{ExitCause, ExitError, Status};
use crate::lease::instant::BootInstant;
use crate::process::monitor::ParentMessage;
use crate::protocol::acquire::{Acquire, AcquiredLease, NextRequest};
use crate::report::log::{EventKind, WaitFacts};
use crate::report::{lost_grant, messages, waiting};
use crate::store::{
    FailureKind, LockRecord, QueueLock, ReleaseRequest, Request, Response, TimedResponse,
};
use crate::sys::clock;
use crate::sys::signal::{self, SIGWINCH};

/// Maximum time to release a lease that may have been granted and to leave the queue, after the contender has
/// given up. A user who set a time limit or sent a signal expects dlock to end within a tenth of a second.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(60);

/// Minimum age of a record that a message describes in the past tense.
const STALE: Duration = Duration::from_secs(2);

impl EventLoop<'_> {
    /// Waits in the queue until the lease is granted. Leaves the queue if the wait fails, and also releases
    /// the lease if it may have been granted.
    pub(super) fn acquire(
        &mut self,
        mut acquire: Acquire,
        args: &ExecArgs,
    ) -> Result<AcquiredLease, ExitError> {
        let outcome = self.wait_for_grant(&mut acquire, args);
        if let Err(error) = &outcome {
            let time = match error.cause {
                // Neither a time limit nor a signal ended this wait, so the release is not urgent.
                ExitCause::Done(_) => 2 * self.timing.request_timeout,
                _ => RELEASE_TIMEOUT,
            };
            self.leave_queue(&acquire, time);
        }
        outcome
    }

    fn wait_for_grant(
        &mut self,
        acquire: &mut Acquire,
        args: &ExecArgs,
    ) -> Result<AcquiredLease, ExitError> {
        let started = acquire.started();
        let mut queue_lock = QueueLock::Available;
        let mut last_response: Option<Box<TimedResponse>> = None;
        loop {
            let now = clock::now();
            let next = acquire.next(now);
            // Report the wait only if it continues. A contender that gives up reports the reason in
            // one line, and a contender that takes over the lease immediately has nothing to
            // report.
            let is_taken_over = matches!(
                &next,
                NextRequest::Send(Request::TryAcquire(request)) if request.is_take_over()
            );
            if let (NextRequest::Send(_) | NextRequest::Wait(_), Some(response), false) =
                (&next, last_response.take(), is_taken_over)
            {
                if replace(&mut queue_lock, acquire.queue_lock()) != acquire.queue_lock() {
                    self.report_queue_lock(acquire);
                }
                self.report_wait(acquire, &response, now.since(started));
            }
            let waited = || messages::duration(now.since(started));
            match next {
                NextRequest::Send(request) => self.send(request),
                NextRequest::Granted(lease) => {
                    let token = lease.grant.token;
                    self.report.granted(token);
                    let (action, waited) = (&self.action, waited());
                    let text = format_args!("acquired {action} in {waited} (token {token})");
                    let has_reminded = self.report.has_reminded();
                    self.report
                        .milestone(EventKind::Granted, text, has_reminded);
                    return Ok(lease);
                }
                NextRequest::AlreadyDone(success) => {
                    return Err(done(&self.action, self.once.as_ref(), success));
                }
                NextRequest::HeldByOther(record, read_at) => {
                    // A waiter in the queue may have read the record for a reminder.
                    let (record, read_at) = match self.queue_reader.latest() {
                        Some((newer, _, at)) if at > read_at => (newer, at),
                        _ => (&*record, read_at),
                    };
                    let lost_until = acquire.lost_grant_until(now);
                    let held = match (lost_until, now.since(read_at) < STALE) {
                        (Some(until), _) if record.owner_id.is_none() => {
                            lost_grant::outwaiting(&self.action, until.since(now))
                        }
                        (_, true) => messages::holding(&self.action, record),
                        (_, false) => messages::was_held(&self.action, record),
                    };
                    let why = format!("{held}; gave up after {}", waited());
                    let cause =
                        ExitCause::Held(messages::whose(record).unwrap_or_default().to_owned());
                    let status = Status::from_code(args.conflict_exit_code);
                    return Err(ExitError::new(status, why).because(cause));
                }
                NextRequest::Unreachable(failure) => {
                    let failure = failure.unwrap_or_else(|| self.no_response());
                    let why = format!("{failure}; gave up after {}", waited());
                    return Err(ExitError::new(Status::UNAVAILABLE, why));
                }
                NextRequest::Refused(failure) => {
                    return Err(ExitError::new(failure.kind.status(), failure));
                }
                NextRequest::Wait(until) => match self.event(until) {
                    Some(Event::Signal(signal)) if signal::is_fatal(signal.number) => {
                        return Err(ExitError::interrupted(signal.number, &self.action));
                    }
                    Some(Event::Response(response)) => {
                        let before = acquire.silence().limit();
                        acquire.handle_response(clock::now(), &response);
                        self.queue_reader.observe(&response);
                        if let Some(limit) = acquire.silence().limit()
                            && before != Some(limit)
                        {
                            self.report_silence(limit);
                        }
                        last_response = Some(response);
                    }
                    Some(Event::Monitor(ParentMessage::Gone(end))) => {
                        return Err(monitor_gone(end));
                    }
                    Some(Event::Disconnected) => acquire.disconnected(),
                    Some(Event::Signal(signal)) if signal.number == SIGWINCH => {
                        self.report.resized();
                        self.report_turn(acquire, started);
                    }
                    Some(Event::QueueRead(response)) => {
                        acquire.handle_read(&response);
                        self.queue_reader.finish(*response);
                        self.report_turn(acquire, started);
                    }
                    None => self.report_turn(acquire, started),
                    Some(_) => {}
                },
            }
        }
    }

    /// Reports that this contender polls because it cannot use the queue lock. Reports nothing if it uses the queue lock
    /// again.
    fn report_queue_lock(&self, acquire: &Acquire) {
        let action = &self.action;
        let text = match (acquire.queue_lock(), acquire.retries_queue_lock()) {
            (QueueLock::Available, _) => return,
            (QueueLock::Unavailable, false) => {
                format!("named locks do not work on this server: waiting for {action} by polling")
            }
            (QueueLock::Unavailable, true) => format!(
                "the queue lock of {action} cannot be used for now, normally because another session keeps it: waiting for {action} by polling"
            ),
        };
        self.report.debug(EventKind::NoNamedLocks, text);
    }

    /// Reports that something between dlock and the server ends connections that are silent for the time `limit`.
    pub(super) fn report_silence(&self, limit: Duration) {
        let text = format_args!(
            "something between dlock and {} ends connections that are silent for {}; dlock now sends requests more often; \
             raise the idle timeout of the proxy, load balancer or firewall (HAProxy: timeout client, timeout server)",
            self.servers,
            messages::duration(limit)
        );
        self.report.info(EventKind::Disconnected, text);
    }

    /// Reports the present state again if this contender waits in the queue and a reminder is due. The database thread
    /// waits for the queue lock, so another thread reads the state. A reminder on a separate line waits for the end of
    /// this read, but not longer than the request timeout.
    fn report_turn(&mut self, acquire: &Acquire, started: BootInstant) {
        if !self.is_waiting_turn || !self.report.is_reminder_due() {
            return;
        }
        let now = clock::now();
        let is_rewritten = self.report.rewrites_reminders();
        let Some((_, ahead, read_at)) = self.latest_state(acquire) else {
            return;
        };
        if now.since(read_at) >= READ_INTERVAL {
            self.queue_reader.start(acquire.queue_entry(), ahead, now);
        }
        if !is_rewritten && self.queue_reader.is_awaited() {
            return;
        }
        let Some((record, ahead, read_at)) = self.latest_state(acquire) else {
            return;
        };
        let waited = now.since(started);
        let (current_for, describe): (_, fn(_, _, _, _, _) -> _) = match is_rewritten {
            // The state on a terminal is read again while it is displayed.
            true => (2 * READ_INTERVAL, waiting::waiting_line),
            false => (READ_INTERVAL, waiting::still_waiting),
        };
        let age = Some(now.since(read_at)).filter(|age| *age >= current_for);
        let text = describe(&self.action, record, ahead, waited, age);
        // The lease of an outdated record may have been renewed.
        let leased = Some(record).filter(|_| age.is_none());
        let facts = WaitFacts::new(waited, Some(ahead), leased);
        let meta = EventKind::Waiting.by(messages::whose(record));
        self.report.remind(meta.waiting(facts), text);
    }

    /// Returns the record and the number of waiters ahead that were read last, and the time at which they were read. None
    /// before the first read.
    fn latest_state<'a>(
        &'a self,
        acquire: &'a Acquire,
    ) -> Option<(&'a LockRecord, u64, BootInstant)> {
        let states = self.queue_reader.latest().into_iter();
        states
            .chain(acquire.observed())
            .max_by_key(|(_, _, read_at)| *read_at)
    }

    /// Reports why this contender waits.
    fn report_wait(&self, acquire: &Acquire, response: &TimedResponse, waited: Duration) {
        let lost_until = acquire.lost_grant_until(clock::now());
        let text = match (&response.outcome, acquire.observed()) {
            // The failure of the queue lock has already been reported, and is not the reason for the wait.
            (Err(failure), _) if failure.kind == FailureKind::NoQueueLock => return,
            (Err(failure), _) => {
                format!("waiting for {}: {failure}; trying again", self.action)
            }
            (Ok(Response::NotAcquired(..) | Response::Enqueued(..)), Some((record, ..)))
                if record.owner_id.is_none() && lost_until.is_some() =>
            {
                let left = lost_until.map_or(Duration::ZERO, |until| until.since(clock::now()));
                lost_grant::outwaiting(&self.action, left)
            }
            (Ok(Response::NotAcquired(..) | Response::Enqueued(..)), Some((record, ahead, _)))
                if record.owner_id.is_some() || record.fenced || record.pause.is_some() =>
            {
                waiting::waiting(&self.action, record, ahead)
            }
            _ => return,
        };
        let observed = acquire.observed();
        let holder = observed.and_then(|(record, ..)| messages::whose(record));
        let ahead = observed.map(|(_, ahead, _)| ahead);
        let facts = WaitFacts::new(waited, ahead, observed.map(|(record, ..)| record));
        self.report
            .remind(EventKind::Waiting.by(holder).waiting(facts), text);
    }

    /// Releases a lease that may have been granted, and removes the queue entry. Gives up if the
    /// server does not respond within `time`.
    fn leave_queue(&mut self, acquire: &Acquire, time: Duration) {
        let Some(request) = acquire.release_request() else {
            return;
        };
        let now = clock::now();
        // A wait for the queue lock may take long, so it is interrupted immediately. Any other request gets
        // half of `time` to finish.
        let response_by = match self.is_waiting_turn {
            true => now,
            false => now + time / 2,
        };
        // An earlier request may still be open. The database thread handles the release after that request.
        self.send(Request::Release(request));
        if !self.is_released_by(response_by) {
            self.database.interrupt();
            self.is_released_by(now + time);
        }
    }

    /// Releases a lease under which no command has run. Gives up if the server does not respond within `time`.
    pub(super) fn release_within(&mut self, request: ReleaseRequest, time: Duration) {
        let until = clock::now() + time;
        self.send(Request::Release(request));
        self.is_released_by(until);
    }

    fn is_released_by(&mut self, until: BootInstant) -> bool {
        while clock::now() < until {
            if let Some(Event::Response(response)) = self.event(until)
                && matches!(
                    response.outcome,
                    Ok(Response::Released | Response::NotHolder(_))
                )
            {
                return true;
            }
        }
        false
    }
}
