//! The monitor: a small process between dlock (the front) and the command, which enforces the
//! lease's deadline whatever happens to the front.
//!
//! ```text
//! front: database, renewals, signals ──orders──▶ monitor: deadline, reaping ──▶ command
//!                                    ◀──words──
//! ```
//! It is forked before there is any thread, has one itself, and does nothing but wait: for orders,
//! for the deadline on the boot clock, for children that end. It decides by [`supervise`] what the
//! command is sent. When the front dies it kills the command's whole tree at once; when the front
//! freezes, at the deadline. When the monitor itself dies, the kernel kills the command and the
//! front inherits what is left and kills that ([`Tree::inherited`]); when it is stopped, the front
//! lets it go on; when it lets a deadline pass for whatever reason, the front kills it.
//!
//! Why a chain and not a guard beside the command: only an ancestor inherits orphans, so whichever
//! of the two is left can still find all of the tree. Why it knows nothing of the database: it must
//! never wait for anything but these three.
//!
//! [`supervise`]: crate::supervise
//! [`Tree::inherited`]: crate::sys::tree::Tree::inherited

mod guard;
mod killing;
mod message;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::killing::Killing;
use crate::lease::Token;
use crate::lease::instant::{BootInstant, Deadline};
use crate::supervise::{Act, Blame, Input};
use crate::sys::link::{Incoming, Link};
use crate::sys::pending_child::PreparedCommand;
use crate::sys::process::{self, ForkedProcess};
use crate::sys::tree::End;

/// Its name in lists of processes; not `dlock`, so that `killall -9 dlock` leaves it to do its work.
pub const NAME: &std::ffi::CStr = c"lease-monitor";

/// How late the monitor may be before the front does without it: a part of the smallest margin.
pub const LATE: Duration = Duration::from_millis(50);

/// What the command starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The lease is ours until then.
    pub deadline: Deadline,
    /// The command may run until then. None: as long as the lease is ours.
    pub limit: Option<BootInstant>,
    /// The token of the grant.
    pub token: Token,
}

/// What the front tells the monitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// The lease is ours: let the command go.
    Start(Start),
    /// Something happened that bears on it.
    Input(Input),
}

/// What the monitor tells the front.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Word {
    /// It sent this to the command.
    Sent(Act),
    /// It stops the command because of the lease.
    Stopping(Blame),
    /// The command could not be executed, for this reason of `execve(2)`.
    Unstartable(i32),
    /// This process has not died of SIGKILL.
    Stuck(u32),
    /// All of the tree is dead; how the command ended, and who is to blame.
    Ended(End, Blame),
    /// The monitor itself is dead. Never sent.
    #[serde(skip)]
    Gone,
}

/// The front's hold on its monitor; the monitor ends when the last of these is gone.
#[derive(Debug, Clone)]
pub struct Monitor {
    link: Arc<Link>,
    process: Arc<ForkedProcess>,
}

impl Monitor {
    /// Forks the monitor, and from it the process that will become `command`. Only before there is
    /// any thread.
    ///
    /// # Errors
    /// When the kernel gives no process or no descriptor.
    pub fn start(
        command: PreparedCommand,
        grace: Duration,
        shares_terminal: bool,
    ) -> io::Result<Self> {
        let (link, far) = Link::pair()?;
        process::adopt_orphans()?;
        // Without the near end, or neither it nor the command would notice the front's end.
        let (process, link) = process::fork(link, move || {
            // What goes wrong is seen by the front as the end of the monitor.
            let _ = guard::guard(&far, command, grace, shares_terminal);
        })?;
        Ok(Self {
            link: Arc::new(link),
            process: Arc::new(process),
        })
    }

    /// Tells the monitor something; never waits for it. What does not get through, because it is
    /// dead or has been stopped for very long, leaves it with an earlier deadline.
    pub fn order(&self, order: Order) {
        let _ = self.link.send(&message::encode(&order));
    }

    /// What it has said, if anything.
    #[must_use]
    pub fn hear(&self) -> Option<Word> {
        match self.link.receive() {
            Incoming::Message(message) => message::decode(&message),
            Incoming::Nothing => None,
            Incoming::Closed => Some(Word::Gone),
        }
    }

    /// Sees to our children after a SIGCHLD: lets the monitor go on if somebody has stopped it.
    pub fn tend(&self) {
        self.process.tend();
    }

    /// Kills the monitor, and with it the command: one that does not act is none.
    pub fn kill(&self) {
        self.process.kill();
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}
