//! The state of the model: both clients, the server and the time, and the transitions between states.

use dlock::outcome::RunOutcome;
use dlock::process::supervisor::SupervisorInput;
use dlock::protocol::release::Releasing;
use dlock::store::operator::OperatorAction;
use dlock::store::{FailureKind, HistoryOutcome, Request};
use stateright::{Model, Property};

use crate::client::{Client, Command, InFlight, Parent, StopState};
use crate::mutation::{Kinds, Run, Variant};
use crate::properties::properties;
use crate::replies::{failure, reply};
use crate::server::{Server, Session};
use crate::time::{Tick, instant};

/// A state of the model.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) now: Tick,
    /// Number of faults that may still happen.
    pub(crate) faults: u8,
    /// Number of clock jumps that have happened.
    steps: u8,
    /// Number of leases that an operator has revoked.
    breaks: u8,
    pub(crate) server: Server,
    pub(crate) clients: [Client; 2],
    /// Token of the last command that was started.
    started: u8,
    /// True if a command was started with a token that is not higher than the previous one.
    pub(crate) disorder: bool,
}

/// An event; the number is the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A tick passes.
    Tick,
    /// The server's clock is set by this number of ticks.
    Step(i8),
    /// The server restarts.
    Restart,
    /// An operator revokes the lease.
    Release,
    /// A dlock is started.
    Begin(usize),
    /// The parent makes a step without an input.
    Act(usize),
    /// The monitor starts the command.
    Launch(usize),
    /// The server executes the request.
    Execute(usize),
    /// The server executes the request, and a copy of it is executed later.
    ExecuteAndKeep(usize),
    /// A request on a dropped connection, or a copy of a request, is executed.
    ExecuteLate(usize),
    /// The parent reads the response.
    Read(usize),
    /// The parent gives up the request: its connection is stalled or broken.
    Fail(usize),
    /// The request is executed, and the parent reads an error of this kind in place of the response.
    Error(usize, FailureKind),
    /// The connection stalls: no packet gets through.
    Stall(usize),
    /// The stall of the connection is over.
    Flow(usize),
    /// The parent is stopped.
    Pause(usize),
    /// The parent is resumed.
    Resume(usize),
    /// No connection can be made.
    Unreachable(usize),
    /// The server notices that a connection was dropped.
    Notice(usize),
    /// The server ends a session that has been idle for a ttl.
    Reap(usize),
    /// The connection breaks.
    Break(usize),
    /// The parent is killed.
    KillParent(usize),
    /// The monitor is killed.
    KillMonitor(usize),
    /// The monitor does what is due.
    Watch(usize),
    /// The command ends.
    End(usize),
    /// The waiter gives up.
    Quit(usize),
}

impl World {
    /// Returns the number of live commands.
    pub(crate) fn running(&self) -> usize {
        self.clients.iter().filter(|c| c.is_running()).count()
    }

    /// Counts one fault.
    fn spend(&mut self) {
        self.faults -= 1;
    }

    fn execute(&mut self, c: usize, run: &Run) -> bool {
        let now = self.now;
        let Some(link) = &mut self.clients[c].link else {
            return false;
        };
        let first = match &mut link.stale {
            Some(stale) if stale.wire == InFlight::Request => Some(stale),
            _ => link.asked.as_mut(),
        };
        let Some(asked) = first else {
            return false;
        };
        let session = Session::current(c);
        link.heard = now;
        match self
            .server
            .execute(now, session, &asked.request, asked.stage, run.rules)
        {
            Some(raw) => asked.wire = InFlight::Reply(raw, now),
            None => return true,
        }
        let client = &mut self.clients[c];
        let link = client.link.as_ref();
        if client.paused == StopState::None
            && link.is_some_and(|link| link.stalled == StopState::None && link.stale.is_none())
        {
            client.read(now, run.variant);
        }
        true
    }

    /// Executes the request, and passes an error to the client in place of the response.
    fn execute_and_fail(&mut self, c: usize, kind: FailureKind, run: &Run) {
        let asked = self.clients[c]
            .link
            .as_ref()
            .and_then(|link| link.asked.clone());
        if let Some(asked) = asked {
            let session = Session::current(c);
            self.server
                .execute(self.now, session, &asked.request, asked.stage, run.rules);
        }
        self.cut(c);
        self.fail(c, kind, run);
    }

