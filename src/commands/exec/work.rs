//! The work that a run does while it holds its leases, as the driver sees it.

use std::time::Duration;

use crate::event::queue::EventSender;
use crate::lease::Grant;
use crate::lease::instant::{BootInstant, Deadline};
use crate::outcome::RunOutcome;
use crate::process::monitor::{MonitorEnd, ParentMessage};
use crate::process::supervisor::StopReason;
use crate::sys::signal::Signal;
use crate::sys::socket::Interrupter;
use crate::sys::tree::ExitReason;

/// The effect of an event of the work on the run.
pub(in crate::commands) enum WorkEvent {
    /// Nothing.
    None,
    /// The work is being stopped, because the deadline has passed.
    Expired,
    /// The monitor is dead, so this process kills the command.
    MonitorDied(MonitorEnd),
    /// The work has ended. Nothing of it is left.
    Ended(ExitReason, StopReason),
    /// The work could not begin.
    NeverRan(RunOutcome, String),
    /// A signal ends this process although the process with this id does not die.
    LeftBehind(u32),
}

/// The work under the leases of a run. No method blocks.
pub(in crate::commands) trait Work {
    /// Starts the work under the leases of `grants`, which were granted after the time `waited`. `deadline` is the earliest
    /// of them.
    fn start(&mut self, deadline: Deadline, grants: &[Grant], waited: Duration);

    /// Moves the deadline after a renewal.
    fn renewed(&mut self, deadline: Deadline);

    /// Stops the work, because a lease is lost.
    fn stop(&mut self);

    /// Handles the message that a lease is lost or will be lost for the reason `why`. `by` is the label of the new holder
    /// or of the operator who revoked the lease. Returns the end of the message for users, after `doing`, such as "stopping".
    fn lost(&mut self, why: &str, by: Option<&str>, doing: &str) -> String;

    /// Handles a signal to this process.
    fn signal(&mut self, signal: Signal) -> WorkEvent;

    /// Returns the instants at which this process has to act for the work, whose lease has `deadline`.
    fn timers(&self, deadline: Deadline) -> Vec<BootInstant>;

    /// Acts if an instant of [`Self::timers`] has passed. Call this method only if no event is pending, because a process
    /// that was frozen must first handle the events that arrived while it was frozen.
    fn enforce(&mut self, deadline: Deadline) -> WorkEvent;

    /// Watches the connections of the work to the server if it is time. `interrupter` watches dlock's own connection.
    fn watch_if_due(&mut self, _now: BootInstant, _interrupter: Interrupter, _to: &EventSender) {}

    /// Handles a message from the monitor.
    fn handle_message(&mut self, _message: ParentMessage) -> WorkEvent {
        WorkEvent::None
    }

    /// Kills the processes of a command whose monitor is dead. Returns true if they are dead.
    fn kill_orphans(&mut self) -> bool {
        false
    }

    /// Reports how the work has ended. Returns one line for users that explains the end of the run.
    fn reason(&self, end: ExitReason, stop_reason: StopReason) -> String;

    /// Returns the number of processes that the work left and that were then killed. None if dlock killed nothing.
    fn killed(&self) -> Option<u32> {
        None
    }

    /// Ends the threads and processes of the work.
    fn end(self: Box<Self>) {}
}
