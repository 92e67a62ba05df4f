//! One client: its parent, its connection to the server, its monitor and its command. The parent runs the real
//! [`Acquire`] and [`Renewals`]. If the parent dies, the monitor takes its place, with the real [`AbandonedLease`].
//!
//! The parent may be stopped at any time and for any number of ticks. The monitor and the kernel complete all due work
//! within the tick.

use std::sync::Arc;
use std::time::Duration;

use dlock::exit::Status;
use dlock::lease::Token;
use dlock::lease::timing::Timing;
use dlock::outcome::{KilledRemains, RunFacts, RunOutcome, release_after_death};
use dlock::process::supervisor::{Effect, StopReason, SupervisorInput};
use dlock::protocol::abandoned::{AbandonedLease, AbandonedStep};
use dlock::protocol::acquire::{Acquire, AcquiredLease, NextRequest, WaitLimits};
use dlock::protocol::release::{self, Released, Releasing};
use dlock::protocol::renew::{Liveness, RenewalOutcome, Renewals};
use dlock::protocol::sessions::SessionTracker;
use dlock::store::session::{CommandConnections, SessionPolicy};
use dlock::store::{Loss, ReleaseRequest, Request, Response, TimedResponse};
use dlock::sys::tree::ExitReason;

use crate::ending::{EndedRun, Ending};
use crate::monitor::Monitor;
use crate::mutation::Variant;
use crate::responses::{interpret, not_acquired, timed_response};
use crate::server::statements::SessionIds;
use crate::server::{Raw, RowView, Stage, owner_id_of_number};
use crate::time::{TTL, Tick, instant, ticks, timing};

const KILL: i32 = 9;

/// A request that was sent and whose response has not been read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PendingRequest {
    pub(crate) request: Arc<Request>,
    /// True if this is the first request on its connection.
    pub(crate) is_first: bool,
    /// The packet that is executed next.
    pub(crate) stage: Stage,
    sent: Tick,
    pub(crate) progress: Progress,
}

impl PendingRequest {
    /// Returns true if a late execution of the request could do harm because it may change the row.
    pub(crate) fn may_be_late(&self) -> bool {
        match *self.request {
            // The first packet of a renewal that looks for sessions changes nothing.
            Request::Renew(ref request) => {
                let look = request.look.as_ref();
                self.stage != Stage::First || look.is_none_or(|look| look.is_empty())
            }
            Request::TryAcquire(_) | Request::HandOff(_) | Request::Release(_) => true,
            Request::WaitTurn(_) => self.stage == Stage::HasQueueLock,
            Request::GetWithQueue(_)
            | Request::Enqueue(_)
            | Request::Get
            | Request::EndSessions(_) => false,
        }
    }
}

/// The progress of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Progress {
    /// The server has not executed the packet.
    Sent,
    /// The server executed the packet at this tick with this result. The client has not read the result.
    Executed(Raw, Tick),
}

/// The state of a connection that may be stalled, or of a process that may be stopped. Each stall or stop lasts at
/// least until the next tick, because a shorter one is equivalent to another order of events within the tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum StopState {
    /// The connection or process is not halted.
    None,
    /// Halted in the current tick.
    ThisTick,
    /// Halted in an earlier tick, and may resume.
    EarlierTick,
}

/// A connection of the client to the server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Connection {
    /// True until the server ends the session.
    pub(crate) alive: bool,
    /// State of the connection. A stall blocks packets in both directions.
    pub(crate) stalled: StopState,
    /// Tick of the last request that the server received.
    pub(crate) last_received: Tick,
    /// True if the client has read the response to a renewal on this connection. The row then contains the session of
    /// this connection.
    pub(crate) session_is_recorded: bool,
    pub(crate) pending: Option<PendingRequest>,
    /// An earlier request whose response the client no longer waits for. Only used by [`Variant::ConnectionReused`].
    pub(crate) previous: Option<PendingRequest>,
}

