//! One client: its parent, its connection to the server, its monitor and its command. The parent runs the real
//! [`Keeper`]. If the parent dies, the monitor takes its place, with the real [`AbandonedLease`].
//!
//! The parent may be stopped at any time and for any number of ticks. The monitor and the kernel complete all due work
//! within the tick.

use std::sync::Arc;
use std::time::Duration;

use dlock::exit::Status;
use dlock::lease::limit::Limit;
use dlock::lease::{Grant, Token};
use dlock::outcome::{RunFacts, RunOutcome, release_after_death};
use dlock::process::supervisor::{Effect, StopReason, SupervisorInput};
use dlock::protocol::acquire::{Acquire, NotGranted, WaitLimits};
use dlock::protocol::keeper::{
    Input, Keeper, KeeperSettings, LeftSessions, Notice, PhaseKind, ReleaseEffort, Step, WorkEnd,
};
use dlock::protocol::release::Released;
use dlock::protocol::renew::Liveness;
use dlock::store::session::{CommandConnections, SessionPolicy};
use dlock::store::{FailureKind, LockRecord, Loss, Request, Response, RunHistory, TimedResponse};
use dlock::sys::tree::ExitReason;

use crate::monitor::Monitor;
use crate::mutation::{Run, Variant};
use crate::responses::{failure, interpret, not_acquired, timed_response};
use crate::server::statements::SessionIds;
use crate::server::{Raw, RowView, Stage, owner_id_of_number};
use crate::time::{TTL, Tick, instant, ticks, timing};
use crate::trace;

const KILL: i32 = 9;

/// A run after which others are likely to wait.
const LONG_RUN: Duration = Duration::from_secs(1);

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
    /// Returns true while the server may still wait for room among the slots.
    pub(crate) fn waits_for_room(&self, now: Tick) -> bool {
        let Request::WaitTurn(turn) = &*self.request else {
            return false;
        };
        let limit = turn.limit.filter(|_| turn.room.is_some());
        let until = limit.map(|limit| instant(self.sent) + limit);
        self.stage == Stage::First && until.is_some_and(|until| instant(now) < until)
    }

    /// Returns true if a late execution of the request could do harm because it may change the row.
    pub(crate) fn may_be_late(&self) -> bool {
        match *self.request {
            // The first packet of a renewal that looks for sessions changes nothing.
            Request::Renew(ref request) => {
                let look = request.look.as_ref();
                self.stage != Stage::First || look.is_none_or(|look| look.is_empty())
            }
            Request::TryAcquire(_)
            | Request::HandOff(_)
            | Request::RemoveNote(_)
            | Request::Release(_) => true,
            Request::WaitTurn(_) => self.stage == Stage::HasQueueLock,
            Request::GetWithQueue(_)
            | Request::Enqueue(_)
            | Request::Get
            | Request::GetNote(_)
            | Request::EndSessions(_) => false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Progress {
    Sent,
    /// The server executed the packet at this tick with this result. The client has not read the result.
    Executed(Raw, Tick),
}

/// The state of a connection that may be stalled, or of a process that may be stopped. Each stall or stop lasts at
/// least until the next tick, because a shorter one is equivalent to another order of events within the tick.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum StopState {
    #[default]
    None,
    /// Halted in the current tick.
    ThisTick,
    /// Halted in an earlier tick, and may resume.
    EarlierTick,
}

#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Connection {
    /// True until the server ends the session.
    pub(crate) alive: bool,
    /// A stall blocks packets in both directions.
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
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Parent {
    #[default]
    NotStarted,
    Alive(Arc<Keeper>),
    /// The parent is dead, and the monitor ends the lease when the command's tree is dead.
    Abandoned(Arc<Keeper>),
    Ended {
        released: bool,
    },
}

/// The state of the command with its process tree.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Command {
    #[default]
    NotStarted,
    Running,
    /// Killed. The process tree is dead at the end of the current tick.
    Dying,
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct EndedRun {
    pub(crate) outcome: RunOutcome,
    grant: Grant,
}

/// A client, which runs one dlock process at a time.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each flag is an independent part of the state"
)]
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) number: usize,
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
    /// True while a read of the record over a new connection runs.
    pub(crate) reads_address: bool,
    /// True if the connection is to be dropped when no request is in flight.
    pub(crate) drops_connection: bool,
    /// The loss of the lease that a renewal reported. None if no renewal reported a loss.
    loss: Option<Loss>,
    /// The run that has ended, until the parent ends. None if no run has ended.
    pub(crate) run: Option<EndedRun>,
    /// The sessions of the command on the server.
    pub(crate) sessions: SessionIds,
    /// The token of a run that ended with status 0 in this step. None if no such run ended.
    pub(crate) success: Option<u8>,
    /// True if a release of the current process has found no lease.
    found_no_lease: bool,
    /// True if a run ended with status 0 although its lease was reported or recorded as lost or revoked.
    pub(crate) false_success: bool,
}

