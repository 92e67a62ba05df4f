//! The state of the model, which consists of both clients, the server and the time, and the transitions between states.

use std::collections::BTreeSet;
use std::sync::Arc;

use dlock::process::supervisor::SupervisorInput;
use dlock::store::operator::OperatorAction;
use dlock::store::{FailureKind, HistoryOutcome, Request, TimedResponse};
use stateright::{Model, Property};

use crate::client::{Client, Command, Parent, Progress, StopState};
use crate::mutation::{FaultKinds, LostWrites, Run, Variant};
use crate::properties::properties;
use crate::responses::{failure, record, timed_response};
use crate::server::{Rule, Server, Session};
use crate::time::{TTL, Tick};

#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) now: Tick,
    /// Number of faults that can still happen.
    pub(crate) faults: u8,
    /// Number of past jumps of the server's clock.
    clock_steps: u8,
    /// Number of leases that an operator has revoked.
    revocations: u8,
    /// Number of times that an operator has removed the row.
    prunes: u8,
    pub(crate) server: Server,
    pub(crate) clients: [Client; 2],
    /// Number of statements that commands have started.
    pub(crate) statements: u8,
    /// What the database contains after it has lost its latest writes. None before that state exists, and after the
    /// loss.
    backup: Option<Arc<Server>>,
    /// Time at which the database lost its latest writes. None before.
    pub(crate) lost_at: Option<Tick>,
    /// The highest token of a command that was started.
    started: u8,
    /// The token of the last exclusive command that was started.
    started_exclusive: u8,
    /// True if a command was started with a token that is not higher than the token of the command before.
    pub(crate) tokens_out_of_order: bool,
    /// True if a command was started although a success was recorded that makes the run unnecessary.
    pub(crate) ran_though_done: bool,
}

/// An event. A `usize` is the index of the client that the event affects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    Tick,
    /// The server's clock jumps by this number of ticks.
    StepClock(i8),
    Restart,
    /// The database will lose all writes after this event.
    Backup,
    LoseWrites,
    /// An operator revokes the lease.
    Revoke,
    /// An operator removes the row of the unused action.
    Prune,
    StartProcess(usize),
    /// The parent makes a step without an input.
    Act(usize),
    StartCommand(usize),
    /// The server executes the pending request.
    Execute(usize),
    /// The server executes the pending request, and can execute a copy of this request later.
    ExecuteAndKeep(usize),
    /// The server executes a request from a dropped connection, or a copy of a request.
    ExecuteLate(usize),
    /// The parent reads the response.
    Read(usize),
    /// The parent reads the record for a reminder, on another connection.
    ReadForReminder(usize),
    /// A read over a new connection ends.
    ReadAddress(usize, AddressRead),
    /// The parent stops waiting for the response, because the connection is stalled or broken.
    FailRequest(usize),
    /// The server executes the pending request. The parent reads an error of this kind in place of the response.
    ReturnError(usize, FailureKind),
    /// The connection stalls and blocks all packets.
    Stall(usize),
    Unstall(usize),
    Pause(usize),
    Resume(usize),
    /// The parent cannot connect to the server.
    Unreachable(usize),
    /// The server detects that the client has dropped a connection.
    NoticeDrop(usize),
    /// The server ends a session that has been idle for a ttl.
    EndIdleSession(usize),
    BreakConnection(usize),
    KillParent(usize),
    /// The parent and the monitor end at once, because their machine fails.
    FailMachine(usize),
    KillMonitor(usize),
    /// The monitor does work that is due.
    StepMonitor(usize),
    EndCommand(usize),
    FailCommand(usize),
    /// The command starts a statement on the server.
    StartStatement(usize),
    EndStatement(usize),
    /// A signal ends the wait for the lease, or for the sessions of a command.
    GiveUp(usize),
    /// The third client loses its session, and with it the queue lock. It keeps its lease.
    CutEarlierHolder,
    /// The third client releases its lease and its queue lock.
    EndEarlierHolder,
}

/// The result of a read over a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressRead {
    /// The record of the server.
    Same,
    /// The record of another server, which has never granted the lease.
    Elsewhere,
    Failed,
}