/// The state of the process that talks to the server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Parent {
    NotStarted,
    Acquiring(Arc<Acquire>),
    /// Waits for the statements of an earlier run or of its own command to end.
    Ending(Arc<Ending>),
    /// The lease is granted. The monitor has not received the grant.
    Granted(AcquiredLease),
    Holding {
        renewals: Renewals,
        lease: AcquiredLease,
        loss: Option<Loss>,
        sessions: Arc<SessionTracker>,
    },
    Releasing {
        releasing: Releasing,
        outcome: RunOutcome,
        /// The loss of the lease that a renewal reported. None if no renewal reported a loss.
        loss: Option<Loss>,
        /// True if the run ended because an operator had revoked the lease.
        revoked: bool,
        /// Number of sessions of the command that this process has killed.
        sessions_ended: u32,
    },
    /// The parent is dead, and the monitor ends the lease when the command's tree is dead.
    Abandoned(Arc<AbandonedLease>),
    Ended {
        released: bool,
    },
}

/// The state of the command with its process tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Command {
    NotStarted,
    Running,
    /// Killed. The process tree is dead at the end of the current tick.
    Dying,
    Ended,
}

/// A client, which runs one dlock process at a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    /// Number of the current dlock process of this client. The owner id contains this number and the client's number.
    pub(crate) process: u8,
    pub(crate) parent: Parent,
    /// State of the parent, which may be stopped.
    pub(crate) paused: StopState,
    pub(crate) connection: Option<Connection>,
    /// A request on a dropped connection. The server may still execute it. None if there is no such request.
    pub(crate) late: Option<PendingRequest>,
    /// True if the server has executed a renewal late, and no renewal since. The row may then contain an old session.
    pub(crate) late_renewal: bool,
    /// True if a fault of the server or of this client has happened since the start of the current process.
    pub(crate) had_fault: bool,
    pub(crate) monitor: Option<Monitor>,
    /// Tick until which the lease of the latest process lasts, if its parent was killed. None if it was not, or after that
    /// tick.
    pub(crate) abandoned_until: Option<Tick>,
    pub(crate) command: Command,
    /// True if the command has ended with a status that is not 0.
    pub(crate) failed: bool,
    /// What the client does with the sessions of its command.
    pub(crate) policy: SessionPolicy,
    /// The sessions of the command on the server.
    pub(crate) sessions: SessionIds,
    /// The token of a run that ended with status 0 in this step. None if no such run ended.
    pub(crate) success: Option<u8>,
    /// True if a run ended with status 0 although its lease was reported or recorded as lost or revoked.
    pub(crate) false_success: bool,
}

impl Client {
    pub(crate) const fn new(policy: SessionPolicy) -> Self {
        Self {
            process: 0,
            parent: Parent::NotStarted,
            paused: StopState::None,
            connection: None,
            late: None,
            late_renewal: false,
            had_fault: false,
            monitor: None,
            abandoned_until: None,
            command: Command::NotStarted,
            failed: false,
            policy,
            sessions: SessionIds::EMPTY,
            success: None,
            false_success: false,
        }
    }

    pub(crate) const fn is_running(&self) -> bool {
        matches!(self.command, Command::Running | Command::Dying)
    }

    /// Returns true if the client does not wait for sessions.
    pub(crate) fn ignores(&self) -> bool {
        self.policy == SessionPolicy::Ignore
    }

    /// Returns true if this process waits for the lease and has read no token that is at least `token`.
    pub(crate) fn has_not_read(&self, token: u8) -> bool {
        let Parent::Acquiring(acquire) = &self.parent else {
            return false;
        };
        let read = acquire.last_read().map(|last| last.version.token);
        read.is_none_or(|read| read < Token(token.into()))
    }

    /// Passes the response to a read on another connection to this process, which waits for the lease.
    pub(crate) fn handle_read(&mut self, now: Tick, view_of_row: RowView) {
        if let Parent::Acquiring(acquire) = &mut self.parent {
            let response = timed_response(now, now, Ok(not_acquired(view_of_row)));
            Arc::make_mut(acquire).handle_read(&response);
        }
    }

    /// Returns true if the parent does not wait for a response.
    pub(crate) fn is_quiet(&self) -> bool {
        self.connection
            .as_ref()
            .is_none_or(|connection| connection.pending.is_none())
    }

    /// Starts a new dlock process, which then tries to acquire the lease.
    pub(crate) fn begin(&mut self, now: Tick, number: usize) {
        self.process += 1;
        let owner_id = owner_id_of_number(owner_id_of(number, self.process));
        let limits = WaitLimits {
            wait: None,
            connect: ticks(u8::MAX),
        };
        self.monitor = None;
        self.abandoned_until = None;
        self.command = Command::NotStarted;
        self.failed = false;
        self.had_fault = false;
        let acquire = Acquire::new(owner_id, timing(), limits, instant(now));
        self.parent = Parent::Acquiring(Arc::new(acquire));
    }