impl Client {
    pub(crate) fn new(number: usize) -> Self {
        Self {
            number,
            ..Self::default()
        }
    }

    pub(crate) const fn is_running(&self) -> bool {
        matches!(self.command, Command::Running | Command::Dying)
    }

    /// Returns the request that was sent and whose response has not been read. None if there is none.
    pub(crate) fn pending(&self) -> Option<&PendingRequest> {
        self.connection.as_ref()?.pending.as_ref()
    }

    pub(crate) fn has_sent(&self, is_request: impl Fn(&Request) -> bool) -> bool {
        self.pending().is_some_and(|it| is_request(&it.request))
    }

    /// Returns true if the command must not run beside noted statements of earlier runs.
    pub(crate) fn waits_for_statements(&self, run: &Run) -> bool {
        let is_ignored = run.policies[self.number] == SessionPolicy::Ignore;
        self.is_running() && self.is_holding() && !is_ignored
    }

    pub(crate) fn is_releasing(&self) -> bool {
        self.phase() == Some(PhaseKind::Releasing)
    }

    /// Returns the phase of the keeper. None if the parent does not run.
    pub(crate) fn phase(&self) -> Option<PhaseKind> {
        match &self.parent {
            Parent::Alive(keeper) => Some(keeper.phase()),
            _ => None,
        }
    }

    const fn keeper_mut(&mut self) -> Option<&mut Arc<Keeper>> {
        match &mut self.parent {
            Parent::Alive(keeper) | Parent::Abandoned(keeper) => Some(keeper),
            Parent::NotStarted | Parent::Ended { .. } => None,
        }
    }

    /// Returns true if the lease is granted and the monitor has not received the grant.
    pub(crate) fn is_granted(&self) -> bool {
        self.phase() == Some(PhaseKind::Held) && self.command == Command::NotStarted
    }

    /// Returns true from the start of the command until its end is known.
    pub(crate) fn is_holding(&self) -> bool {
        self.phase() == Some(PhaseKind::Held) && self.command != Command::NotStarted
    }

    /// Returns true if this process waits for the lease and has read no token that is at least `token`.
    pub(crate) fn has_not_read(&self, token: u8) -> bool {
        let Parent::Alive(keeper) = &self.parent else {
            return false;
        };
        let read = |acquire: &Acquire| acquire.last_read().map(|last| last.version.token);
        (keeper.acquire())
            .is_some_and(|acquire| read(acquire).is_none_or(|read| read < Token(token.into())))
    }

    /// Passes the response to a read on another connection to this process, which waits for the lease.
    pub(crate) fn handle_read(&mut self, now: Tick, view_of_row: RowView) {
        if let Parent::Alive(keeper) = &mut self.parent {
            let response = timed_response(now, now, Ok(not_acquired(view_of_row)));
            Arc::make_mut(keeper).handle(instant(now), Input::QueueRead(&response));
        }
    }

    /// Passes the result of a read over a new connection to the parent. None if the read failed.
    pub(crate) fn handle_address_read(
        &mut self,
        now: Tick,
        record: Option<&LockRecord>,
        run: &Run,
    ) {
        self.reads_address = false;
        if let Parent::Alive(keeper) = &mut self.parent {
            Arc::make_mut(keeper).handle(instant(now), Input::AddressRead(record));
            self.handle_notices(now, run);
        }
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.pending().is_none()
    }

    /// Starts a new dlock process, which then tries to acquire the lease.
    pub(crate) fn begin(&mut self, now: Tick, run: &Run) {
        self.process += 1;
        self.monitor = None;
        self.abandoned_until = None;
        self.command = Command::NotStarted;
        (self.failed, self.had_fault) = (false, false);
        (self.loss, self.run, self.found_no_lease) = (None, None, false);
        (self.reads_address, self.drops_connection) = (false, false);
        let settings = KeeperSettings {
            checks_address: run.checks_address,
            limit: run.limits[self.number],
            ..self.settings(run)
        };
        let owner_id = owner_id_of_number(self.owner_id());
        self.parent = Parent::Alive(Arc::new(Keeper::new(owner_id, settings, instant(now))));
    }

    fn settings(&self, run: &Run) -> KeeperSettings {
        settings(run.policies[self.number], run.variant)
    }

