//! The events that may happen to a client in a state of the world.

use dlock::store::FailureKind;

use crate::client::{Asked, Command, InFlight, Link, Parent, StopState};
use crate::mutation::{Kinds, Run, Variant};
use crate::server::Session;
use crate::time::TTL;
use crate::world::{Event, World};

/// Errors that a server may return after it has executed the request: those that a contender does not treat as an
/// unknown outcome.
const ERRORS: [FailureKind; 2] = [FailureKind::Conflict, FailureKind::NoQueueLock];

impl Run {
    /// Adds the faults that may happen to client `c`.
    pub(crate) fn faults_of(&self, world: &World, c: usize, events: &mut Vec<Event>) {
        let client = &world.clients[c];
        if world.faults == 0 {
            return;
        }
        let acquiring = matches!(client.parent, Parent::Acquiring(_));
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
            if link.alive && link.stalled == StopState::None && link.asked.is_some() {
                events.push(Event::Stall(c));
            }
        }
        if self.kinds == Kinds::Halts {
            return;
        }
        let asked = client.link.iter().filter_map(|link| link.asked.as_ref());
        for asked in asked.filter(|asked| asked.wire == InFlight::Request) {
            if asked.moved {
                events.push(Event::Unreachable(c));
            }
            let flows = |link: &Link| link.alive && link.stalled == StopState::None;
            if client.link.as_ref().is_some_and(flows) && asked.may_be_late() {
                events.push(Event::ExecuteAndKeep(c));
                events.extend(ERRORS.map(|kind| Event::Error(c, kind)));
            }
        }
        if !matches!(client.parent, Parent::Unborn | Parent::Over { .. }) {
            events.push(Event::KillParent(c));
        }
        if client.command == Command::Running && self.variant != Variant::NoMonitor {
            events.push(Event::KillMonitor(c));
        }
    }

    /// Adds the events that may happen to client `c` without a fault. Returns true if one of them is urgent: a process
    /// that is not stopped or stalled does in a tick what is due in it.
    pub(crate) fn events_of(&self, world: &World, c: usize, events: &mut Vec<Event>) -> bool {
        let client = &world.clients[c];
        let over = matches!(client.parent, Parent::Unborn | Parent::Over { .. });
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
        if client.paused == StopState::Old {
            events.push(Event::Resume(c));
        }
        let awake = client.paused == StopState::None;
        let mut urgent = events.len();
        let lazy = of_connection(world, c, events);
        urgent = events.len() - urgent - lazy;
        let parent_dead = matches!(client.parent, Parent::Over { .. });
        if awake {
            if let Parent::Granted(_) = client.parent {
                events.push(Event::Launch(c));
                urgent += 1;
            }
            if client.has_to_act(world.now, self.variant) {
                events.push(Event::Act(c));
                urgent += 1;
            }
            let may_halt = world.faults > 0 || self.variant == Variant::BlockedByMessages;
            if urgent > 0 && may_halt && !parent_dead {
                events.push(Event::Pause(c));
            }
        }
        let no_monitor = self.variant == Variant::NoMonitor && (parent_dead || !awake);
        if client.is_due(world.now) && !no_monitor {
            events.push(Event::Watch(c));
            urgent += 1;
        }
        urgent > 0
    }
}

/// Adds the events on the connection of client `c`. Returns how many of them need not happen in this tick.
fn of_connection(world: &World, c: usize, events: &mut Vec<Event>) -> usize {
    let client = &world.clients[c];
    let Some(link) = &client.link else {
        return 0;
    };
    let awake = client.paused == StopState::None;
    let mut lazy = 0;
    let first = link.stale.as_ref().or(link.asked.as_ref());
    let requested = |asked: &Asked| asked.wire == InFlight::Request;
    let waits = link.asked.as_ref().is_some_and(requested) || first.is_some_and(requested);
    let session = Session::current(c);
    // A request on a stalled connection was executed in time, or is executed when the stall is over.
    if waits && link.alive && link.stalled != StopState::Old && !world.server.keeps_waiting(session)
    {
        events.push(Event::Execute(c));
        lazy += usize::from(link.stalled == StopState::Fresh);
    }
    let replied = first.is_some_and(|asked| !requested(asked));
    if link.asked.is_some() && awake {
        if replied && link.stalled == StopState::None {
            events.push(Event::Read(c));
        } else if !link.alive || link.stalled != StopState::None {
            events.push(Event::Fail(c));
            lazy += usize::from(link.alive && link.stalled == StopState::Fresh);
        }
    }
    if link.stalled == StopState::Old {
        events.push(Event::Flow(c));
        lazy += usize::from(link.asked.is_none() || !awake);
    }
    if link.asked.is_none() && link.alive && world.now >= link.heard + TTL {
        events.push(Event::Reap(c));
        lazy += 1;
    }
    lazy
}