    /// Returns true if the parent can make a step without an input.
    pub(crate) fn has_to_act(&self, now: Tick, variant: Variant) -> bool {
        self.is_quiet()
            && match &self.parent {
                Parent::NotStarted | Parent::Granted(_) | Parent::Ended { .. } => false,
                _ => self.clone().act(now, variant),
            }
    }

    /// Makes a step of the parent without an input. Returns false if no step was possible.
    pub(crate) fn act(&mut self, now: Tick, variant: Variant) -> bool {
        match &mut self.parent {
            Parent::Acquiring(acquire) => match Arc::make_mut(acquire).next(instant(now)) {
                NextRequest::Send(request) => self.send(now, request),
                NextRequest::Granted(lease) => {
                    let ending = Ending::of_record(now, self, lease);
                    let ending = ending.filter(|_| variant != Variant::EarlierStatementsIgnored);
                    self.parent = match ending {
                        Some(ending) => Parent::Ending(Arc::new(ending)),
                        None => Parent::Granted(lease),
                    };
                }
                NextRequest::Wait(_) => return false,
                other => panic!("the model sets no wait limit: {other:?}"),
            },
            Parent::Ending(_) => return self.act_while_ending(now, variant),
            Parent::Holding { .. }
                if self.command == Command::Ended
                    || (variant == Variant::EarlyRelease
                        && self.monitor.is_some_and(|monitor| monitor.is_stopping())) =>
            {
                self.end_run(now, variant);
            }
            Parent::Holding {
                renewals, sessions, ..
            } => match renewals.due(instant(now)) {
                Some(mut request) => {
                    if self.policy != SessionPolicy::Ignore {
                        let is_running = self.command == Command::Running;
                        let connections = match is_running {
                            true => self.sessions.connections(),
                            false => CommandConnections::default(),
                        };
                        let sessions = Arc::make_mut(sessions);
                        sessions.update(connections);
                        request.look = sessions.look().map(Box::new);
                    }
                    self.send(now, Request::Renew(request));
                }
                None => return false,
            },
            Parent::Releasing { releasing, .. } => match releasing.next(instant(now)) {
                release::ReleaseStep::Send(Request::HandOff(_)) if self.connection.is_none() => {
                    // A hand-off on a new session is not valid, so no request is sent.
                    let response = timed_response(now, now, Ok(Response::NotHolder(None)));
                    releasing.handle_response(instant(now), &response);
                    self.act(now, variant);
                }
                release::ReleaseStep::Send(request) => self.send(now, request),
                release::ReleaseStep::Wait(_) => return false,
                release::ReleaseStep::Finished(released) => self.finish(&released, variant),
            },
            Parent::Abandoned(lease) => {
                if self.command != Command::Ended && variant != Variant::ReleasedBeforeDeath {
                    return false;
                }
                match Arc::make_mut(lease).next(instant(now)) {
                    AbandonedStep::Send(request) => self.send(now, request),
                    AbandonedStep::Wait(_) => return false,
                    AbandonedStep::Over => self.parent = Parent::Ended { released: false },
                }
            }
            Parent::NotStarted | Parent::Granted(_) | Parent::Ended { .. } => return false,
        }
        true
    }

    /// Passes the lease of the dead parent, which held it, to the monitor. Returns false if the monitor is not responsible
    /// for it.
    pub(crate) fn abandon(&mut self, now: Tick) -> bool {
        let (Parent::Holding { lease, .. }, Some(monitor)) = (&self.parent, self.monitor) else {
            return false;
        };
        // A monitor that has died has not stopped the command.
        if self.command != Command::Running && !monitor.is_stopping() || !self.is_running() {
            return false;
        }
        let release = release_after_death(lease.grant, RunFacts::default(), Duration::ZERO);
        let until = monitor.deadline.kill;
        let abandoned = AbandonedLease::new(release, self.policy, until, instant(now));
        self.parent = Parent::Abandoned(Arc::new(abandoned));
        self.abandoned_until = (now..u8::MAX).find(|tick| instant(*tick) >= until);
        true
    }