impl World {
    pub(crate) fn running(&self) -> usize {
        self.clients.iter().filter(|c| c.is_running()).count()
    }

    /// Returns true if a command runs beside more commands and noted statements of earlier runs than it accepts.
    pub(crate) fn is_over_a_limit_with_statements(&self, run: &Run) -> bool {
        let statements = self.server.statements.iter();
        // Each client runs one process in such a run.
        let left = statements
            .filter(|it| it.was_noted && !it.is_left && !self.clients[it.client()].is_running())
            .map(|it| it.token);
        let count = self.running() + left.collect::<BTreeSet<_>>().len();
        let mut clients = self.clients.iter().zip(run.limits);
        clients
            .any(|(client, limit)| client.waits_for_statements(run) && !limit.allows(count as u64))
    }

    /// Returns true if more commands run than one of them accepts.
    pub(crate) fn is_over_a_limit(&self, run: &Run) -> bool {
        let running = self.running() as u64 + u64::from(self.server.has_earlier_holder());
        let mut clients = self.clients.iter().zip(run.limits);
        clients.any(|(client, limit)| client.is_running() && !limit.allows(running))
    }

    /// Returns true if a process that starts now reads the record before the leases of the lost writes have ended. It
    /// cannot notice the loss.
    pub(crate) fn is_too_early_to_start(&self) -> bool {
        self.lost_at.is_some_and(|at| self.now < at + TTL)
    }

    fn count_fault(&mut self, c: usize) {
        self.faults -= 1;
        self.clients[c].had_fault = true;
    }

    /// Records an event that may harm the lease of each client.
    fn fault_of_server(&mut self) {
        for client in &mut self.clients {
            client.had_fault = true;
        }
    }

    fn execute(&mut self, c: usize, run: &Run) {
        let now = self.now;
        let Some(connection) = &mut self.clients[c].connection else {
            return;
        };
        let first = match &mut connection.previous {
            Some(previous) if previous.progress == Progress::Sent => Some(previous),
            _ => connection.pending.as_mut(),
        };
        let Some(pending) = first else {
            return;
        };
        let session = Session::current(c);
        connection.last_received = now;
        let raw = (self.server).execute(now, session, &pending.request, pending.stage, run.rules);
        let Some(raw) = raw else {
            return;
        };
        pending.progress = Progress::Executed(raw, now);
        let has_renewed = matches!(*pending.request, Request::Renew(_))
            && self.server.row.session == Some(session);
        let can_read = connection.stalled == StopState::None && connection.previous.is_none();
        let client = &mut self.clients[c];
        client.late_renewal &= !has_renewed;
        if client.paused == StopState::None && can_read {
            client.read(now, run);
        }
    }

    /// Executes the pending request, and passes an error to the client in place of the response.
    fn execute_and_fail(&mut self, c: usize, kind: FailureKind, run: &Run) {
        if let Some(pending) = self.clients[c].pending() {
            let (session, request) = (Session::current(c), &pending.request);
            (self.server).execute(self.now, session, request, pending.stage, run.rules);
        }
        self.end_session(c);
        self.fail(c, kind, run);
    }

    fn execute_late(&mut self, c: usize, run: &Run) {
        if let Some(pending) = self.clients[c].late.take() {
            self.clients[c].late_renewal |= matches!(*pending.request, Request::Renew(..));
            let (session, request) = (Session::dropped(c), &pending.request);
            (self.server).execute(self.now, session, request, pending.stage, run.rules);
        }
    }

    /// Drops the client's connection. The server does not detect this.
    fn drop_connection(&mut self, c: usize) {
        let connection = self.clients[c].connection.as_ref();
        if connection.is_some_and(|connection| connection.alive) {
            self.server.drop_connection(c);
        }
        self.clients[c].drop_connection();
    }

    fn fail(&mut self, c: usize, kind: FailureKind, run: &Run) {
        match &mut self.clients[c].connection {
            Some(connection) if connection.alive && run.variant == Variant::ConnectionReused => {
                connection.previous = connection.pending.take();
            }
            _ => self.drop_connection(c),
        }
        let response = timed_response(self.now, self.now, Err(failure(kind)));
        self.clients[c].handle_response(self.now, response, run);
    }

