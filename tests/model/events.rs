//! The events that can happen to a client in a state of the model.

use dlock::protocol::keeper::PhaseKind;
use dlock::store::{FailureKind, Request};

use crate::client::{Command, Connection, Parent, PendingRequest, Progress, StopState};
use crate::mutation::{FaultKinds, Run, Variant};
use crate::server::Session;
use crate::server::statements::SessionIds;
use crate::time::TTL;
use crate::world::{AddressRead, Event, World};

/// Errors that a server may return after it has executed the request. The list contains only the kinds that a contender
/// does not treat as an unknown outcome.
const ERRORS: [FailureKind; 2] = [FailureKind::Conflict, FailureKind::NoQueueLock];

impl Run {
    /// Returns true if waiters remember the records that they read for reminders.
    pub(crate) fn reads_reminders(&self) -> bool {
        self.reminders && self.variant != Variant::RemindersForgotten
    }

    /// Adds the faults that can happen to client `c`.
    pub(crate) fn faults_of(&self, world: &World, c: usize, events: &mut Vec<Event>) {
        let client = &world.clients[c];
        if world.faults == 0 {
            return;
        }
        let is_waiting = match client.phase() {
            Some(PhaseKind::Acquiring | PhaseKind::EndingEarlier | PhaseKind::EndingOwn) => true,
            _ => client.is_granted() && self.waits_for_others,
        };
        if is_waiting && self.kinds != FaultKinds::StopsAndStalls {
            events.push(Event::GiveUp(c));
        }
        if matches!(self.kinds, FaultKinds::Quits | FaultKinds::StopsAndQuits) {
            return;
        }
        if self.kinds == FaultKinds::LateRenewals {
            let is_renewal = client.pending().is_some_and(|pending| {
                pending.progress == Progress::Sent
                    && matches!(*pending.request, Request::Renew(_))
                    && pending.may_be_late()
            });
            if is_renewal {
                events.push(Event::ExecuteAndKeep(c));
            }
            return;
        }
        if self.kinds == FaultKinds::Deaths {
            self.deaths_of(world, c, events);
            return;
        }
        if let Some(connection) = &client.connection {
            if connection.alive && world.server.has_queue_lock_or_waits(Session::current(c)) {
                events.push(Event::BreakConnection(c));
            }
            if self.kinds == FaultKinds::Breaks {
                return;
            }
            if connection.alive
                && connection.stalled == StopState::None
                && connection.pending.is_some()
            {
                events.push(Event::Stall(c));
            }
        }
        if matches!(self.kinds, FaultKinds::Breaks | FaultKinds::StopsAndStalls) {
            return;
        }
        let is_sent = |pending: &&PendingRequest| pending.progress == Progress::Sent;
        if let Some(pending) = client.pending().filter(is_sent) {
            if pending.is_first {
                events.push(Event::Unreachable(c));
            }
            let is_open =
                |connection: &Connection| connection.alive && connection.stalled == StopState::None;
            if client.connection.as_ref().is_some_and(is_open) && pending.may_be_late() {
                events.push(Event::ExecuteAndKeep(c));
                events.extend(ERRORS.map(|kind| Event::ReturnError(c, kind)));
            }
        }
        self.deaths_of(world, c, events);
    }

    /// Adds the deaths of the processes of client `c`.
    fn deaths_of(&self, world: &World, c: usize, events: &mut Vec<Event>) {
        let client = &world.clients[c];
        if !matches!(client.parent, Parent::NotStarted | Parent::Ended { .. }) {
            events.push(Event::KillParent(c));
            if client.command == Command::Running {
                events.push(Event::FailMachine(c));
            }
        }
        let has_monitor = self.variant != Variant::NoMonitor && !self.holds;
        if client.command == Command::Running && has_monitor {
            events.push(Event::KillMonitor(c));
        }
    }