    /// Ends the run, whose command is dead, or is being stopped in [`Variant::EarlyRelease`]. First ends the sessions of
    /// the command, unless it has succeeded.
    fn end_run(&mut self, now: Tick, variant: Variant) {
        let Parent::Holding {
            lease,
            loss,
            renewals,
            sessions,
        } = &self.parent
        else {
            return;
        };
        let is_stopped = self.monitor.is_some_and(|monitor| monitor.is_stopping());
        let (exit_reason, stop_reason) = match is_stopped && loss.is_none() {
            true => (ExitReason::Killed(KILL), StopReason::Expired),
            // Even if a loss was reported, the command may have exited before the monitor stopped it.
            false => (ExitReason::Exited(self.failed.into()), StopReason::None),
        };
        let reported_loss = loss.filter(|_| variant != Variant::ExitStatusTrusted);
        let run = EndedRun {
            outcome: RunOutcome::of(exit_reason, stop_reason, reported_loss),
            loss: *loss,
            is_recorded: sessions.is_recorded(),
            clears_record: sessions.clears_record(),
        };
        let lease = AcquiredLease {
            queue_lock: renewals.queue_lock(),
            ..*lease
        };
        match sessions.left() {
            Some(look) if run.outcome != RunOutcome::Exited(0) => {
                let ending = Ending::of_run(now, look, renewals.clone(), lease, run);
                self.parent = Parent::Ending(Arc::new(ending));
                self.act(now, variant);
            }
            _ => self.begin_release(now, lease, run, run.clears_record, 0, variant),
        }
    }

    /// Begins the release of the lease. `clears_sessions` is true if the release removes the noted sessions from the row.
    pub(crate) fn begin_release(
        &mut self,
        now: Tick,
        lease: AcquiredLease,
        run: EndedRun,
        clears_sessions: bool,
        sessions_ended: u32,
        variant: Variant,
    ) {
        let EndedRun { outcome, loss, .. } = run;
        let facts = RunFacts {
            killed: KilledRemains {
                sessions: sessions_ended,
                processes: 0,
            },
            ..RunFacts::default()
        };
        let request = ReleaseRequest {
            has_entry: lease.has_entry,
            clears_sessions,
            ..outcome.request(lease.grant, lease.queue_lock, facts, Duration::ZERO)
        };
        self.parent = Parent::Releasing {
            releasing: Releasing::new(request, !run.is_recorded, instant(now)),
            outcome,
            loss,
            revoked: outcome == RunOutcome::Revoked,
            sessions_ended,
        };
        self.act(now, variant);
    }

    /// Begins the release of a lease or a queue entry without a run.
    pub(crate) fn release_without_run(&mut self, now: Tick, request: ReleaseRequest) {
        self.parent = Parent::Releasing {
            releasing: Releasing::new(request, false, instant(now)),
            outcome: RunOutcome::Killed(0),
            loss: None,
            revoked: false,
            sessions_ended: 0,
        };
    }

    /// Ends the dlock process after its release.
    fn finish(&mut self, released: &Released, variant: Variant) {
        if let Parent::Releasing { outcome, loss, .. } = &self.parent {
            let outcome = match variant {
                Variant::ExitStatusTrusted => *outcome,
                _ => outcome.after(released),
            };
            if outcome.status() == Status::OK {
                self.false_success |= loss.is_some();
                self.success = self.token();
            }
            let released = outcome.held_lease();
            self.parent = Parent::Ended { released };
        }
    }

    pub(crate) fn send(&mut self, now: Tick, request: Request) {
        let is_first = self.connection.is_none();
        let connection = self.connection.get_or_insert(Connection {
            alive: true,
            stalled: StopState::None,
            last_received: now,
            session_is_recorded: false,
            pending: None,
            previous: None,
        });
        connection.pending = Some(PendingRequest {
            request: Arc::new(request),
            is_first,
            stage: Stage::First,
            sent: now,
            progress: Progress::Sent,
        });
    }

