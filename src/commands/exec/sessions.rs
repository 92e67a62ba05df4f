//! Ends the sessions that a command has left on the server, before another command starts. Runs on the main thread.
//!
//! A holder ends the sessions of its own command before it releases the lease. A contender that acquires a lease whose
//! record contains sessions ends them before it starts its command. Both renew the lease until the sessions have ended.

use std::collections::BTreeSet;
use std::time::Duration;

use super::event_loop::{EventLoop, LONGEST_SLEEP};
use super::exits::monitor_gone;
use super::hold::FinishedRun;
use crate::cli::exec::ExecArgs;
use crate::cli::value::Wait;
use crate::event::Event;
use crate::exit::{ExitCause, ExitError, Status};
use crate::lease::instant::BootInstant;
use crate::mutant::{self, Safeguard};
use crate::outcome::RunOutcome;
use crate::process::monitor::{MonitorEnd, ParentMessage};
use crate::protocol::acquire::AcquiredLease;
use crate::protocol::renew::{Liveness, RenewalOutcome, Renewals};
use crate::protocol::session_end::{EndingSessions, EndingStep};
use crate::report::log::EventKind;
use crate::report::messages;
use crate::store::session::SessionPolicy;
use crate::store::{EarlierSessions, LockRecord, ReleaseRequest, Request, Response};
use crate::sys::{clock, signal};

/// Time after which dlock reports that it waits for a session to end. Most killed statements end much sooner.
const PATIENCE: Duration = Duration::from_secs(1);

/// Maximum time to look for statements that a successful command has left on the server. dlock only reports them.
const LOOK_TIMEOUT: Duration = Duration::from_millis(500);

/// Maximum time to release a lease under which no command has run.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(500);

/// The way in which the wait for the sessions ended.
#[derive(Debug)]
enum SessionsEnd {
    /// No session is left. Contains the number of killed sessions.
    Gone(u32),
    /// The time limit has passed.
    TimedOut,
    /// The lease has expired, because the server does not respond.
    Unreachable,
    /// This signal ended the wait.
    Signalled(i32),
    /// The lease was lost. Contains the present record.
    Lost(Box<LockRecord>),
    /// The monitor is dead.
    MonitorDied(MonitorEnd),
}

/// Whose sessions are being ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionOwner {
    /// This process's own command.
    OwnCommand,
    /// The command of an earlier holder.
    EarlierHolder,
}

/// What shows that the lease exists on the server of the next request. After a connection has ended, the next one may
/// lead to another server, which may lack the lease. A contender then renews its lease before it looks for sessions there,
/// and before its command starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeaseProof {
    /// A renewal on the present connection, or no renewal is necessary.
    Renewed,
    /// Nothing. The next renewal that succeeds is a proof.
    Missing,
    /// Nothing. The request in flight was sent before the connection ended, so its response is no proof.
    AfterOpenRequest,
}

/// A wait for sessions to end, and the reports about it.
struct SessionWait<'a> {
    ending: EndingSessions,
    renewals: &'a mut Renewals,
    owner: SessionOwner,
    /// Ids of the sessions that have been reported.
    reported: BTreeSet<u64>,
    proof: LeaseProof,
    /// Time of the first renewal that failed since the most recent successful one.
    failing_since: Option<BootInstant>,
    has_reported_server: bool,
    has_reported_unproven: bool,
    has_reported_failure: bool,
}

impl<'a> SessionWait<'a> {
    /// Records that the connection has ended, or that the lease may be lost. `has_open_request` is true while a request is
    /// in flight.
    fn require_renewal(&mut self, has_open_request: bool) {
        self.proof = match (self.owner, has_open_request) {
            (SessionOwner::OwnCommand, _) => LeaseProof::Renewed,
            (SessionOwner::EarlierHolder, true) => LeaseProof::AfterOpenRequest,
            (SessionOwner::EarlierHolder, false) => LeaseProof::Missing,
        };
    }

    /// Records that the connection has ended, and renews soon. `has_open_request` is true while a request is in flight.
    fn disconnected(&mut self, now: BootInstant, has_open_request: bool) {
        self.require_renewal(has_open_request);
        self.renewals.expedite(now);
    }

    /// Records the response to the request in flight. `is_renewed` is true if the request was a renewal that succeeded.
    fn responded(&mut self, is_renewed: bool) {
        self.proof = match self.proof {
            LeaseProof::AfterOpenRequest => LeaseProof::Missing,
            LeaseProof::Missing if is_renewed => LeaseProof::Renewed,
            proof => proof,
        };
    }

