//! Checks that runs with several locks never wait for each other, whatever sets they use, and that the command of each
//! one runs only while it holds all its locks. Three processes use three locks, and each lock has a server of its own. The
//! model runs dlock's own `Keepers`.
//!
//! Any order of requests is checked, with one fault: an operator revokes a lease, or a process gives up. A process completes
//! all due requests within a tick, and a command takes any number of ticks.

use std::time::Duration;

use dlock::protocol::keeper::{
    Input, LeftSessions, Notice, PhaseKind, ReleaseEffort, Step, WorkEnd,
};
use dlock::protocol::keepers::Keepers;
use dlock::store::operator::OperatorAction;
use dlock::store::session::SessionPolicy;
use dlock::store::{Failure, FailureKind, QueueLock, ReleaseRequest, Request, Response};
use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::check::size;
use crate::client::settings;
use crate::mutation::{Run, Variant};
use crate::responses::{failure, interpret, timed_response};
use crate::server::{NUMBER_BYTE, Server, Session, Stage, owner_id_of_number};
use crate::time::{Tick, instant};

/// Last tick of a run. A lease lasts four ticks.
const HORIZON: Tick = 8;

/// Last tick in which a command runs and a fault happens, so that a waiter that polls is served before the last tick.
const LAST_RUNNING: Tick = 3;

const LOCKS: usize = 3;