    /// Returns true if the parent can make a step without an input.
    pub(crate) fn has_to_act(&self, now: Tick, run: &Run) -> bool {
        match &self.parent {
            Parent::NotStarted | Parent::Ended { .. } => false,
            // Only a time limit can end these waits for a response.
            Parent::Alive(_)
                if !self.is_quiet()
                    && matches!(self.phase(), Some(PhaseKind::Acquiring | PhaseKind::Held)) =>
            {
                false
            }
            Parent::Abandoned(_) if !self.is_quiet() => false,
            _ => self.clone().act(now, run),
        }
    }

    /// Makes a step of the parent without an input. Returns false if no step was possible.
    pub(crate) fn act(&mut self, now: Tick, run: &Run) -> bool {
        match &mut self.parent {
            // The monitor waits until the tree is dead.
            Parent::Abandoned(_)
                if self.command != Command::Ended
                    && run.variant != Variant::ReleasedBeforeDeath =>
            {
                false
            }
            Parent::Alive(_) | Parent::Abandoned(_) => self.act_with_keeper(now, run),
            Parent::NotStarted | Parent::Ended { .. } => false,
        }
    }

    fn act_with_keeper(&mut self, now: Tick, run: &Run) -> bool {
        if self.is_granted() && !run.waits_for_others {
            return false;
        }
        let is_stopping = self.monitor.is_some_and(|monitor| monitor.is_stopping());
        let releases_early = match run.variant {
            Variant::EarlyRelease => is_stopping,
            Variant::ReleasedAtLoss => self.loss.is_some(),
            _ => false,
        };
        let mut input = None;
        if self.is_holding() && (self.command == Command::Ended || releases_early) {
            input = self.end_run(run).map(Input::WorkEnded);
        } else if self.is_holding() && self.is_quiet() {
            input = Some(Input::Connections(match self.command {
                Command::Running => self.sessions.connections(),
                _ => CommandConnections::default(),
            }));
        }
        let has_ended = matches!(input, Some(Input::WorkEnded(_)));
        let is_connected = self.connection.is_some();
        let Some(keeper) = self.keeper_mut() else {
            return false;
        };
        let keeper = Arc::make_mut(keeper);
        if let Some(input) = input {
            keeper.handle(instant(now), input);
        }
        let before = keeper.phase();
        let step = keeper.poll(instant(now));
        let has_moved = has_ended || keeper.phase() != before;
        let has_acted = match step {
            // A hand-off on a new session is not valid, so no request is sent.
            Step::Send(Request::HandOff(_)) if !is_connected => {
                let response = timed_response(now, now, Ok(Response::NotHolder(None)));
                keeper.handle(instant(now), Input::Response(Box::new(response)));
                self.act(now, run);
                true
            }
            Step::Send(request) => {
                self.handle_notices(now, run);
                self.send(now, misused(request, run.variant));
                true
            }
            Step::Wait(_) => has_moved,
            Step::Over => {
                let released = self.handle_notices(now, run);
                self.parent = Parent::Ended { released };
                (self.loss, self.run) = (None, None);
                true
            }
            Step::ReadAddress(_) => {
                self.reads_address = true;
                true
            }
            Step::Reconnect => {
                self.drops_connection = true;
                true
            }
            Step::Interrupt => panic!("the model gives up at once"),
        };
        self.handle_notices(now, run);
        has_acted
    }

    /// Handles what the keeper reports. Returns true if a lease that was held until then is released.
    fn handle_notices(&mut self, now: Tick, run: &Run) -> bool {
        let mut is_released = false;
        while let Some(keeper) = self.keeper_mut() {
            let Some(notice) = Arc::make_mut(keeper).notice() else {
                break;
            };
            trace::add(|| format!("notice {}", trace::notice(&notice)));
            let deadline = keeper.deadline();
            match notice {
                Notice::Renewed { .. } => {
                    if let Some(deadline) = deadline {
                        self.step_monitor(now, SupervisorInput::Renewed(deadline));
                    }
                }
                Notice::Lost(loss, _) => {
                    self.loss = Some(loss);
                    // A program may not have read the event yet.
                    if !run.holds {
                        self.step_monitor(now, SupervisorInput::Lost);
                    }
                    if self.is_granted()
                        && let Some(keeper) = self.keeper_mut()
                    {
                        Arc::make_mut(keeper).handle(instant(now), Input::GiveUp);
                    }
                }
                Notice::Released(released) => is_released = self.released(&released, run),
                Notice::NotReleased(_) => self.not_released(run),
                Notice::NotGranted(NotGranted::AlreadyDone(_)) => {}
                Notice::NotGranted(reason) => panic!("the model sets no wait limit: {reason:?}"),
                _ => {}
            }
        }
        is_released
    }