    const fn new(ending: EndingSessions, renewals: &'a mut Renewals, owner: SessionOwner) -> Self {
        Self {
            ending,
            renewals,
            owner,
            reported: BTreeSet::new(),
            proof: LeaseProof::Renewed,
            failing_since: None,
            has_reported_server: false,
            has_reported_unproven: false,
            has_reported_failure: false,
        }
    }
}

impl EventLoop<'_> {
    /// Ends the sessions of an earlier holder, if the record contains any. Returns the lease with the send time of the
    /// latest renewal, and the number of killed sessions. `waiting_since` is the start of this process.
    ///
    /// # Errors
    /// Fails if the sessions do not end within the time limit of the wait, if a signal ends the wait, or if the lease
    /// is lost. The lease is then released, and its record still contains the sessions.
    pub(super) fn end_earlier_sessions(
        &mut self,
        lease: AcquiredLease,
        args: &ExecArgs,
        waiting_since: BootInstant,
    ) -> Result<(AcquiredLease, u32), ExitError> {
        if lease.earlier_sessions == EarlierSessions::None
            || args.server_sessions == SessionPolicy::Ignore
            || mutant::is_disabled(Safeguard::EndedSessions)
        {
            return Ok((lease, 0));
        }
        let (grant, sent) = (lease.grant, lease.sent);
        let liveness = Liveness::NotRequired;
        let mut renewals = Renewals::new(grant, lease.queue_lock, self.timing, sent, liveness);
        renewals.limit_silence(lease.silence);
        renewals.continue_without_command();
        self.address_reader.granted(grant, clock::now());
        let until = match args.wait {
            _ if args.nonblock => Some(waiting_since),
            Wait::Forever => None,
            Wait::AtMost(wait) => Some(waiting_since + wait),
        };
        let ending = EndingSessions::of_record(clock::now());
        let mut wait = SessionWait::new(ending, &mut renewals, SessionOwner::EarlierHolder);
        let end = self.wait_for_sessions(&mut wait, until);
        let left = wait.ending.left().first().map(messages::session);
        let is_needed = wait.ending.is_needed();
        let error = match end {
            SessionsEnd::Gone(killed) => {
                let earlier_sessions = match is_needed {
                    true => EarlierSessions::Noted,
                    false => EarlierSessions::None,
                };
                let lease = AcquiredLease {
                    sent: renewals.proven(),
                    queue_lock: renewals.queue_lock(),
                    earlier_sessions,
                    ..lease
                };
                return Ok((lease, killed));
            }
            end => self.not_started(end, left, args, waiting_since),
        };
        // A signal or a time limit has ended the wait, so the user expects dlock to end soon. If the release fails, the
        // lease ends when it expires.
        let release = ReleaseRequest {
            has_entry: lease.has_entry,
            ..ReleaseRequest::without_run(grant.owner_id, Some(grant.token), renewals.queue_lock())
        };
        self.release_within(release, RELEASE_TIMEOUT);
        Err(error)
    }

    /// Returns the error of a contender that does not start its command because of the sessions of an earlier holder.
    fn not_started(
        &self,
        end: SessionsEnd,
        left: Option<String>,
        args: &ExecArgs,
        waiting_since: BootInstant,
    ) -> ExitError {
        let action = &self.action;
        let left = left.unwrap_or_else(|| "a session".to_owned());
        let left =
            format!("{left}, which an earlier run of {action} left on the server, has not ended");
        match end {
            SessionsEnd::Gone(_) | SessionsEnd::TimedOut => {
                let waited = messages::duration(clock::now().since(waiting_since));
                let status = Status::from_code(args.conflict_exit_code);
                ExitError::new(status, format!("{left}; gave up after {waited}"))
                    .because(ExitCause::Held(String::new()))
            }
            SessionsEnd::Unreachable => {
                let why = format!("{left}, and the lease of {action} cannot be renewed");
                ExitError::new(Status::UNAVAILABLE, why)
            }
            SessionsEnd::Signalled(number) => ExitError::interrupted(number, action),
            SessionsEnd::Lost(record) => {
                let why = format!("lost {action}: {}", messages::holding(action, &record));
                ExitError::new(RunOutcome::Lost.status(), why)
            }
            SessionsEnd::MonitorDied(end) => monitor_gone(end),
        }
    }

    /// Ends the sessions of this process's own command, whose tree is dead. Returns true if no session is left, so that
    /// the release may remove the note. If the command ended with 0, and none of its processes had to be killed, its
    /// sessions are not ended.
    pub(super) fn end_own_sessions(&mut self, run: &mut FinishedRun) -> bool {
        let Some(look) = run.sessions.left() else {
            return true;
        };
        if mutant::is_disabled(Safeguard::EndedSessions) {
            return true;
        }
        match run.outcome {
            RunOutcome::LeftBehind => return false,
            RunOutcome::Exited(0) if !run.was_killed => {
                if self.report.is_verbose() {
                    self.report_executing(&EndingSessions::new(look, clock::now()));
                }
                return true;
            }
            _ => {}
        }
        run.renewals.continue_without_command();
        let ending = EndingSessions::new(look, clock::now());
        let mut wait = SessionWait::new(ending, &mut run.renewals, SessionOwner::OwnCommand);
        match self.wait_for_sessions(&mut wait, None) {
            SessionsEnd::Gone(killed) => {
                run.facts.killed.sessions += killed;
                true
            }
            end => {
                let why = match end {
                    SessionsEnd::Unreachable => "the lease has ended",
                    SessionsEnd::Lost(_) => "the lease is lost",
                    _ => "a signal ended the wait",
                };
                let action = &self.action;
                let text = format_args!(
                    "sessions that the command of {action} left on the server may still execute statements: {why}"
                );
                self.report.error(EventKind::SessionsLeft, text);
                false
            }
        }
    }

    /// Counts a renewal in the metrics of the run. Before the command starts, there is no run.
    fn count_renewal(&mut self, owner: SessionOwner, has_succeeded: bool) {
        match (owner, has_succeeded) {
            (SessionOwner::EarlierHolder, _) => {}
            (SessionOwner::OwnCommand, true) => self.observers.renewed(),
            (SessionOwner::OwnCommand, false) => self.observers.renewal_failed(),
        }
    }

    /// Renews the lease and ends the sessions, until none is left or `until` has passed.
    fn wait_for_sessions(
        &mut self,
        wait: &mut SessionWait<'_>,
        until: Option<BootInstant>,
    ) -> SessionsEnd {
        let started = clock::now();
        // A renewal may be in flight when the command ends.
        let mut is_renewing = true;
        loop {
            let now = clock::now();
            let mut wake = None;
            self.address_reader.start_if_due(now);
            if !self.has_open_request() {
                let renewal = wait.renewals.due(now);
                is_renewing = renewal.is_some();
                match (renewal, wait.ending.next(now)) {
                    (Some(mut request), _) => {
                        request.look = wait.ending.renewal_look().map(Box::new);
                        self.send(Request::Renew(request));
                    }
                    (None, _) if wait.proof != LeaseProof::Renewed => {
                        wake = wait.renewals.wake_at();
                    }
                    (None, EndingStep::Send(request)) => self.send(request),
                    (None, EndingStep::Wait(instant)) => {
                        wake = wait.renewals.wake_at().into_iter().chain([instant]).min();
                    }
                    (None, EndingStep::Finished(killed)) => {
                        self.report_ended(wait, killed);
                        return SessionsEnd::Gone(killed);
                    }
                }
            }
            if until.is_some_and(|until| now >= until)
                && (wait.ending.has_looked() || wait.ending.failure().is_some())
            {
                return SessionsEnd::TimedOut;
            }
            // If the lease cannot be renewed any more, a contender takes it over and ends the sessions.
            let expires = wait.renewals.deadline().kill;
            if now >= expires.max(started + 2 * self.timing.request_timeout) {
                return SessionsEnd::Unreachable;
            }
            let others = until.into_iter().chain(self.address_reader.next_at());
            let wake = wake.into_iter().chain(others.filter(|at| *at > now)).min();
            match self.event(wake.unwrap_or(now + LONGEST_SLEEP)) {
                Some(Event::Response(response)) if is_renewing => {
                    let outcome = wait.renewals.handle_response(clock::now(), *response);
                    wait.responded(matches!(outcome, RenewalOutcome::Renewed(..)));
                    match outcome {
                        RenewalOutcome::Renewed(..) => {
                            self.count_renewal(wait.owner, true);
                            self.address_reader.renewed();
                            if let Some(since) = wait.failing_since.take() {
                                self.report_renewed_again(since);
                            }
                        }
                        // The error has ended the connection.
                        RenewalOutcome::Failed(failure) => {
                            wait.require_renewal(false);
                            self.count_renewal(wait.owner, false);
                            self.report_failed_renewal(&failure, wait.failing_since.is_none());
                            wait.failing_since.get_or_insert_with(clock::now);
                        }
                        RenewalOutcome::GrantLost { is_first } => {
                            wait.require_renewal(false);
                            self.report_lost_grant(is_first);
                        }
                        RenewalOutcome::Lost(_, record)
                            if wait.owner == SessionOwner::EarlierHolder =>
                        {
                            return SessionsEnd::Lost(record);
                        }
                        RenewalOutcome::Lost(..) => {}
                    }
                }
                Some(Event::AddressRead(record)) => {
                    if self.handle_address_read(record.as_deref(), wait.renewals) {
                        wait.disconnected(clock::now(), self.has_open_request());
                    }
                }
                Some(Event::Response(response)) => {
                    wait.responded(false);
                    if response.outcome.is_err() {
                        wait.disconnected(clock::now(), false);
                    }
                    wait.ending.handle_response(clock::now(), *response);
                    self.report_left(wait);
                }
                Some(Event::Disconnected) => {
                    wait.disconnected(clock::now(), self.has_open_request());
                    if let Some(limit) = wait.renewals.disconnected(clock::now()) {
                        self.report_silence(limit);
                    }
                }
                Some(Event::Signal(signal)) if signal::is_fatal(signal.number) => {
                    return SessionsEnd::Signalled(signal.number);
                }
                Some(Event::Monitor(ParentMessage::Gone(end)))
                    if wait.owner == SessionOwner::EarlierHolder =>
                {
                    return SessionsEnd::MonitorDied(end);
                }
                Some(_) | None => {}
            }
        }
    }

    /// Reports the sessions that do not end: at once those that dlock's account may not kill, and the others after
    /// [`PATIENCE`].
    fn report_left(&self, wait: &mut SessionWait<'_>) {
        let action = &self.action;
        let whose = match wait.owner {
            SessionOwner::OwnCommand => "the command",
            SessionOwner::EarlierHolder => "an earlier run",
        };
        if let Some(server) = wait.ending.elsewhere()
            && !std::mem::replace(&mut wait.has_reported_server, true)
        {
            let text = format_args!(
                "sessions that {whose} of {action} left on the server {server} cannot be ended from this server"
            );
            self.report.info(EventKind::SessionsLeft, text);
        }
        let unproven = wait.ending.unproven();
        if !unproven.is_empty() && !std::mem::replace(&mut wait.has_reported_unproven, true) {
            let text = format_args!(
                "sessions that {whose} of {action} may have left on the server will not be ended: {}",
                messages::unproven_sessions(unproven)
            );
            self.report.info(EventKind::SessionsLeft, text);
        }
        let is_late = clock::now().since(wait.ending.started()) >= PATIENCE;
        for listed in wait.ending.left() {
            let id = listed.session.id;
            let session = messages::session(listed);
            let is_denied = wait.ending.denied().contains(&id);
            let is_new = (is_denied || is_late) && wait.reported.insert(id);
            let text = match is_denied {
                true => format!(
                    "{session}, which {whose} of {action} left on the server, cannot be ended: \
                     dlock's account may not kill it; waiting until it ends"
                ),
                false => format!(
                    "waiting until {session}, which {whose} of {action} left on the server, has ended"
                ),
            };
            match is_new {
                true => self.report.info(EventKind::SessionsLeft, text),
                false if is_late => self.report.remind(EventKind::SessionsLeft, text),
                false => {}
            }
        }
        if let Some(failure) = wait.ending.failure()
            && !std::mem::replace(&mut wait.has_reported_failure, true)
        {
            let text = format_args!(
                "cannot look for the sessions that {whose} of {action} left on the server: {failure}; trying again"
            );
            self.report.info(EventKind::SessionsLeft, text);
        }
    }

    fn report_ended(&self, wait: &SessionWait<'_>, killed: u32) {
        if killed == 0 {
            return;
        }
        let sessions = messages::count(killed, "session");
        let whose = match wait.owner {
            SessionOwner::OwnCommand => "the command",
            SessionOwner::EarlierHolder => "an earlier run",
        };
        let action = &self.action;
        let text = format_args!("ended {sessions} that {whose} of {action} left on the server");
        self.report.info(EventKind::SessionsEnded, text);
    }

    /// Reports the statements that a successful command has left on the server.
    fn report_executing(&mut self, ending: &EndingSessions) {
        let until = clock::now() + LOOK_TIMEOUT;
        let mut is_sent = false;
        while clock::now() < until {
            if !is_sent && !self.has_open_request() {
                self.send(ending.look_only());
                is_sent = true;
            }
            let Some(Event::Response(response)) = self.event(until) else {
                continue;
            };
            if let Ok(Response::Sessions(left)) = response.outcome {
                let executing = left.found.listed;
                for listed in executing.iter().filter(|listed| listed.is_executing()) {
                    let text = format_args!(
                        "{} of the command still executes a statement on the server",
                        messages::session(listed)
                    );
                    self.report.debug(EventKind::SessionsLeft, text);
                }
                return;
            }
        }
    }
}