    fn restart(&mut self) {
        self.server.restart();
        for client in &mut self.clients {
            if let Some(connection) = &mut client.connection {
                connection.alive = false;
            }
        }
    }

    /// Ends the session of the connection that the client uses.
    fn end_session(&mut self, c: usize) {
        self.server.end(Session::current(c));
        if let Some(connection) = &mut self.clients[c].connection {
            connection.alive = false;
        }
    }

    fn start_command(&mut self, c: usize, run: &Run) {
        if let Some(token) = self.clients[c].start_command(self.now, run) {
            // Two leases that exist at the same time may start their commands in any order.
            let is_exclusive = run.limits[c].is_exclusive();
            let before = match is_exclusive {
                true => self.started,
                false => self.started_exclusive,
            };
            self.tokens_out_of_order |= token <= before || token == self.started;
            self.started = self.started.max(token);
            if is_exclusive {
                self.started_exclusive = token;
                // A lease in a slot may have been granted before the success of another slot.
                self.ran_though_done |= self.server.is_done();
            }
        }
    }

    fn start_statement(&mut self, c: usize) {
        if let Some(token) = self.clients[c].token() {
            self.statements += 1;
            self.server.start_statement(c, token);
        }
    }

    fn kill_parent(&mut self, c: usize, is_monitor_alive: bool, run: &Run) {
        self.drop_connection(c);
        let now = self.now;
        let client = &mut self.clients[c];
        let has_monitor = is_monitor_alive && run.variant != Variant::NoMonitor;
        if run.holds || !has_monitor || !client.abandon(now, run) {
            client.parent = Parent::Ended { released: false };
        }
        client.run = None;
        client.paused = StopState::None;
        // A program dies only with the machine.
        let outlives = run.holds && is_monitor_alive;
        let dies = run.variant != Variant::NoMonitor && !outlives;
        if client.command == Command::Running && dies {
            client.command = Command::Dying;
        }
        if client.command == Command::NotStarted {
            client.command = Command::Ended;
        }
    }

    fn give_up(&mut self, c: usize, run: &Run) {
        if !self.clients[c].is_quiet() {
            self.drop_connection(c);
        }
        self.clients[c].command = Command::Ended;
        self.clients[c].give_up(self.now, run);
    }

    /// Closes the connection of a parent that has ended. The server may still execute its last request.
    fn close(&mut self, c: usize) {
        if !matches!(self.clients[c].parent, Parent::Ended { .. }) {
            return;
        }
        if !self.clients[c].is_quiet() {
            self.drop_connection(c);
        } else if self.clients[c].connection.take().is_some() {
            self.server.end(Session::current(c));
        }
    }

    /// Removes state that no longer has an effect. The checker then recognizes equivalent states as equal.
    fn normalize(&mut self, run: &Run, ticked: bool) {
        for client in &mut self.clients {
            let success = client.success.take();
            let ended = success.and_then(|token| self.server.recorded(token));
            // The database may lose a success that it has confirmed.
            client.false_success |= self.lost_at.is_none()
                && matches!(ended, Some(HistoryOutcome::Lost | HistoryOutcome::Revoked));
        }
        let tokens: Vec<u8> = self.clients.iter().filter_map(Client::token).collect();
        self.server.normalize(&tokens);
        // If the run has no faults, the checker observes the statements of successful commands to the end.
        self.server.forget_statements(&tokens, run.faults == 0);
        for c in 0..self.clients.len() {
            if self.clients[c].drops_connection && self.clients[c].is_quiet() {
                self.clients[c].drops_connection = false;
                self.drop_connection(c);
            }
            self.close(c);
            self.clients[c].normalize(self.now, ticked);
            let token = self.clients[c].token();
            self.clients[c].sessions = self.server.sessions_of(token);
            let late = self.clients[c].late.as_ref();
            if late.is_some_and(|late| !self.server.can_be_changed_by(&late.request)) {
                self.clients[c].late = None;
            }
        }
    }

