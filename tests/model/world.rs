//! Everything at once: both clients, the server, time, and all that may happen next.

use dlock::store::{FailureKind, Question};
use dlock::supervise::Input;
use stateright::{Model, Property};

use crate::client::{Asked, Client, Command, Front, Halt, Link, Wire, failure, reply};
use crate::server::{Raw, Server, Session};
use crate::time::{TTL, Tick, instant};
use crate::variant::{Kinds, Run, Variant};

/// The state of the world.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    now: Tick,
    /// Faults that may still happen.
    faults: u8,
    /// Clock steps that have happened.
    steps: u8,
    server: Server,
    clients: [Client; 2],
    /// Token of the command that was started last.
    started: u8,
    /// Whether one was started with a smaller token than one before.
    disorder: bool,
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
    fn running(&self) -> usize {
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
        let at = (asked.moved, asked.at_gate);
        link.heard = now;
        match self
            .server
            .execute(now, session, &asked.question, at, run.rules)
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

    fn execute_late(&mut self, c: usize, run: &Run) {
        if let Some(asked) = self.clients[c].late.take() {
            let session = Session::dropped(c);
            let at = (asked.moved, asked.at_gate);
            self.server
                .execute(self.now, session, &asked.question, at, run.rules);
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
        let kind = match run.variant {
            Variant::DoubtForgotten => FailureKind::Unreachable,
            _ => kind,
        };
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
        let Front::Granted(hold) = self.clients[c].front else {
            return;
        };
        if self.clients[c].launch(self.now, hold, run.variant) {
            let token = u8::try_from(hold.grant.token.0).expect("few grants");
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
        if !self.clients[c].is_quiet() {
            self.abandon(c);
        }
        self.clients[c].command = Command::Ended;
        self.clients[c].front = match parting {
            Some(parting) => Front::Leaving(parting),
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
        self.server.forget();
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

impl Run {
    fn faults_of(&self, world: &World, c: usize, events: &mut Vec<Event>) {
        let client = &world.clients[c];
        if world.faults == 0 {
            return;
        }
        let acquiring = matches!(client.front, Front::Acquiring(_));
        if acquiring && self.kinds != Kinds::Halts {
            events.push(Event::Quit(c));
        }
        if self.kinds == Kinds::Delays {
            return;
        }
        if let Some(link) = &client.link {
            if link.alive && world.server.knows(Session::current(c)) {
                events.push(Event::Break(c));
            }
            if link.alive && link.stalled == Halt::None && link.asked.is_some() {
                events.push(Event::Stall(c));
            }
        }
        if self.kinds == Kinds::Halts {
            return;
        }
        let asked = client.link.iter().filter_map(|link| link.asked.as_ref());
        for asked in asked.filter(|asked| asked.wire == Wire::Request) {
            if asked.moved {
                events.push(Event::Unreachable(c));
            }
            let flows = |link: &Link| link.alive && link.stalled == Halt::None;
            if client.link.as_ref().is_some_and(flows) && asked.may_be_late() {
                events.push(Event::ExecuteAndKeep(c));
            }
        }
        if !matches!(client.front, Front::Unborn | Front::Over { .. }) {
            events.push(Event::KillFront(c));
        }
        if client.command == Command::Running && self.variant != Variant::NoMonitor {
            events.push(Event::KillMonitor(c));
        }
    }

    /// What happens to `c` without anybody's fault. Answers whether some of it is urgent: whoever is
    /// not stopped or stalled does in a tick what is to be done in it.
    fn events_of(&self, world: &World, c: usize, events: &mut Vec<Event>) -> bool {
        let client = &world.clients[c];
        let over = matches!(client.front, Front::Unborn | Front::Over { .. });
        if over && !client.is_running() && client.life < self.lives[c] {
            events.push(Event::Begin(c));
        }
        if client.late.is_some() {
            events.push(Event::ExecuteLate(c));
        }
        if world.server.knows(Session::dropped(c)) {
            events.push(Event::Notice(c));
        }
        if client.command == Command::Running {
            events.push(Event::End(c));
        }
        if client.paused == Halt::Old {
            events.push(Event::Resume(c));
        }
        let awake = client.paused == Halt::None;
        let mut urgent = events.len();
        let lazy = self.of_connection(world, c, events);
        urgent = events.len() - urgent - lazy;
        let front_dead = matches!(client.front, Front::Over { .. });
        if awake {
            if let Front::Granted(_) = client.front {
                events.push(Event::Launch(c));
                urgent += 1;
            }
            if client.has_to_act(world.now, self.variant) {
                events.push(Event::Act(c));
                urgent += 1;
            }
            if urgent > 0 && world.faults > 0 && !front_dead {
                events.push(Event::Pause(c));
            }
        }
        let no_monitor = self.variant == Variant::NoMonitor && (front_dead || !awake);
        if client.is_due(world.now) && !no_monitor {
            events.push(Event::Watch(c));
            urgent += 1;
        }
        urgent > 0
    }

    /// What happens on the connection of `c`; answers how much of it need not happen in this tick.
    fn of_connection(&self, world: &World, c: usize, events: &mut Vec<Event>) -> usize {
        let client = &world.clients[c];
        let Some(link) = &client.link else {
            return 0;
        };
        let awake = client.paused == Halt::None;
        let mut lazy = 0;
        let first = link.stale.as_ref().or(link.asked.as_ref());
        let requested = |asked: &Asked| asked.wire == Wire::Request;
        let waits = link.asked.as_ref().is_some_and(requested) || first.is_some_and(requested);
        let session = Session::current(c);
        // A request that is held up was executed in time, or is when it gets through.
        if waits && link.alive && link.stalled != Halt::Old && !world.server.keeps_waiting(session)
        {
            events.push(Event::Execute(c));
            lazy += usize::from(link.stalled == Halt::Fresh);
        }
        let replied = first.is_some_and(|asked| !requested(asked));
        if link.asked.is_some() && awake {
            if replied && link.stalled == Halt::None {
                events.push(Event::Read(c));
            } else if !link.alive || link.stalled != Halt::None {
                events.push(Event::Fail(c));
                lazy += usize::from(link.alive && link.stalled == Halt::Fresh);
            }
        }
        if link.stalled == Halt::Old {
            events.push(Event::Flow(c));
            lazy += usize::from(link.asked.is_none() || !awake);
        }
        if link.asked.is_none() && link.alive && world.now >= link.heard + TTL {
            events.push(Event::Reap(c));
            lazy += 1;
        }
        lazy
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
                world.clients[c].late = world.clients[c].link.as_ref()?.asked.clone();
                world.execute(c, self);
            }
            Event::ExecuteLate(c) => world.execute_late(c, self),
            Event::Read(c) => world.clients[c].read(now, self.variant),
            Event::Fail(c) => {
                world.fail(c, FailureKind::Unknown, self);
            }
            Event::Stall(c) => {
                world.spend();
                world.clients[c].link.as_mut()?.stalled = Halt::Fresh;
            }
            Event::Flow(c) => world.clients[c].link.as_mut()?.stalled = Halt::None,
            Event::Pause(c) => {
                world.spend();
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
        vec![
            Property::always(EXCLUSION, |_, world: &World| world.running() <= 1),
            Property::always(ORDER, |_, world: &World| !world.disorder),
            Property::always(IN_TIME, |run: &Run, world: &World| {
                run.variant == Variant::NoMonitor
                    || world.clients.iter().all(|client| {
                        !client.is_running()
                            || client
                                .monitor
                                .is_none_or(|m| instant(world.now) <= m.deadline.kill)
                    })
            }),
            Property::always(ROW_IS_OURS, |_, world: &World| {
                world.clients.iter().enumerate().all(|(c, client)| {
                    !client.is_running() || world.server.row.claim == Some(client.claim(c))
                })
            }),
            Property::always(RELEASE_AFTER_DEATH, |_, world: &World| {
                world.clients.iter().all(|client| {
                    !(client.is_running() && matches!(client.front, Front::Leaving(_)))
                })
            }),
            Property::sometimes(HANDED_OVER, |_, world: &World| {
                world.follows(|front| matches!(front, Front::Over { released: true }))
            }),
            Property::sometimes(DEAD_TAKEN_OVER, |_, world: &World| {
                world.follows(|front| matches!(front, Front::Over { released: false }))
            }),
            Property::sometimes(FROZEN_TAKEN_OVER, |_, world: &World| {
                world.follows(|front| matches!(front, Front::Holding { .. }))
            }),
            Property::sometimes(SURVIVED, |run: &Run, world: &World| {
                run.kinds == Kinds::Delays || world.survives()
            }),
            Property::sometimes(OWN_CLOCK, |_, world: &World| {
                world.clients.iter().enumerate().any(|(c, client)| {
                    let claim = client.claim(c);
                    let asked = client.link.as_ref().and_then(|link| link.asked.as_ref());
                    asked.is_some_and(|asked| {
                        matches!(&*asked.question, Question::Attempt(wish) if wish.seen.is_some())
                            && matches!(asked.wire, Wire::Reply(Raw::Row(look, true), _)
                                if look.claim == Some(claim))
                    })
                })
            }),
        ]
    }
}

/// The promise itself.
pub(crate) const EXCLUSION: &str = "never two commands at once";
pub(crate) const ORDER: &str = "tokens grow in the order of starts";
pub(crate) const IN_TIME: &str = "no command is alive past its deadline";
pub(crate) const ROW_IS_OURS: &str = "a command alive has the row";
pub(crate) const HANDED_OVER: &str = "a lease is handed over";
pub(crate) const DEAD_TAKEN_OVER: &str = "the lease of the dead is taken over";
pub(crate) const SURVIVED: &str = "a lost reply is survived";
pub(crate) const OWN_CLOCK: &str = "a waiter takes over by its own clock";
pub(crate) const FROZEN_TAKEN_OVER: &str = "the lease of the frozen is taken over";
pub(crate) const RELEASE_AFTER_DEATH: &str = "nothing is released before the tree is dead";

impl World {
    /// Whether one command runs after the other client's was started and ended up like `like`.
    fn follows(&self, like: impl Fn(&Front) -> bool) -> bool {
        [(0, 1), (1, 0)].into_iter().any(|(before, after)| {
            let (before, after) = (&self.clients[before], &self.clients[after]);
            before.monitor.is_some() && like(&before.front) && after.is_running()
        })
    }

    /// Whether a command runs on a lease renewed on a second connection.
    fn survives(&self) -> bool {
        self.clients.iter().any(|client| {
            client.is_running() && client.late.is_some() && self.server.row.renewals > 0
        })
    }
}
