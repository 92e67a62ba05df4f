//! The monitor: a small process between dlock (the parent) and the command. It enforces the lease's deadline regardless
//! of the state of the parent.
//!
//! ```text
//! parent: database, renewals, signals ──MonitorMessage──▶ monitor: deadline, reaping ──▶ command
//!                                     ◀──ParentMessage──
//! ```
//! The monitor is forked before the parent starts a thread, and has one thread. It waits only for messages, for
//! the deadline on the boot clock, and for children that end. The [`supervisor`] decides which signals the
//! command gets. If the parent dies, the monitor kills the command's whole tree at once; if the parent
//! freezes, at the deadline. If the monitor dies, the kernel kills the command, and the parent inherits and kills the
//! rest of the tree ([`Tree::inherited`]). If the monitor is stopped, the parent continues it. If the monitor misses a
//! deadline for any reason, the parent kills it.
//!
//! The monitor is an ancestor of the command and not a process beside it, because only an ancestor inherits orphans:
//! if the parent or the monitor dies, the other one can still find the whole tree. The monitor does not use the
//! database, because it must never wait for anything but these three sources.
//!
//! [`supervisor`]: crate::process::supervisor
//! [`Tree::inherited`]: crate::sys::tree::Tree::inherited

mod backchannel;
mod event_loop;
mod killing;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

pub use self::backchannel::{MonitorMessage, ParentMessage, Start};
pub use self::event_loop::NAME;
pub use self::killing::Killing;
use crate::sys::channel::{Channel, Received};
use crate::sys::pending_child::PreparedCommand;
use crate::sys::process::{self, ForkedProcess};

/// Time after the deadline after which the parent kills the monitor. It is a part of the smallest margin.
pub const LATE: Duration = Duration::from_millis(50);

/// The parent's handle to its monitor. When the last clone is dropped, the monitor kills the command and ends.
#[derive(Debug, Clone)]
pub struct Monitor {
    parent_end: Arc<Channel>,
    process: Arc<ForkedProcess>,
}

impl Monitor {
    /// Forks the monitor, and from it the process that will execute `command`. The parent must not have started a
    /// thread yet.
    ///
    /// # Errors
    /// Fails if the kernel cannot create a process or a descriptor.
    pub fn start(
        command: PreparedCommand,
        grace: Duration,
        shares_terminal: bool,
    ) -> io::Result<Self> {
        let (parent_end, monitor_end) = Channel::pair()?;
        process::become_subreaper()?;
        // The new process drops the parent's end. Otherwise neither the monitor nor the command would notice the
        // parent's death.
        let (process, parent_end) = process::fork(parent_end, move || {
            // The parent sees an error as the end of the monitor.
            let _ = event_loop::run_event_loop(&monitor_end, command, grace, shares_terminal);
        })?;
        Ok(Self {
            parent_end: Arc::new(parent_end),
            process: Arc::new(process),
        })
    }

    /// Sends a message to the monitor without waiting. A message is lost if the monitor is dead or has been stopped for
    /// very long; the monitor then keeps an earlier deadline.
    pub fn send(&self, message: MonitorMessage) {
        let _ = self.parent_end.send(&backchannel::encode(&message));
    }

    /// Returns the next message of the monitor. None if there is none yet.
    #[must_use]
    pub fn recv(&self) -> Option<ParentMessage> {
        match self.parent_end.receive() {
            Received::Message(message) => backchannel::decode(&message),
            Received::Nothing => None,
            Received::Closed => Some(ParentMessage::Gone),
        }
    }

    /// Handles a SIGCHLD: continues the monitor if it was stopped, and reaps other children that have ended.
    pub fn resume_and_reap(&self) {
        self.process.resume_and_reap();
    }

    /// Kills a monitor that misses its deadline. The kernel then kills the command.
    pub fn kill(&self) {
        self.process.kill();
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.parent_end.as_fd()
    }
}
