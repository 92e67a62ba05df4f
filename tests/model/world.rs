//! Everything at once: both clients, the server, time, and all that may happen next.

use dlock::outcome::RunOutcome;
use dlock::releasing::Releasing;
use dlock::store::intervention::Deed;
use dlock::store::{FailureKind, Fate, Question};
use dlock::supervise::Input;
use stateright::{Model, Property};

use crate::claims::properties;
use crate::client::{Client, Command, Front, Halt, Wire};
use crate::replies::{failure, reply};
use crate::server::{Server, Session};
use crate::time::{Tick, instant};
use crate::variant::{Kinds, Run, Variant};

/// The state of the world.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) now: Tick,
    /// Faults that may still happen.
    pub(crate) faults: u8,
    /// Clock steps that have happened.
    steps: u8,
    /// How often an operator has ended a lease.
    breaks: u8,
    pub(crate) server: Server,
    pub(crate) clients: [Client; 2],
    /// Token of the command that was started last.
    started: u8,
    /// Whether one was started with a smaller token than one before.
    pub(crate) disorder: bool,
}

/// What may happen; a number says to which client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// Time goes by.
    Tick,
    /// The server's clock is set.
    Step(i8),
    /// The server restarts.
    Restart,
    /// An operator ends the lease.
    Release,
    /// A dlock is started.
    Begin(usize),
    /// The front goes on by itself.
    Act(usize),
    /// The monitor starts the command.
    Launch(usize),
    /// The server executes the request.
    Execute(usize),
    /// The same, and somebody in between will send the request again.
    ExecuteAndKeep(usize),
    /// A request of a connection that was given up, or the repetition of one, is executed.
    ExecuteLate(usize),
    /// The front takes the reply in.
    Read(usize),
    /// The front gives the question up: its connection is stalled or broken.
    Fail(usize),
    /// The request was executed, and the front reads an error of this kind in place of the reply.
    Error(usize, FailureKind),
    /// From now on nothing gets through the connection.
    Stall(usize),
    /// What was stalled gets through.
    Flow(usize),
    /// The front is stopped.
    Pause(usize),
    /// It goes on.
    Resume(usize),
    /// No connection can be made.
    Unreachable(usize),
    /// The server notices that a connection was given up.
    Notice(usize),
    /// The server ends a session that has been idle for a ttl.
    Reap(usize),
    /// The connection breaks.
    Break(usize),
    /// The front is killed.
    KillFront(usize),
    /// The monitor is killed.
    KillMonitor(usize),
    /// The monitor does what is due.
    Watch(usize),
    /// The command ends.
    End(usize),
    /// The user does not want to wait any longer.
    Quit(usize),
}

impl World {
    /// How many commands are alive.
    pub(crate) fn running(&self) -> usize {
        self.clients.iter().filter(|c| c.is_running()).count()
    }

    /// Spends one fault.
    fn spend(&mut self) {
        self.faults -= 1;
    }

    fn execute(&mut self, c: usize, run: &Run) -> bool {
        let now = self.now;
        let Some(link) = &mut self.clients[c].link else {
            return false;
        };
        let first = match &mut link.stale {
            Some(stale) if stale.wire == Wire::Request => Some(stale),
            _ => link.asked.as_mut(),
        };
        let Some(asked) = first else {
            return false;
        };
        let session = Session::current(c);
        link.heard = now;
        match self
            .server
            .execute(now, session, &asked.question, asked.stage, run.rules)
        {
            Some(raw) => asked.wire = Wire::Reply(raw, now),
            None => return true,
        }
        let client = &mut self.clients[c];
        let link = client.link.as_ref();
        if client.paused == Halt::None
            && link.is_some_and(|link| link.stalled == Halt::None && link.stale.is_none())
        {
            client.read(now, run.variant);
        }
        true
    }

    /// The server executes the request, and an error comes back in place of the reply.
    fn execute_and_fail(&mut self, c: usize, kind: FailureKind, run: &Run) {
        let asked = self.clients[c]
            .link
            .as_ref()
            .and_then(|link| link.asked.clone());
        if let Some(asked) = asked {
            let session = Session::current(c);
            self.server
                .execute(self.now, session, &asked.question, asked.stage, run.rules);
        }
        self.cut(c);
        self.fail(c, kind, run);
    }

