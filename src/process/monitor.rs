//! The monitor: a small process between dlock (the parent) and the command. The monitor enforces the lease's deadline
//! regardless of the state of the parent.
//!
//! ```text
//! parent: database, renewals, signals ──MonitorMessage──▶ monitor: deadline, reaping ──▶ command
//!                                     ◀──ParentMessage──
//! ```
//! The monitor is forked before the parent starts a thread, and has one thread. It waits only for messages, for the
//! deadline on the boot clock, and for the end of a process. The [`supervisor`] decides which signals the command gets. If
//! the parent dies, the monitor immediately kills the command's whole tree. Then nothing else of dlock is left, and the
//! caller of [`Monitor::start`] decides what the monitor does with the leases. If the parent freezes, the monitor stops
//! the tree at the deadline: it sends the stop signal and, after the grace period, SIGKILL. If the monitor dies, the kernel
//! kills the command, and the parent inherits the remaining processes of the tree and kills them ([`CommandTree::inherited`]).
//! If the monitor is stopped by a signal, the parent resumes it. If the monitor misses a deadline for any reason, the
//! parent kills the monitor.
//!
//! The monitor is an ancestor of the command and not a sibling, because only an ancestor inherits orphans. If either
//! the parent or the monitor dies, the surviving process can therefore still find the whole tree. Until the tree is dead,
//! the monitor does not use the database, because it must wait only for messages, the deadline and its children.
//!
//! For `dlock hold --pid`, a *ward* takes the place of the command: a process that dlock has not started. The monitor is no
//! ancestor of it, so `sys::ward` finds its processes in another way. If the monitor dies, the kernel does not kill a ward, so
//! the parent does.
//!
//! [`supervisor`]: crate::process::supervisor
//! [`CommandTree::inherited`]: crate::sys::tree::CommandTree::inherited

mod backchannel;
mod event_loop;
mod killing;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub use self::backchannel::{LeftLeases, MonitorEnd, MonitorMessage, ParentMessage, Start};
pub use self::event_loop::{StopRules, Subject};
pub use self::killing::Killing;
use crate::sys::channel::{Channel, Received};
use crate::sys::process::{self, ForkedProcess};

/// If the monitor has not killed the command this long after the deadline, the parent kills the monitor. This time is
/// shorter than the smallest safety margin, so that the command is dead before the lease expires.
pub const LATE: Duration = Duration::from_millis(50);

/// The parent's handle to its monitor. When the last clone is dropped, the monitor kills the command, if it is still
/// running, and ends.
#[derive(Debug, Clone)]
pub struct Monitor {
    parent_end: Arc<Channel>,
    process: Arc<ForkedProcess>,
    /// The error with which the monitor has ended, if it has sent one.
    failure: Arc<OnceLock<MonitorEnd>>,
}

impl Monitor {
    /// Forks the monitor of `action`, which stops `subject` as `rules` say. For a command, the monitor forks the process that
    /// will execute it. If the parent dies while the command runs, the monitor calls `end_leases` when the whole tree is dead.
    /// The parent must not have started a thread yet.
    ///
    /// # Errors
    /// Fails if the kernel cannot create a process or a descriptor.
    pub fn start(
        action: &str,
        subject: Subject,
        rules: StopRules,
        end_leases: impl FnOnce(LeftLeases),
    ) -> io::Result<Self> {
        let (parent_end, monitor_end) = Channel::pair()?;
        process::become_subreaper()?;
        // The new process drops the parent's end of the channel. Otherwise the monitor would not detect the parent's
        // death.
        let (process, parent_end) = process::fork(parent_end, move || {
            match event_loop::run_event_loop(action, &monitor_end, subject, rules) {
                Ok(Some(left)) => end_leases(left),
                Ok(None) => {}
                // After an error, the parent handles the end of the monitor like its death, and reports the error.
                Err(error) => {
                    let failed = ParentMessage::Failed(error.raw_os_error().unwrap_or(0));
                    let _ = monitor_end.send(&backchannel::encode(&failed));
                }
            }
        })?;
        Ok(Self {
            parent_end: Arc::new(parent_end),
            process: Arc::new(process),
            failure: Arc::default(),
        })
    }

    /// Sends a message to the monitor without waiting. The message is lost if the monitor is dead, or has been stopped
    /// for so long that the socket buffer is full. If the lost message contains a new deadline, the monitor enforces
    /// the previous deadline, which is earlier.
    pub fn send(&self, message: &MonitorMessage) {
        let _ = self.parent_end.send(&backchannel::encode(message));
    }

    /// Returns the next message from the monitor. None if no message has arrived yet.
    #[must_use]
    pub fn recv(&self) -> Option<ParentMessage> {
        match self.parent_end.receive() {
            Received::Message(message) => match backchannel::decode(&message) {
                Some(ParentMessage::Failed(errno)) => {
                    self.failure.get_or_init(|| MonitorEnd::Failed(errno));
                    self.recv()
                }
                message => message,
            },
            Received::Nothing => None,
            Received::Closed => {
                let end = self.failure.get().copied().unwrap_or_default();
                Some(ParentMessage::Gone(end))
            }
        }
    }

    /// Handles a SIGCHLD: resumes the monitor if it has been stopped, and reaps the children that have ended.
    pub fn resume_and_reap(&self) {
        self.process.resume_and_reap();
    }

    /// Returns the process id of the monitor. The command's tree consists of the descendants of this process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Lets the monitor end, waits for a moment for its end, and reaps it. A process 1 that does not reap its children would
    /// otherwise keep the dead monitor. Call this method on the last handle, on the thread that has started the monitor.
    pub fn end(self) {
        let Self {
            parent_end,
            process,
            ..
        } = self;
        drop(parent_end);
        if let Some(process) = Arc::into_inner(process) {
            process.wait();
        }
    }

    /// Kills a monitor that has missed the deadline. The kernel then kills the command.
    pub fn kill(&self) {
        self.process.kill();
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.parent_end.as_fd()
    }
}