    /// Gives up the wait for the lease, or for the sessions of a command. The request in flight is interrupted.
    pub(crate) fn give_up(&mut self, now: Tick, run: &Run) {
        if let Parent::Alive(keeper) = &mut self.parent {
            let keeper = Arc::make_mut(keeper);
            keeper.handle(instant(now), Input::GiveUp);
            if keeper.has_open_request() {
                let interrupted = timed_response(now, now, Err(failure(FailureKind::Unknown)));
                keeper.handle(instant(now), Input::Response(Box::new(interrupted)));
            }
            self.act(now, run);
        }
    }

    /// Passes the lease of the dead parent, which held it, to the monitor. Returns false if the monitor is not responsible
    /// for it.
    pub(crate) fn abandon(&mut self, now: Tick, run: &Run) -> bool {
        let (Parent::Alive(keeper), Some(monitor), true) =
            (&self.parent, self.monitor, self.is_holding())
        else {
            return false;
        };
        // A monitor that has died has not stopped the command.
        if self.command != Command::Running && !monitor.is_stopping() || !self.is_running() {
            return false;
        }
        let grant = keeper.grant().expect("the keeper holds the lease");
        let end = WorkEnd {
            release: release_after_death(grant, RunFacts::default(), Duration::ZERO),
            took: LONG_RUN,
            sessions: LeftSessions::End,
            effort: ReleaseEffort::WithinLease,
        };
        let deadline = monitor.deadline;
        let settings = settings(run.policies[self.number], Variant::Sound);
        let abandoned = Keeper::abandoned(grant, settings, deadline, end, instant(now));
        self.parent = Parent::Abandoned(Arc::new(abandoned));
        self.abandoned_until = (now..u8::MAX).find(|tick| instant(*tick) >= deadline.kill);
        true
    }

    /// Returns the end of the run, whose command is dead, or is being stopped in [`Variant::EarlyRelease`].
    fn end_run(&mut self, run: &Run) -> Option<WorkEnd> {
        let Parent::Alive(keeper) = &self.parent else {
            return None;
        };
        let is_stopped = self.monitor.is_some_and(|monitor| monitor.is_stopping());
        let (exit_reason, stop_reason) = match is_stopped && self.loss.is_none() {
            true => (ExitReason::Killed(KILL), StopReason::Expired),
            // Even if a loss was reported, the command may have exited before the monitor stopped it.
            false => (ExitReason::Exited(self.failed.into()), StopReason::None),
        };
        let reported_loss = (self.loss).filter(|_| run.variant != Variant::ExitStatusTrusted);
        let outcome = RunOutcome::of(exit_reason, stop_reason, reported_loss);
        let grant = keeper.grant()?;
        self.run = Some(EndedRun { outcome, grant });
        Some(WorkEnd {
            release: outcome.request(grant, RunFacts::default(), Duration::ZERO),
            took: LONG_RUN,
            sessions: match outcome {
                RunOutcome::Exited(0) => LeftSessions::Keep,
                _ => LeftSessions::End,
            },
            effort: match run.once {
                true if outcome == RunOutcome::Exited(0) => ReleaseEffort::Persistent,
                is_once => ReleaseEffort::Brief {
                    may_hand_off: !is_once,
                },
            },
        })
    }

    /// Ends the run after its release. Returns true if this process held the lease until then.
    fn released(&mut self, released: &Released, run: &Run) -> bool {
        let Some(EndedRun { outcome, grant }) = self.run else {
            return true;
        };
        let outcome = match run.variant {
            Variant::ExitStatusTrusted => outcome,
            _ => outcome.after(released),
        };
        if outcome.status() == Status::OK {
            self.false_success |= self.loss.is_some();
            self.success = u8::try_from(grant.token.0).ok();
        }
        outcome.held_lease()
    }

    /// Ends a run whose release was given up. Without `--once`, it counts as a success if the command has succeeded,
    /// unless a response has shown that the lease was lost.
    fn not_released(&mut self, run: &Run) {
        let has_succeeded = |run: EndedRun| run.outcome.status() == Status::OK;
        self.false_success |=
            self.run.is_some_and(has_succeeded) && !run.once && self.found_no_lease;
    }