    fn tick(&mut self) {
        self.now += 1;
        self.server.end_killed_statements();
        for client in &mut self.clients {
            if client.command == Command::Dying {
                client.command = Command::Ended;
            }
            let connection = client.connection.iter_mut();
            let stalled = connection.map(|connection| &mut connection.stalled);
            for state in stalled.chain([&mut client.paused]) {
                if *state == StopState::ThisTick {
                    *state = StopState::EarlierTick;
                }
            }
        }
    }
}

impl Model for Run {
    type State = World;
    type Action = Event;

    fn init_states(&self) -> Vec<World> {
        let mut clients = [0, 1].map(Client::new);
        // The clients are symmetric, so client 0 can start first without loss of generality.
        clients[0].begin(0, self);
        let mut server = Server::new();
        server.success = self.once.then_some(0);
        server.set_limit(clients[0].owner_id(), self.limits[0]);
        if let Some(limit) = self.earlier_holder {
            server.add_earlier_holder(limit, self.rules);
        }
        vec![World {
            faults: self.faults,
            server,
            clients,
            ..World::default()
        }]
    }

    fn actions(&self, world: &World, events: &mut Vec<Event>) {
        if let Some(step) = self.clock_steps.get(usize::from(world.clock_steps)) {
            events.push(Event::StepClock(*step));
        }
        let row = &world.server.row;
        if world.revocations < self.revocations && row.owner_id.is_some() && !row.revoked {
            events.push(Event::Revoke);
        }
        if world.prunes < self.prunes && row.token > 0 && world.server.is_unused() {
            events.push(Event::Prune);
        }
        if world.faults > 0
            && matches!(self.kinds, FaultKinds::All | FaultKinds::Deaths)
            && (self.rules.has(Rule::NoQueueLock) || !world.server.queue_lock.is_empty())
        {
            events.push(Event::Restart);
        }
        if self.lost_writes != LostWrites::Never && world.lost_at.is_none() {
            events.push(match world.backup {
                None => Event::Backup,
                Some(_) => Event::LoseWrites,
            });
        }
        if world.server.has_earlier_holder() {
            events.push(Event::EndEarlierHolder);
            if world.server.row.session.is_some() {
                events.push(Event::CutEarlierHolder);
            }
        }
        events.extend((0..world.server.statements.len()).map(Event::EndStatement));
        let mut urgent = false;
        for c in 0..world.clients.len() {
            urgent |= self.events_of(world, c, events);
            self.faults_of(world, c, events);
        }
        if world.now < self.horizon && !urgent {
            events.push(Event::Tick);
        }
    }