    fn execute_late(&mut self, c: usize, run: &Run) {
        if let Some(asked) = self.clients[c].late.take() {
            self.clients[c].late_renewal |= matches!(*asked.question, Question::Renew(..));
            let session = Session::dropped(c);
            self.server
                .execute(self.now, session, &asked.question, asked.stage, run.rules);
        }
    }

    /// The client gives its connection up.
    fn abandon(&mut self, c: usize) {
        if self.clients[c].link.as_ref().is_some_and(|link| link.alive) {
            self.server.abandon(c);
        }
        self.clients[c].drop_link();
    }

    fn fail(&mut self, c: usize, kind: FailureKind, run: &Run) {
        let now = self.now;
        if run.variant == Variant::ConnectionKept {
            let link = self.clients[c].link.as_mut().expect("something was asked");
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

    /// The session of a connection that the client believes in ends.
    fn cut(&mut self, c: usize) {
        self.server.end(Session::current(c));
        if let Some(link) = &mut self.clients[c].link {
            link.alive = false;
        }
    }

    fn launch(&mut self, c: usize, run: &Run) {
        let Front::Granted(lease) = self.clients[c].front else {
            return;
        };
        if self.clients[c].launch(self.now, lease, run.variant) {
            let token = u8::try_from(lease.grant.token.0).expect("few grants");
            self.disorder |= token <= self.started;
            self.started = token;
        }
    }

    fn kill_front(&mut self, c: usize, run: &Run) {
        self.abandon(c);
        let client = &mut self.clients[c];
        client.front = Front::Over { released: false };
        client.paused = Halt::None;
        if client.command == Command::Running && run.variant != Variant::NoMonitor {
            client.command = Command::Dying;
        }
        if client.command == Command::Unstarted {
            client.command = Command::Ended;
        }
    }

    fn quit(&mut self, c: usize) -> bool {
        let Front::Acquiring(acquire) = &self.clients[c].front else {
            return false;
        };
        let parting = acquire.parting();
        let now = instant(self.now);
        if !self.clients[c].is_quiet() {
            self.abandon(c);
        }
        self.clients[c].command = Command::Ended;
        self.clients[c].front = match parting {
            Some(parting) => Front::Leaving {
                releasing: Releasing::new(parting, false, now),
                outcome: RunOutcome::Killed(0),
                loss: None,
                revoked: false,
            },
            None => Front::Over { released: false },
        };
        true
    }

    /// A front that is over closes its connection.
    fn close(&mut self, c: usize) {
        if matches!(self.clients[c].front, Front::Over { .. }) && self.clients[c].link.is_some() {
            self.server.end(Session::current(c));
            self.clients[c].link = None;
        }
    }

    /// Forgets what makes no difference any more, so that the state is known again.
    fn forget(&mut self, ticked: bool) {
        for client in &mut self.clients {
            let ended = client
                .success
                .take()
                .and_then(|token| self.server.recorded(token));
            client.false_success |= matches!(ended, Some(Fate::Lost | Fate::Broken));
        }
        let tokens: Vec<u8> = self.clients.iter().filter_map(Client::token).collect();
        self.server.forget(&tokens);
        for c in 0..self.clients.len() {
            self.close(c);
            self.clients[c].forget(self.now, ticked);
            let late = self.clients[c].late.as_ref();
            if late.is_some_and(|late| !self.server.heeds(&late.question)) {
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
                if *halt == Halt::Fresh {
                    *halt = Halt::Old;
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
        // Somebody is first.
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
        if world.breaks < self.breaks && row.claim.is_some() && !row.broken {
            events.push(Event::Release);
        }
        if world.faults > 0
            && self.kinds == Kinds::All
            && (self.rules.no_gate || world.server.has_keeper())
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
                world.server.intervene(now, shown, Deed::Release);
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
                world.clients[c].link.as_mut()?.stalled = Halt::Fresh;
            }
            Event::Flow(c) => world.clients[c].link.as_mut()?.stalled = Halt::None,
            Event::Pause(c) => {
                if self.variant != Variant::BlockedByMessages {
                    world.spend();
                }
                world.clients[c].paused = Halt::Fresh;
            }
            Event::Resume(c) => world.clients[c].paused = Halt::None,
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
            Event::KillFront(c) => {
                world.spend();
                world.kill_front(c, self);
            }
            Event::KillMonitor(c) => {
                world.spend();
                world.clients[c].command = Command::Dying;
            }
            Event::Watch(c) => world.clients[c].watch(now, Input::Tick),
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