    fn execute_late(&mut self, c: usize, run: &Run) {
        if let Some(asked) = self.clients[c].late.take() {
            self.clients[c].late_renewal |= matches!(*asked.request, Request::Renew(..));
            let session = Session::dropped(c);
            self.server
                .execute(self.now, session, &asked.request, asked.stage, run.rules);
        }
    }

    /// Drops the client's connection; the server does not notice.
    fn abandon(&mut self, c: usize) {
        if self.clients[c].link.as_ref().is_some_and(|link| link.alive) {
            self.server.abandon(c);
        }
        self.clients[c].drop_link();
    }

    fn fail(&mut self, c: usize, kind: FailureKind, run: &Run) {
        let now = self.now;
        if run.variant == Variant::ConnectionKept {
            let link = self.clients[c].link.as_mut().expect("a request was sent");
            if link.alive {
                link.stale = link.asked.take();
                self.clients[c].hear(now, reply(now, now, Err(failure(kind))), run.variant);
                return;
            }
        }
        self.abandon(c);
        self.clients[c].hear(now, reply(now, now, Err(failure(kind))), run.variant);
    }

    fn restart(&mut self) {
        self.server.restart();
        for client in &mut self.clients {
            if let Some(link) = &mut client.link {
                link.alive = false;
            }
        }
    }

    /// Ends the session of a connection that the client still uses.
    fn cut(&mut self, c: usize) {
        self.server.end(Session::current(c));
        if let Some(link) = &mut self.clients[c].link {
            link.alive = false;
        }
    }

    fn launch(&mut self, c: usize, run: &Run) {
        let Parent::Granted(lease) = self.clients[c].parent else {
            return;
        };
        if self.clients[c].launch(self.now, lease, run.variant) {
            let token = u8::try_from(lease.grant.token.0).expect("few grants");
            self.disorder |= token <= self.started;
            self.started = token;
        }
    }

    fn kill_parent(&mut self, c: usize, run: &Run) {
        self.abandon(c);
        let client = &mut self.clients[c];
        client.parent = Parent::Over { released: false };
        client.paused = StopState::None;
        if client.command == Command::Running && run.variant != Variant::NoMonitor {
            client.command = Command::Dying;
        }
        if client.command == Command::Unstarted {
            client.command = Command::Ended;
        }
    }

    fn quit(&mut self, c: usize) -> bool {
        let Parent::Acquiring(acquire) = &self.clients[c].parent else {
            return false;
        };
        let request = acquire.release_request();
        let now = instant(self.now);
        if !self.clients[c].is_quiet() {
            self.abandon(c);
        }
        self.clients[c].command = Command::Ended;
        self.clients[c].parent = match request {
            Some(request) => Parent::Leaving {
                releasing: Releasing::new(request, false, now),
                outcome: RunOutcome::Killed(0),
                loss: None,
                revoked: false,
            },
            None => Parent::Over { released: false },
        };
        true
    }

    /// Closes the connection of a parent that has ended.
    fn close(&mut self, c: usize) {
        if matches!(self.clients[c].parent, Parent::Over { .. }) && self.clients[c].link.is_some() {
            self.server.end(Session::current(c));
            self.clients[c].link = None;
        }
    }

    /// Removes state that has no effect any more, so that equal states are recognized.
    fn forget(&mut self, ticked: bool) {
        for client in &mut self.clients {
            let ended = client
                .success
                .take()
                .and_then(|token| self.server.recorded(token));
            client.false_success |=
                matches!(ended, Some(HistoryOutcome::Lost | HistoryOutcome::Revoked));
        }
        let tokens: Vec<u8> = self.clients.iter().filter_map(Client::token).collect();
        self.server.forget(&tokens);
        for c in 0..self.clients.len() {
            self.close(c);
            self.clients[c].forget(self.now, ticked);
            let late = self.clients[c].late.as_ref();
            if late.is_some_and(|late| !self.server.heeds(&late.request)) {
                self.clients[c].late = None;
            }
        }
    }

    fn tick(&mut self) {
        self.now += 1;
        for client in &mut self.clients {
            if client.command == Command::Dying {
                client.command = Command::Ended;
            }
            let stalled = client.link.as_mut().map(|link| &mut link.stalled);
            for halt in stalled.into_iter().chain([&mut client.paused]) {
                if *halt == StopState::Fresh {
                    *halt = StopState::Old;
                }
            }
        }
    }
}