/// A run of the model: the locks of each process, in the order in which it acquires them.
struct Sets {
    sets: Vec<Vec<usize>>,
    /// True if an operator may revoke one lease, or one process may give up.
    has_fault: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    now: Tick,
    servers: Vec<Server>,
    processes: Vec<Process>,
    has_fault: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Process {
    keepers: Keepers,
    /// The request in flight for each lock of the process.
    requests: Vec<Option<(Request, Stage)>>,
    command: Command,
    is_over: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Command {
    NotStarted,
    Running,
    Ended,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Event {
    /// The server executes a packet of the request for one lock of a process.
    Execute(usize, usize),
    EndCommand(usize),
    Tick,
    Revoke(usize),
    GiveUp(usize),
}

impl Process {
    fn new(process: usize, locks: usize) -> Self {
        let owner_id = owner_id_of_number(u8::try_from(process).expect("a small number") + 1);
        let settings = settings(SessionPolicy::Ignore, Variant::Sound);
        Self {
            keepers: Keepers::new(vec![owner_id; locks], settings, instant(0)),
            requests: vec![None; locks],
            command: Command::NotStarted,
            is_over: false,
        }
    }

    /// Returns true if the process has a grant for each lock, as far as it knows.
    fn is_running(&self) -> bool {
        self.command == Command::Running
    }

    /// Carries out all steps that are due.
    fn act(&mut self, process: usize, now: Tick, locks: &[usize], servers: &mut [Server]) {
        loop {
            let (lease, step) = self.keepers.poll(instant(now));
            while let Some((_, notice)) = self.keepers.notice() {
                match notice {
                    Notice::Ready => self.command = Command::Running,
                    // The monitor kills the command.
                    Notice::Lost(..) if self.is_running() => self.end_command(now),
                    _ => {}
                }
            }
            match step {
                Step::Send(request) => self.requests[lease] = Some((request, Stage::First)),
                Step::Interrupt => {
                    self.requests[lease] = None;
                    servers[locks[lease]].end(Session::current(process));
                    let outcome = Err(failure(FailureKind::Unknown));
                    self.respond(now, lease, outcome);
                }
                Step::Over => {
                    self.is_over = true;
                    return;
                }
                Step::Wait(_) => return,
                Step::Reconnect | Step::ReadAddress(_) => panic!("no address is checked"),
            }
        }
    }

    fn respond(&mut self, now: Tick, lease: usize, outcome: Result<Response, Failure>) {
        let response = Box::new(timed_response(now, now, outcome));
        self.keepers
            .handle(instant(now), lease, Input::Response(response));
    }

    fn end_command(&mut self, now: Tick) {
        self.command = Command::Ended;
        for lease in (0..self.requests.len()).rev() {
            let Some(grant) = self.keepers.each()[lease].grant() else {
                continue;
            };
            let (owner_id, token) = (grant.owner_id, Some(grant.token));
            let end = WorkEnd {
                release: ReleaseRequest::without_run(owner_id, token, QueueLock::Available),
                took: Duration::ZERO,
                sessions: LeftSessions::Keep,
                effort: ReleaseEffort::Brief { may_hand_off: true },
            };
            self.keepers
                .handle(instant(now), lease, Input::WorkEnded(end));
        }
    }
}

impl World {
    /// Lets the server execute a packet. Returns false if nothing changes, because the request waits.
    fn execute(&mut self, model: &Sets, process: usize, lease: usize) -> bool {
        let lock = model.sets[process][lease];
        let Some((request, stage)) = self.processes[process].requests[lease].take() else {
            return false;
        };
        let before = self.servers[lock].clone();
        let (session, rules) = (Session::current(process), Run::sound().rules);
        let raw = self.servers[lock].execute(self.now, session, &request, stage, rules);
        let process = &mut self.processes[process];
        let Some(raw) = raw else {
            process.requests[lease] = Some((request, stage));
            return self.servers[lock] != before;
        };
        if let Some(next) = raw.next(&request) {
            process.requests[lease] = Some((request, next));
        } else {
            process.respond(self.now, lease, interpret(&request, raw, Variant::Sound));
        }
        true
    }

    fn act(&mut self, model: &Sets) {
        let (now, servers) = (self.now, &mut self.servers);
        for (number, process) in self.processes.iter_mut().enumerate() {
            process.act(number, now, &model.sets[number], servers);
        }
    }

    /// Returns true if the rows of all locks of each running process contain its owner id.
    fn running_processes_hold_their_locks(&self, sets: &[Vec<usize>]) -> bool {
        let processes = self.processes.iter().zip(sets);
        let mut running = processes.filter(|(process, _)| process.is_running());
        running.all(|(process, locks)| {
            let mut leases = process.keepers.each().iter().zip(locks);
            leases.all(|(keeper, lock)| {
                let number = keeper.grant().map(|it| it.owner_id.bytes()[NUMBER_BYTE]);
                self.servers[*lock].row.owner_id == number
            })
        })
    }

    /// Returns the ends of commands that are possible.
    fn ends(&self) -> impl Iterator<Item = Event> {
        let processes = self.processes.iter().enumerate();
        let running = processes.filter(|(_, process)| process.is_running());
        running.map(|(number, _)| Event::EndCommand(number))
    }

    fn is_over(&self) -> bool {
        self.processes.iter().all(|process| process.is_over)
    }

    fn next(&self, model: &Sets, event: &Event) -> Option<Self> {
        let mut next = self.clone();
        match *event {
            Event::Execute(process, lease) => {
                if !next.execute(model, process, lease) {
                    return None;
                }
            }
            Event::EndCommand(process) => next.processes[process].end_command(self.now),
            Event::Tick => next.now += 1,
            Event::Revoke(lock) => {
                next.has_fault = false;
                let server = &mut next.servers[lock];
                let (token, release) = (server.row.token, OperatorAction::Release);
                server.apply_operator_action(self.now, token, release);
            }
            Event::GiveUp(process) => {
                next.has_fault = false;
                let keepers = &mut next.processes[process].keepers;
                keepers.handle_all(instant(self.now), || Input::GiveUp);
            }
        }
        next.act(model);
        Some(next)
    }
}

impl Sets {
    /// Returns the packets that a server can execute.
    fn requests(&self, world: &World) -> Vec<Event> {
        let processes = world.processes.iter().enumerate();
        let all = processes.flat_map(|(number, process)| {
            (0..process.requests.len()).map(move |lease| Event::Execute(number, lease))
        });
        all.filter(|event| world.next(self, event).is_some())
            .collect()
    }
}

impl Model for Sets {
    type State = World;
    type Action = Event;

    fn init_states(&self) -> Vec<World> {
        let sets = self.sets.iter().enumerate();
        let mut world = World {
            now: 0,
            servers: vec![Server::new(); LOCKS],
            processes: sets
                .map(|(process, set)| Process::new(process, set.len()))
                .collect(),
            has_fault: self.has_fault,
        };
        world.act(self);
        vec![world]
    }

    fn actions(&self, world: &World, events: &mut Vec<Event>) {
        *events = self.requests(world);
        // A process that is not stopped completes all due requests within the tick. A command may take longer.
        let may_run_on = world.now < LAST_RUNNING || world.ends().next().is_none();
        if events.is_empty() && may_run_on && world.now < HORIZON && !world.is_over() {
            events.push(Event::Tick);
        }
        events.extend(world.ends());
        if world.has_fault && world.now <= LAST_RUNNING {
            let is_held = |lock: &usize| {
                let row = &world.servers[*lock].row;
                row.owner_id.is_some() && !row.revoked
            };
            events.extend((0..LOCKS).filter(is_held).map(Event::Revoke));
            let waits = |process: &usize| {
                let process = &world.processes[*process];
                process.command == Command::NotStarted && !process.is_over
            };
            events.extend((0..self.sets.len()).filter(waits).map(Event::GiveUp));
        }
    }

    fn next_state(&self, world: &World, event: Event) -> Option<World> {
        world.next(self, &event)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ALL_HELD, |model: &Self, world: &World| {
                model.has_fault || world.running_processes_hold_their_locks(&model.sets)
            }),
            Property::always(EXCLUSION, |model: &Self, world: &World| {
                let uses = |lock: &usize| {
                    let processes = world.processes.iter().zip(&model.sets);
                    processes
                        .filter(|(process, set)| process.is_running() && set.contains(lock))
                        .count()
                };
                (0..LOCKS).all(|lock| uses(&lock) <= 1)
            }),
            Property::always(NO_DEADLOCK, |model: &Self, world: &World| {
                world.now < HORIZON
                    || world.is_over()
                    || world.ends().next().is_some()
                    || !model.requests(world).is_empty()
            }),
            Property::sometimes(WAITED, |_, world: &World| {
                world.processes.iter().any(|process| {
                    let keepers = process.keepers.each();
                    keepers.len() > 1
                        && keepers[0].phase() == PhaseKind::Held
                        && process.command == Command::NotStarted
                        && (process.requests.last()).is_some_and(|request| {
                            matches!(request, Some((Request::WaitTurn(_), _)))
                        })
                })
            }),
            Property::sometimes(ALL_RUN, |_, world: &World| {
                let mut processes = world.processes.iter();
                processes.all(|process| process.command == Command::Ended)
            }),
        ]
    }
}

const ALL_HELD: &str = "a running command has all its locks";
const EXCLUSION: &str = "no two commands run under the same lock";
const NO_DEADLOCK: &str = "no two processes wait for each other";
const WAITED: &str = "a process waits for a lock and holds another one";
const ALL_RUN: &str = "all commands have run";

/// Returns the names of the properties that fail, and of the possible events.
fn findings(sets: &[&[usize]], has_fault: bool) -> Vec<&'static str> {
    let model = Sets {
        sets: sets.iter().map(|set| set.to_vec()).collect(),
        has_fault,
    };
    let checker = model
        .checker()
        .threads(2)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    println!("{sets:?}: {} distinct states", checker.unique_state_count());
    let mut found = Vec::new();
    for (name, path) in checker.discoveries() {
        if ![WAITED, ALL_RUN].contains(&name) {
            println!("{name}: {:?}", path.into_actions());
        }
        found.push(name);
    }
    found.sort_unstable();
    found
}

#[test]
fn three_processes_with_overlapping_sets_never_wait_for_each_other() {
    for sets in [
        [&[0, 1][..], &[1, 2], &[0, 2]],
        [&[0, 1, 2], &[1, 2], &[0, 1]],
        [&[0, 1, 2], &[0, 1, 2], &[0, 1, 2]],
    ] {
        assert_eq!(findings(&sets, false), [WAITED, ALL_RUN]);
    }
}

#[test]
fn a_revoked_lease_or_a_process_that_gives_up_leaves_no_lock() {
    for sets in [
        [&[0, 1][..], &[1, 2], &[0, 2]],
        [&[0, 1, 2], &[1, 2], &[0, 1]],
    ]
    .into_iter()
    .take(size(2, 1))
    {
        assert_eq!(findings(&sets, true), [WAITED, ALL_RUN]);
    }
}

#[test]
fn sets_that_are_not_sorted_are_detected() {
    let found = findings(&[&[0, 1], &[1, 2], &[2, 0]], false);
    assert!(found.contains(&NO_DEADLOCK), "{found:?}");
}