    /// Passes the grant to the monitor, which starts the command unless it is too late. Returns true if the command was
    /// started.
    pub(crate) fn start_command(
        &mut self,
        now: Tick,
        lease: AcquiredLease,
        variant: Variant,
    ) -> bool {
        let timing = model_timing(variant);
        let mut monitor = Monitor::new(timing.deadline(lease.sent));
        self.parent = Parent::Holding {
            renewals: Renewals::new(
                lease.grant,
                lease.queue_lock,
                timing,
                lease.sent,
                Liveness::NotRequired,
            ),
            lease,
            loss: None,
            sessions: Arc::new(SessionTracker::new(
                lease.grant.token,
                self.policy,
                lease.earlier_sessions,
            )),
        };
        let is_late = !monitor.step(now, SupervisorInput::Tick).is_empty();
        if is_late && variant != Variant::StartWithoutClockCheck {
            self.command = Command::Ended;
            return false;
        }
        self.monitor = Some(monitor);
        self.command = Command::Running;
        true
    }

    /// Makes the parent read the response that has arrived.
    pub(crate) fn read(&mut self, now: Tick, variant: Variant) {
        let connection = self.connection.as_mut().expect("the connection exists");
        let mut pending = connection.pending.take().expect("a request is pending");
        let progress = match connection.previous.take() {
            Some(previous) => {
                // From now on, the parent reads the response to each request as the response to the next request.
                connection.previous = Some(pending.clone());
                previous.progress
            }
            None => pending.progress,
        };
        let Progress::Executed(raw, received) = progress else {
            panic!("the request has no response");
        };
        if let Some(next) = raw.next(&pending.request) {
            pending.stage = next;
            // A deadline is measured from the time at which the last packet of the request is sent.
            pending.sent = now;
            pending.progress = Progress::Sent;
            connection.pending = Some(pending);
            return;
        }
        let mut outcome = interpret(&pending.request, raw, variant);
        if let (
            Variant::DatabaseIgnored,
            Ok(Response::NotAcquired(_, queue) | Response::Enqueued(_, queue)),
        ) = (variant, &mut outcome)
        {
            queue.database = None;
        }
        match &outcome {
            Err(_) => self.connection = None,
            Ok(response) => {
                connection.session_is_recorded |= matches!(response, Response::Renewed(_));
            }
        }
        let sent = match variant {
            Variant::DeadlineFromResponse => now,
            _ => pending.sent,
        };
        self.handle_response(now, timed_response(sent, received, outcome), variant);
    }

    /// Passes a response or a failure to the current state machine of the parent.
    pub(crate) fn handle_response(&mut self, now: Tick, response: TimedResponse, variant: Variant) {
        match &mut self.parent {
            Parent::Acquiring(acquire) => {
                Arc::make_mut(acquire).handle_response(instant(now), &response);
                self.act(now, variant);
            }
            Parent::Ending(_) => self.handle_response_while_ending(now, response, variant),
            Parent::Holding {
                renewals,
                loss,
                sessions,
                ..
            } => {
                // dlock ignores the found sessions if the command has ended.
                let is_tracked =
                    self.policy != SessionPolicy::Ignore && self.command != Command::Ended;
                let input = match renewals.handle_response(instant(now), response) {
                    RenewalOutcome::Renewed(deadline, look) => {
                        if is_tracked {
                            Arc::make_mut(sessions).looked(look.map(|look| *look));
                        }
                        SupervisorInput::Renewed(deadline)
                    }
                    RenewalOutcome::Lost(reason, _) => {
                        *loss = Some(reason);
                        SupervisorInput::Lost
                    }
                    RenewalOutcome::Failed(_) | RenewalOutcome::GrantLost { .. } => {
                        if is_tracked {
                            Arc::make_mut(sessions).looked(None);
                        }
                        return;
                    }
                };
                self.step_monitor(now, input);
            }
            Parent::Releasing { releasing, .. } => {
                // A response that arrives before the release is sent belongs to a renewal, and is ignored.
                if releasing.is_in_flight() {
                    releasing.handle_response(instant(now), &response);
                }
                self.act(now, variant);
            }
            Parent::Abandoned(lease) => {
                Arc::make_mut(lease).handle_response(instant(now), response);
                self.act(now, variant);
            }
            Parent::NotStarted | Parent::Granted(_) | Parent::Ended { .. } => {
                panic!("no request was sent")
            }
        }
    }

