//! A ward: a process that dlock guards although it has not started it, and that is no child of dlock. This module watches
//! the process and reads facts about it. The module `ward_tree` finds and signals the processes that belong to it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getuid, pidfd_open};

use super::boot_timer::wait_for;
use super::clock;
use super::proc::{Process, ancestry, stat_from_state};
use crate::lease::instant::BootInstant;

/// The flag of a thread of the kernel, in field 9 of `/proc/PID/stat`.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// A process that dlock has not started. The kernel may reuse its id when it has ended, but a later process with that id is
/// never taken for it.
#[derive(Debug, Clone)]
pub struct Ward {
    pub(super) root: Process,
    /// Time at which it was opened, before the grant. Only later processes can get the variables of the lease.
    pub(super) opened: BootInstant,
    /// The user as whom the ward ran when it was opened. None if it has ended.
    pub(super) user: Option<u32>,
    /// The address of its stack when it was opened.
    pub(super) stack: Option<String>,
    pub(super) pidfd: Arc<OwnedFd>,
    /// The ancestors of the ward when it was opened.
    pub(super) ancestors: BTreeSet<Process>,
}

impl Ward {
    /// Opens the process with the id `pid`.
    ///
    /// # Errors
    /// Fails with `NotFound` if there is no such process in this process namespace. Otherwise, the kernel has no pidfds, or
    /// this process has no free descriptor.
    pub fn open(pid: u32) -> io::Result<Self> {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let id = Pid::from_raw(pid.cast_signed()).ok_or_else(missing)?;
        let pidfd = pidfd_open(id, PidfdFlags::empty()).map_err(|errno| match errno {
            // A thread that is not the first one of its process.
            Errno::SRCH | Errno::INVAL | Errno::NOENT => missing(),
            errno => errno.into(),
        })?;
        let id = id.as_raw_pid();
        let ward = Self {
            root: Process::find(id).ok_or_else(missing)?,
            opened: clock::now(),
            user: user_of(id),
            stack: stack(id),
            pidfd: Arc::new(pidfd),
            ancestors: ancestry(id).skip(1).filter_map(Process::find).collect(),
        };
        // Before this check, the id may already have been the one of another process.
        match ward.has_ended() {
            true => Err(missing()),
            false => Ok(ward),
        }
    }

    /// Returns the process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.root.pid.cast_unsigned()
    }

    /// Returns the name of the process, which the kernel cuts to 15 bytes. Empty if the process has ended.
    #[must_use]
    pub fn name(&self) -> String {
        self.root.name_if_alive().unwrap_or_default()
    }

    /// Returns true if the process has ended, even if it is not reaped yet.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        wait_for([self.pidfd.as_fd()], Some(Duration::ZERO)).is_ok_and(|[ended]| ended)
    }

    /// Waits until the process has ended.
    pub fn wait(&self) {
        let _ = wait_for([self.pidfd.as_fd()], None);
    }

    /// Returns true if this process may stop the ward: it has the same user, or this process is run by root.
    #[must_use]
    pub fn may_be_stopped(&self) -> bool {
        getuid().is_root() || user_of(self.root.pid) == Some(getuid().as_raw())
    }

    /// Returns true if the ward is the leader of a session on a terminal, as an interactive shell is.
    #[must_use]
    pub fn leads_terminal(&self) -> bool {
        let leader = self.root.pid.to_string();
        let (session, terminal) = (self.stat_field(6), self.stat_field(7));
        session == Some(leader) && terminal.is_some_and(|device| device != "0")
    }

    /// Returns true if the ward is a thread of the kernel, which handles no signal.
    #[must_use]
    pub fn is_of_kernel(&self) -> bool {
        let flags = self.stat_field(9).and_then(|text| text.parse::<u64>().ok());
        flags.is_some_and(|flags| flags & KERNEL_THREAD != 0)
    }

    /// Returns true if the ward executes the program of this process.
    #[must_use]
    pub fn is_dlock(&self) -> bool {
        let program = |process: &str| {
            let file = fs::metadata(format!("/proc/{process}/exe")).ok()?;
            Some((file.dev(), file.ino()))
        };
        let own = program("self");
        own.is_some() && program(&self.root.pid.to_string()) == own
    }

    /// Returns true if the process `pid` is process 1 or an ancestor of the ward: it may have started the ward, and manages
    /// it. The id 0 stands for a process in another namespace.
    #[must_use]
    pub fn is_managed_by(&self, pid: u32) -> bool {
        let mut ancestors = self.ancestors.iter();
        pid <= 1 || ancestors.any(|ancestor| ancestor.pid == pid.cast_signed())
    }

    /// Returns a field of `/proc/PID/stat`, whose fields count from 1. None if the process has ended.
    fn stat_field(&self, number: usize) -> Option<String> {
        let fields = stat_from_state(&format!("/proc/{}/stat", self.root.pid)).ok()?;
        fields.split_whitespace().nth(number - 3).map(str::to_owned)
    }
}

/// Returns the address of the stack of the process `pid`, which is the same in all forks of a process, and a random number
/// after each start of a program. None if the process has ended, or hides the address.
pub(super) fn stack(pid: i32) -> Option<String> {
    let fields = stat_from_state(&format!("/proc/{pid}/stat")).ok()?;
    let stack = fields.split_whitespace().nth(28 - 3)?;
    (stack != "0").then(|| stack.to_owned())
}

/// Returns the real user of the process `pid`. None if the process does not exist.
pub(super) fn user_of(pid: i32) -> Option<u32> {
    let status = fs::read(format!("/proc/{pid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().next()?.parse().ok()
}
