//! The work of a hold of `--pid`: a process that dlock has not started, and that the monitor stops before its lease ends.

use std::time::Duration;

use super::publication::Publication;
use crate::commands::exec::supervised::SupervisedCommand;
use crate::commands::exec::work::{Work, WorkEvent};
use crate::event::queue::EventSender;
use crate::exit::Status;
use crate::lease::Grant;
use crate::lease::instant::{BootInstant, Deadline};
use crate::process::monitor::ParentMessage;
use crate::process::supervisor::StopReason;
use crate::report::Report;
use crate::report::log::EventKind;
use crate::sys::signal::{self, Origin, Signal};
use crate::sys::signal_name::describe;
use crate::sys::socket::Interrupter;
use crate::sys::tree::ExitReason;
use crate::sys::ward::Ward;

/// The process for which the lock is held.
pub(super) struct WardWork<'a> {
    publication: Publication<'a>,
    supervised: SupervisedCommand<'a>,
    ward: Ward,
    report: &'a Report,
    /// True if the process has to stop.
    is_stopping: bool,
}

impl<'a> WardWork<'a> {
    /// Creates the work of `ward`, which `supervised` stops.
    pub(super) const fn new(
        publication: Publication<'a>,
        supervised: SupervisedCommand<'a>,
        ward: Ward,
        report: &'a Report,
    ) -> Self {
        Self {
            publication,
            supervised,
            ward,
            report,
            is_stopping: false,
        }
    }

    fn begin_to_stop(&mut self) {
        self.is_stopping = true;
        self.publication.remove_file();
    }
}

impl Work for WardWork<'_> {
    /// The monitor knows the deadline before the shell knows the grant.
    fn start(&mut self, deadline: Deadline, grants: &[Grant], waited: Duration) {
        self.supervised.start(deadline, grants, waited);
        if !self.publication.granted(deadline, grants, waited) {
            self.supervised.let_go();
        }
    }

    fn renewed(&mut self, deadline: Deadline) {
        self.supervised.renewed(deadline);
        if !self.is_stopping {
            self.publication.renewed(deadline);
        }
    }

    fn stop(&mut self) {
        self.supervised.stop();
    }

    fn lost(&mut self, why: &str, by: Option<&str>, doing: &str) -> (String, WorkEvent) {
        self.begin_to_stop();
        self.supervised.lost(why, by, doing)
    }

    /// Lets the process go on without the lock, unless the process that manages it has sent the signal: this one signals the
    /// process too, which may still be at work.
    fn signal(&mut self, signal: Signal) -> WorkEvent {
        if !signal::is_fatal(signal.number) {
            return WorkEvent::None;
        }
        if self.supervised.is_stuck() {
            return self.supervised.signal(signal);
        }
        match signal.origin {
            Origin::Process(sender) if self.ward.is_managed_by(sender) => {
                let text = format_args!(
                    "received {} from process {sender}, which manages process {pid}; the lock is held until process {pid} \
                     has ended",
                    describe(signal.number),
                    pid = self.ward.pid()
                );
                self.report.info(EventKind::Signal, text);
            }
            _ => self.supervised.let_go(),
        }
        WorkEvent::None
    }

    fn timers(&self, deadline: Deadline) -> Vec<BootInstant> {
        self.supervised.timers(deadline)
    }

    fn enforce(&mut self, deadline: Deadline) -> WorkEvent {
        self.supervised.enforce(deadline)
    }

    fn watch_if_due(&mut self, now: BootInstant, interrupter: Interrupter, to: &EventSender) {
        self.supervised.watch_if_due(now, interrupter, to);
    }

    fn handle_message(&mut self, message: ParentMessage) -> WorkEvent {
        if matches!(message, ParentMessage::Stopping(_)) {
            self.begin_to_stop();
        }
        self.supervised.handle_message(message)
    }

    fn kill_orphans(&mut self) -> bool {
        self.supervised.kill_orphans()
    }

    fn reason(&self, end: ExitReason, stop_reason: StopReason) -> String {
        self.supervised.reason(end, stop_reason)
    }

    fn killed(&self) -> Option<u32> {
        self.supervised.killed()
    }

    fn keeps_sessions(&self) -> bool {
        self.supervised.keeps_sessions()
    }

    fn over(&mut self, is_released: bool) -> Option<Status> {
        self.publication.close(is_released);
        None
    }

    fn end(self: Box<Self>) {
        Box::new(self.supervised).end();
    }
}