    pub(crate) fn send(&mut self, now: Tick, request: Request) {
        trace::add(|| format!("→ {}", trace::request(&request)));
        let is_first = self.connection.is_none();
        let connection = self.connection.get_or_insert(Connection {
            alive: true,
            last_received: now,
            ..Connection::default()
        });
        connection.pending = Some(PendingRequest {
            request: Arc::new(request),
            is_first,
            stage: Stage::First,
            sent: now,
            progress: Progress::Sent,
        });
    }

    /// Passes the grant to the monitor, which starts the command unless it is too late. Returns the token of the started
    /// command.
    pub(crate) fn start_command(&mut self, now: Tick, run: &Run) -> Option<u8> {
        let Parent::Alive(keeper) = &mut self.parent else {
            return None;
        };
        let mut monitor = Monitor::new(keeper.deadline()?);
        Arc::make_mut(keeper).handle(instant(now), Input::WorkStarted);
        let is_late = !monitor.step(now, SupervisorInput::Tick).is_empty();
        if is_late && run.variant != Variant::StartWithoutClockCheck {
            self.command = Command::Ended;
            return None;
        }
        self.monitor = Some(monitor);
        self.command = Command::Running;
        self.token()
    }

    /// Makes the parent read the response that has arrived.
    pub(crate) fn read(&mut self, now: Tick, run: &Run) {
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
        let mut outcome = interpret(&pending.request, raw, run.variant);
        if let Ok(Response::NotAcquired(_, queue) | Response::Enqueued(_, queue)) = &mut outcome
            && run.variant == Variant::DatabaseIgnored
        {
            queue.database = None;
        }
        match &outcome {
            Err(_) => self.connection = None,
            Ok(Response::NotHolder(Some(_))) => {
                self.found_no_lease = true;
                if run.variant == Variant::LossForgotten {
                    outcome = Err(failure(FailureKind::Unknown));
                    self.connection = None;
                }
            }
            Ok(response) => {
                connection.session_is_recorded |= matches!(response, Response::Renewed(_));
            }
        }
        let sent = match run.variant {
            Variant::DeadlineFromResponse => now,
            _ => pending.sent,
        };
        self.handle_response(now, timed_response(sent, received, outcome), run);
    }

    /// Passes a response or a failure to the process that talks to the server.
    pub(crate) fn handle_response(&mut self, now: Tick, response: TimedResponse, run: &Run) {
        trace::add(|| format!("← {}", trace::response(&response.outcome)));
        let keeper = self.keeper_mut().expect("a process has sent a request");
        Arc::make_mut(keeper).handle(instant(now), Input::Response(Box::new(response)));
        self.handle_notices(now, run);
        if self.phase() != Some(PhaseKind::Held) {
            self.act(now, run);
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
        if let Some(keeper) = self.keeper_mut() {
            // If the keeper is shared with the previous state of the model, it has not changed.
            if ticked || Arc::get_mut(keeper).is_some() {
                Arc::make_mut(keeper).normalize_for_model(instant(now));
            }
        }
        if let Some(connection) = &mut self.connection {
            let is_sent = |pending: &PendingRequest| pending.progress == Progress::Sent;
            if connection.pending.as_ref().is_some_and(is_sent)
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
        !(is_stopped || self.is_holding() && self.loss.is_some())
    }

    /// Returns the token of the current process's lease, even if the lease has expired. None if the process has no
    /// lease.
    pub(crate) fn token(&self) -> Option<u8> {
        let (Parent::Alive(keeper) | Parent::Abandoned(keeper)) = &self.parent else {
            return None;
        };
        let token = match (keeper.grant(), keeper.releasing()) {
            (Some(grant), _) => grant.token,
            (None, releasing) => releasing?.token()?,
        };
        u8::try_from(token.0).ok()
    }

    pub(crate) fn owner_id(&self) -> u8 {
        u8::try_from(self.number).expect("two clients") * 8 + self.process
    }
}

/// Returns `request`, or what a broken variant makes of it.
fn misused(mut request: Request, variant: Variant) -> Request {
    if let Request::Release(release) = &mut request {
        match variant {
            Variant::NoteRemovedTooEarly => release.clears_sessions = true,
            Variant::HistoryRequired => release.history = RunHistory::Written,
            _ => {}
        }
    }
    request
}

pub(crate) fn settings(policy: SessionPolicy, variant: Variant) -> KeeperSettings {
    let mut timing = timing();
    if variant == Variant::NoMargin {
        timing.margin = ticks(0);
    }
    KeeperSettings {
        timing,
        limit: Limit::ONE,
        limits: WaitLimits {
            wait: None,
            connect: ticks(u8::MAX),
        },
        policy,
        liveness: Liveness::NotRequired,
        checks_address: false,
    }
}
