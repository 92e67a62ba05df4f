//! Which events may happen to a client in a state of the world.

use dlock::store::FailureKind;

use crate::client::{Asked, Command, Front, Halt, Link, Wire};
use crate::server::Session;
use crate::time::TTL;
use crate::variant::{Kinds, Run, Variant};
use crate::world::{Event, World};

/// Errors that a server may answer with after it has carried the request out: those that tell a
/// contender something else than that nothing is known.
const ERRORS: [FailureKind; 2] = [FailureKind::Conflict, FailureKind::NoGate];

impl Run {
    /// What may go wrong with `c`.
    pub(crate) fn faults_of(&self, world: &World, c: usize, events: &mut Vec<Event>) {
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
                events.extend(ERRORS.map(|kind| Event::Error(c, kind)));
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
    pub(crate) fn events_of(&self, world: &World, c: usize, events: &mut Vec<Event>) -> bool {
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
        let lazy = of_connection(world, c, events);
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
            let may_halt = world.faults > 0 || self.variant == Variant::BlockedByMessages;
            if urgent > 0 && may_halt && !front_dead {
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
}

/// What happens on the connection of `c`; answers how much of it need not happen in this tick.
fn of_connection(world: &World, c: usize, events: &mut Vec<Event>) -> usize {
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
    if waits && link.alive && link.stalled != Halt::Old && !world.server.keeps_waiting(session) {
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
