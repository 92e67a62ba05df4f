//! The work that a run does while it holds its leases, as the driver sees it.

use std::time::Duration;

use crate::event::HoldInput;
use crate::event::queue::EventSender;
use crate::exit::Status;
use crate::lease::Grant;
use crate::lease::instant::{BootInstant, Deadline};
use crate::outcome::RunOutcome;
use crate::process::monitor::{MonitorEnd, ParentMessage};
use crate::process::supervisor::StopReason;
use crate::store::LockRecord;
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
    /// This process ends although the work may not be over, so the lease is left until it expires. Contains one line for
    /// users.
    LeftBehind(String),
}

/// The work under the leases of a run. No method blocks.
pub(in crate::commands) trait Work {
    /// Handles a wait that has lasted for the time `waited`. `ahead` waiters are ahead of this process.
    fn waiting(&mut self, _record: &LockRecord, _ahead: u64, _waited: Duration) {}

    /// Starts the work under the leases of `grants`, which were granted after the time `waited`. `deadline` is the earliest
    /// of them.
    fn start(&mut self, deadline: Deadline, grants: &[Grant], waited: Duration);

    /// Moves the deadline after a renewal.
    fn renewed(&mut self, deadline: Deadline);

    /// Handles a failed renewal, with its reason.
    fn renewal_failed(&mut self, _why: &str) {}

    /// Stops the work, because a lease is lost.
    fn stop(&mut self);

    /// Handles the loss of a lease, or its approach, for the reason `why`. `by` is the label of the new holder or of the
    /// operator who revoked the lease. Returns what this process does now, for users. `doing` is "stopping" or "killing".
    fn lost(&mut self, why: &str, by: Option<&str>, doing: &str) -> (String, WorkEvent);

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

    /// Handles the end of `input`.
    fn input_ended(&mut self, _input: HoldInput) -> WorkEvent {
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

    /// Returns true if the sessions of successful work on the server may continue.
    fn keeps_sessions(&self) -> bool {
        self.killed().is_none()
    }

    /// Handles the end of the life of the leases. `is_released` is true if the server has confirmed their release. Returns the
    /// exit status if it depends on that.
    fn over(&mut self, _is_released: bool) -> Option<Status> {
        None
    }

    /// Ends the threads and processes of the work.
    fn end(self: Box<Self>) {}
}