    #[allow(
        clippy::too_many_lines,
        reason = "a list with one entry for each kind of event"
    )]
    fn next_state(&self, world: &World, event: Event) -> Option<World> {
        let mut world = world.clone();
        let now = world.now;
        match event {
            Event::Tick => world.tick(),
            Event::StepClock(by) => {
                world.clock_steps += 1;
                world.fault_of_server();
                world.server.step_clock(by);
            }
            Event::Revoke => {
                world.revocations += 1;
                world.fault_of_server();
                let (server, release) = (&mut world.server, OperatorAction::Release);
                server.apply_operator_action(now, server.row.token, release);
                if self.variant == Variant::FreedByOperator {
                    world.server.row.owner_id = None;
                }
            }
            Event::Prune => {
                world.prunes += 1;
                world.server.prune(self.rules);
            }
            Event::Restart => {
                world.faults -= 1;
                world.fault_of_server();
                world.restart();
                world.server.database += 1;
            }
            Event::CutEarlierHolder => world.server.cut_earlier_holder(),
            Event::EndEarlierHolder => world.server.end_earlier_holder(),
            Event::Backup => world.backup = Some(Arc::new(world.server.backup())),
            Event::LoseWrites => {
                let backup = world.backup.take()?;
                let known = match self.reads_reminders() {
                    true => world.server.row.token,
                    false => 0,
                };
                let mut clients = world.clients.iter();
                if clients.any(|client| client.has_not_read(known)) {
                    return None;
                }
                world.fault_of_server();
                let is_elsewhere = self.lost_writes == LostWrites::FailOver;
                world.restart();
                let backup = Arc::unwrap_or_clone(backup);
                world.server.lose_writes(backup, is_elsewhere);
                for client in &mut world.clients {
                    client.late = None;
                    client.notice_end_of_server();
                }
                world.lost_at = Some(now);
            }
            Event::ReadForReminder(c) => {
                let row = world.server.read_row(now);
                world.clients[c].handle_read(now, row);
            }
            Event::ReadAddress(c, result) => {
                if result != AddressRead::Same {
                    world.count_fault(c);
                }
                let found = match result {
                    AddressRead::Same => Some(record(world.server.read_row(now))),
                    AddressRead::Elsewhere => Some(record(Server::new().read_row(now))),
                    AddressRead::Failed => None,
                };
                world.clients[c].handle_address_read(now, found.as_ref(), self);
            }
            Event::StartProcess(c) => {
                world.clients[c].begin(now, self);
                let owner_id = world.clients[c].owner_id();
                world.server.set_limit(owner_id, self.limits[c]);
            }
            Event::Act(c) => {
                if !world.clients[c].act(now, self) {
                    return None;
                }
            }
            Event::StartCommand(c) => world.start_command(c, self),
            Event::Execute(c) => world.execute(c, self),
            Event::ExecuteAndKeep(c) => {
                world.count_fault(c);
                let client = &mut world.clients[c];
                client.late.clone_from(&client.connection.as_ref()?.pending);
                world.execute(c, self);
            }
            Event::ExecuteLate(c) => world.execute_late(c, self),
            Event::Read(c) => world.clients[c].read(now, self),
            Event::FailRequest(c) => world.fail(c, FailureKind::Unknown, self),
            Event::ReturnError(c, kind) => {
                world.count_fault(c);
                world.execute_and_fail(c, kind, self);
            }
            Event::Stall(c) => {
                world.count_fault(c);
                world.clients[c].connection.as_mut()?.stalled = StopState::ThisTick;
            }
            Event::Unstall(c) => world.clients[c].connection.as_mut()?.stalled = StopState::None,
            Event::Pause(c) => {
                if self.variant != Variant::BlockedByMessages {
                    world.count_fault(c);
                }
                world.clients[c].paused = StopState::ThisTick;
            }
            Event::Resume(c) => world.clients[c].paused = StopState::None,
            Event::Unreachable(c) => {
                world.count_fault(c);
                world.end_session(c);
                world.clients[c].connection = None;
                let unsent = TimedResponse {
                    could_release: false,
                    ..timed_response(now, now, Err(failure(FailureKind::Unreachable)))
                };
                world.clients[c].handle_response(now, unsent, self);
            }
            Event::NoticeDrop(c) => world.server.end(Session::dropped(c)),
            Event::EndIdleSession(c) => world.end_session(c),
            Event::BreakConnection(c) => {
                world.count_fault(c);
                world.end_session(c);
            }
            Event::KillParent(c) => {
                world.count_fault(c);
                world.kill_parent(c, true, self);
            }
            Event::FailMachine(c) => {
                world.count_fault(c);
                world.kill_parent(c, false, self);
            }
            Event::KillMonitor(c) => {
                world.count_fault(c);
                match self.variant {
                    Variant::SurvivesMonitor => world.clients[c].monitor = None,
                    _ => world.clients[c].command = Command::Dying,
                }
            }
            Event::StepMonitor(c) => world.clients[c].step_monitor(now, SupervisorInput::Tick),
            Event::EndCommand(c) => world.clients[c].command = Command::Ended,
            Event::FailCommand(c) => {
                world.clients[c].command = Command::Ended;
                world.clients[c].failed = true;
            }
            Event::StartStatement(c) => world.start_statement(c),
            Event::EndStatement(index) => drop(world.server.statements.remove(index)),
            Event::GiveUp(c) => {
                world.count_fault(c);
                world.give_up(c, self);
            }
        }
        world.normalize(self, event == Event::Tick);
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties(self.events)
    }
}