    /// Passes an input to the monitor, which may kill the command.
    pub(crate) fn step_monitor(&mut self, now: Tick, input: SupervisorInput) {
        let (Some(monitor), Command::Running) = (&mut self.monitor, self.command) else {
            return;
        };
        if monitor.step(now, input).contains(&Effect::Stop(KILL)) {
            self.command = Command::Dying;
        }
    }

    /// Returns true if the monitor must act in the current tick.
    pub(crate) fn is_due(&self, now: Tick) -> bool {
        self.command == Command::Running
            && self.monitor.is_some_and(|monitor| {
                let wake = monitor.supervisor().wake_at();
                wake.is_some_and(|wake| wake <= instant(now))
            })
    }

    /// Removes state that no longer has an effect.
    pub(crate) fn normalize(&mut self, now: Tick, ticked: bool) {
        if let Parent::Acquiring(acquire) = &mut self.parent {
            // If the `Acquire` is shared with the previous state of the model, it has not changed.
            if ticked || Arc::get_mut(acquire).is_some() {
                Arc::make_mut(acquire).normalize_for_model(instant(now));
            }
        }
        if let Parent::Releasing { releasing, .. } = &mut self.parent {
            releasing.normalize_for_model(instant(now));
        }
        if let Parent::Ending(ending) = &mut self.parent {
            Arc::make_mut(ending).normalize(now);
        }
        if let Parent::Abandoned(lease) = &mut self.parent {
            Arc::make_mut(lease).normalize_for_model(instant(now));
        }
        if let Some(connection) = &mut self.connection {
            let pending = connection.pending.as_ref();
            if pending.is_some_and(|a| a.progress == Progress::Sent)
                || now >= connection.last_received + TTL
            {
                connection.last_received = 0;
            }
            if let Some(pending) = &mut connection.pending
                && !matches!(
                    *pending.request,
                    Request::TryAcquire(_) | Request::Renew(..) | Request::WaitTurn(_)
                )
            {
                pending.sent = 0;
            }
        }
        if let Some(late) = &mut self.late {
            late.sent = 0;
        }
        if self.abandoned_until.is_some_and(|until| now >= until) {
            self.abandoned_until = None;
        }
        if !self.is_running()
            && let Some(monitor) = &mut self.monitor
        {
            *monitor = Monitor::new(timing().deadline(instant(0)));
        }
    }

    /// Drops the connection. The server may still execute a request that was sent on it.
    pub(crate) fn drop_connection(&mut self) {
        if let Some(connection) = self.connection.take()
            && let Some(pending) = connection.pending
            && connection.alive
            && pending.progress == Progress::Sent
            && pending.may_be_late()
        {
            self.late = Some(pending);
        }
    }

    /// Handles the end of the server's connections. A parent that waits for a response notices it later.
    pub(crate) fn notice_end_of_server(&mut self) {
        if self.is_quiet() {
            self.connection = None;
        }
    }

    /// Returns true if the monitor has not stopped the command and no loss of the lease was reported.
    pub(crate) fn is_unharmed(&self) -> bool {
        let is_stopped = self.monitor.is_some_and(|monitor| monitor.is_stopping());
        !is_stopped && !matches!(self.parent, Parent::Holding { loss: Some(_), .. })
    }

    /// Returns the token of the current process's lease, even if the lease has expired. None if the process has no
    /// lease.
    pub(crate) fn token(&self) -> Option<u8> {
        let token = match &self.parent {
            Parent::Granted(lease) | Parent::Holding { lease, .. } => lease.grant.token,
            Parent::Ending(ending) => ending.lease().grant.token,
            Parent::Releasing { releasing, .. } => releasing.token()?,
            Parent::Abandoned(lease) => lease.token()?,
            Parent::Acquiring(_) | Parent::NotStarted | Parent::Ended { .. } => return None,
        };
        u8::try_from(token.0).ok()
    }

    /// Returns the owner id of the current dlock process.
    pub(crate) fn owner_id(&self, number: usize) -> u8 {
        owner_id_of(number, self.process)
    }
}

fn owner_id_of(number: usize, process: u8) -> u8 {
    u8::try_from(number).expect("two clients") * 8 + process
}

fn model_timing(variant: Variant) -> Timing {
    match variant {
        Variant::NoMargin => Timing {
            margin: ticks(0),
            ..timing()
        },
        _ => timing(),
    }
}