impl Model for Run {
    type State = World;
    type Action = Event;

    fn init_states(&self) -> Vec<World> {
        let mut clients = [Client::new(), Client::new()];
        // By symmetry, client 0 is first.
        clients[0].begin(0, 0);
        vec![World {
            now: 0,
            faults: self.faults,
            steps: 0,
            breaks: 0,
            server: Server::new(),
            clients,
            started: 0,
            disorder: false,
        }]
    }

    fn actions(&self, world: &World, events: &mut Vec<Event>) {
        if let Some(step) = self.steps.get(usize::from(world.steps)) {
            events.push(Event::Step(*step));
        }
        let row = &world.server.row;
        if world.breaks < self.breaks && row.owner_id.is_some() && !row.revoked {
            events.push(Event::Release);
        }
        if world.faults > 0
            && self.kinds == Kinds::All
            && (self.rules.no_queue_lock || world.server.is_queue_lock_owned())
        {
            events.push(Event::Restart);
        }
        let mut urgent = false;
        for c in 0..world.clients.len() {
            urgent |= self.events_of(world, c, events);
            self.faults_of(world, c, events);
        }
        if world.now < self.horizon && !urgent {
            events.push(Event::Tick);
        }
    }

    fn next_state(&self, world: &World, event: Event) -> Option<World> {
        let mut world = world.clone();
        let now = world.now;
        match event {
            Event::Tick => world.tick(),
            Event::Step(by) => {
                world.steps += 1;
                world.server.step(by);
            }
            Event::Release => {
                world.breaks += 1;
                let shown = world.server.row.token;
                world.server.intervene(now, shown, OperatorAction::Release);
                if self.variant == Variant::FreedByHand {
                    world.server.free_by_hand();
                }
            }
            Event::Restart => {
                world.spend();
                world.restart();
            }
            Event::Begin(c) => world.clients[c].begin(now, c),
            Event::Act(c) => {
                if !world.clients[c].act(now, self.variant) {
                    return None;
                }
            }
            Event::Launch(c) => world.launch(c, self),
            Event::Execute(c) => {
                world.execute(c, self);
            }
            Event::ExecuteAndKeep(c) => {
                world.spend();
                let client = &mut world.clients[c];
                client.late.clone_from(&client.link.as_ref()?.asked);
                world.execute(c, self);
            }
            Event::ExecuteLate(c) => world.execute_late(c, self),
            Event::Read(c) => world.clients[c].read(now, self.variant),
            Event::Fail(c) => {
                world.fail(c, FailureKind::Unknown, self);
            }
            Event::Error(c, kind) => {
                world.spend();
                world.execute_and_fail(c, kind, self);
            }
            Event::Stall(c) => {
                world.spend();
                world.clients[c].link.as_mut()?.stalled = StopState::Fresh;
            }
            Event::Flow(c) => world.clients[c].link.as_mut()?.stalled = StopState::None,
            Event::Pause(c) => {
                if self.variant != Variant::BlockedByMessages {
                    world.spend();
                }
                world.clients[c].paused = StopState::Fresh;
            }
            Event::Resume(c) => world.clients[c].paused = StopState::None,
            Event::Unreachable(c) => {
                world.spend();
                world.cut(c);
                world.clients[c].link = None;
                let unsent = reply(now, now, Err(failure(FailureKind::Unreachable)));
                world.clients[c].hear(now, unsent, self.variant);
            }
            Event::Notice(c) => world.server.end(Session::dropped(c)),
            Event::Reap(c) => world.cut(c),
            Event::Break(c) => {
                world.spend();
                world.cut(c);
            }
            Event::KillParent(c) => {
                world.spend();
                world.kill_parent(c, self);
            }
            Event::KillMonitor(c) => {
                world.spend();
                world.clients[c].command = Command::Dying;
            }
            Event::Watch(c) => world.clients[c].watch(now, SupervisorInput::Tick),
            Event::End(c) => world.clients[c].command = Command::Ended,
            Event::Quit(c) => {
                world.spend();
                world.quit(c);
            }
        }
        world.forget(event == Event::Tick);
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties()
    }
}