    /// Adds the events that can happen to client `c` without a fault. Returns true if one of the events is urgent,
    /// which means that it must happen before the next tick. A process that is not stopped completes all due work
    /// within the tick.
    pub(crate) fn events_of(&self, world: &World, c: usize, events: &mut Vec<Event>) -> bool {
        let client = &world.clients[c];
        let has_ended = matches!(client.parent, Parent::NotStarted | Parent::Ended { .. });
        if has_ended
            && !client.is_running()
            && client.process < self.processes[c]
            && !world.is_too_early_to_start()
        {
            events.push(Event::StartProcess(c));
        }
        if client.late.is_some() {
            events.push(Event::ExecuteLate(c));
        }
        if client.reads_address && client.paused == StopState::None {
            events.push(Event::ReadAddress(c, AddressRead::Same));
            if world.faults > 0 {
                events.push(Event::ReadAddress(c, AddressRead::Elsewhere));
                events.push(Event::ReadAddress(c, AddressRead::Failed));
            }
        }
        if self.reads_reminders() && client.has_not_read(world.server.row.token) {
            events.push(Event::ReadForReminder(c));
        }
        if world.server.has_queue_lock_or_waits(Session::dropped(c)) {
            events.push(Event::NoticeDrop(c));
        }
        if client.command == Command::Running {
            events.push(Event::EndCommand(c));
            if self.once || client.sessions != SessionIds::EMPTY {
                events.push(Event::FailCommand(c));
            }
            if world.statements < self.statements && client.is_holding() {
                events.push(Event::StartStatement(c));
            }
        }
        if client.paused == StopState::EarlierTick {
            events.push(Event::Resume(c));
        }
        let is_running = client.paused == StopState::None;
        let mut urgent = events.len();
        let not_urgent = of_connection(world, c, events);
        urgent = events.len() - urgent - not_urgent;
        let parent_has_ended = matches!(client.parent, Parent::Ended { .. });
        if is_running {
            if client.is_granted() {
                events.push(Event::StartCommand(c));
                urgent += usize::from(!self.waits_for_others);
            }
            if client.has_to_act(world.now, self) {
                events.push(Event::Act(c));
                urgent += 1;
            }
            let may_halt = match self.kinds {
                _ if self.variant == Variant::BlockedByMessages => true,
                FaultKinds::Breaks | FaultKinds::Quits | FaultKinds::LateRenewals => false,
                _ => world.faults > 0,
            };
            if urgent > 0 && may_halt && !parent_has_ended {
                events.push(Event::Pause(c));
            }
        }
        let no_monitor = self.variant == Variant::NoMonitor && (parent_has_ended || !is_running);
        if client.is_due(world.now) && !no_monitor {
            events.push(Event::StepMonitor(c));
            urgent += 1;
        }
        urgent > 0
    }
}

/// Adds the events on the connection of client `c`. Returns the number of these events that are not urgent.
fn of_connection(world: &World, c: usize, events: &mut Vec<Event>) -> usize {
    let client = &world.clients[c];
    let Some(connection) = &client.connection else {
        return 0;
    };
    let is_running = client.paused == StopState::None;
    let mut not_urgent = 0;
    let first = connection.previous.as_ref().or(connection.pending.as_ref());
    let is_sent = |pending: &PendingRequest| pending.progress == Progress::Sent;
    let is_waiting = connection.pending.as_ref().is_some_and(is_sent) || first.is_some_and(is_sent);
    let session = Session::current(c);
    // A request on a stalled connection is executed in the tick in which the stall begins, or after the stall ends.
    if is_waiting
        && connection.alive
        && connection.stalled != StopState::EarlierTick
        && !world.server.keeps_waiting(session)
    {
        events.push(Event::Execute(c));
        let may_last = first.is_some_and(|pending| pending.waits_for_room(world.now));
        not_urgent += usize::from(connection.stalled == StopState::ThisTick || may_last);
    }
    let is_executed = first.is_some_and(|pending| !is_sent(pending));
    if connection.pending.is_some() && is_running {
        if is_executed && connection.stalled == StopState::None {
            events.push(Event::Read(c));
        } else if !connection.alive || connection.stalled != StopState::None {
            events.push(Event::FailRequest(c));
            not_urgent +=
                usize::from(connection.alive && connection.stalled == StopState::ThisTick);
        }
    }
    if connection.stalled == StopState::EarlierTick {
        events.push(Event::Unstall(c));
        not_urgent += usize::from(connection.pending.is_none() || !is_running);
    }
    if connection.pending.is_none()
        && connection.alive
        && world.now >= connection.last_received + TTL
    {
        events.push(Event::EndIdleSession(c));
        not_urgent += 1;
    }
    not_urgent
}
