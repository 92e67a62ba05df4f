//! Finds the sessions that the command has on the server, while the command runs. Runs on the main thread.

use super::event_loop::EventLoop;
use crate::event::connections::ConnectionWatcher;
use crate::process::monitor::Monitor;
use crate::protocol::renew::Renewals;
use crate::protocol::sessions::{LookResult, TrackingProblem};
use crate::report::log::EventKind;
use crate::report::messages;
use crate::store::session::Untraceable;
use crate::sys::clock;

impl EventLoop<'_> {
    /// Starts the thread that watches the connections of the command. None if the kernel cannot create a thread.
    pub(super) fn watch_connections(&self, monitor: &Monitor) -> Option<ConnectionWatcher> {
        match ConnectionWatcher::start(monitor.pid(), self.database.interrupter(), self.events()) {
            Ok(watcher) => Some(watcher),
            Err(error) => {
                let text = format_args!("cannot watch the sessions of the command: {error}");
                self.report.info(EventKind::SessionsLeft, text);
                None
            }
        }
    }

    /// Reports sessions of the command that cannot be noted in the record.
    pub(super) fn handle_look(&self, result: LookResult, renewals: &mut Renewals) {
        let why = match result {
            LookResult::Noted => return,
            LookResult::LookSoon => return renewals.expedite_note(clock::now()),
            LookResult::Incomplete(TrackingProblem::Unseen(ports)) => {
                format!(
                    "dlock's account does not see the sessions of its connections from port {}; \
                     dlock doctor --session-user USER shows the missing privilege",
                    messages::ports(&ports)
                )
            }
            LookResult::Incomplete(TrackingProblem::Unproven(ports)) => {
                messages::unproven_sessions(&ports)
            }
            LookResult::Incomplete(TrackingProblem::Untraceable(Untraceable::Named)) => {
                "the server shows the name of this machine in place of its IP address, and \
                 several machines can have the same name (skip_name_resolve is off)"
                    .to_owned()
            }
            LookResult::Incomplete(TrackingProblem::Untraceable(Untraceable::NoProcessList)) => {
                "the server does not list its sessions (performance_schema is off)".to_owned()
            }
            LookResult::Incomplete(TrackingProblem::Untraceable(Untraceable::Translated)) => {
                "a proxy or a router changes the addresses of the connections".to_owned()
            }
            LookResult::Incomplete(TrackingProblem::Failed(failure)) => {
                let action = &self.action;
                let text = format_args!(
                    "cannot look for the sessions of the command of {action} on the server: {failure}; trying again"
                );
                return self.report.info(EventKind::SessionsLeft, text);
            }
        };
        let action = &self.action;
        let text = format_args!(
            "sessions that the command of {action} leaves on the server will not be ended: {why}"
        );
        self.report.info(EventKind::SessionsLeft, text);
    }
}
