//! Signals by number: their classification, receiving them one by one, and sending them.
//!
//! Signals are blocked and read from a descriptor instead of being caught by handlers. That takes two system calls
//! instead of about three hundred, interrupts no system call of any thread (the kernel would restart the timeouts of
//! socket calls with every signal), and reports the sender of each signal. It also works for process 1 of a container,
//! which does not receive a signal without a handler.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

pub use libc::{SIGCHLD, SIGCONT, SIGWINCH};
use libc::{SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG};
use rustix::process::{getpid, getsid};
use serde::{Deserialize, Serialize};

use super::boot_timer::wait_for;
use super::inherited::was_ignored;
use super::proc::is_below_us;
use super::signal_mask::SignalMask;

/// Signals that the kernel sends to the foreground group of a terminal: for a key, a new size, or a hang-up.
const TERMINAL: [i32; 8] = [
    SIGHUP, SIGINT, SIGQUIT, SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU, SIGWINCH,
];

/// Signals whose default action is not to end the process. All other signals end it.
const HARMLESS: [i32; 7] = [
    SIGCHLD, SIGCONT, SIGURG, SIGWINCH, SIGTSTP, SIGTTIN, SIGTTOU,
];

/// Returns true if the default action of `signal` ends the process.
#[must_use]
pub fn is_fatal(signal: i32) -> bool {
    !HARMLESS.contains(&signal)
}

/// The descriptor from which signals are read.
#[derive(Debug)]
pub struct SignalFd(OwnedFd);

/// A signal that was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signal {
    /// Its number.
    pub number: i32,
    /// Its sender.
    pub origin: Origin,
}

/// The sender of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// The controlling terminal, which sends to every process of this process's group.
    Terminal,
    /// The kernel, about a child of this process.
    Child,
    /// A descendant of this process.
    Below,
    /// Another process, by its id. The id is 0 for the kernel and for a process of a namespace that is not visible.
    Process(u32),
}

impl Origin {
    fn of(info: &libc::signalfd_siginfo, number: i32) -> Self {
        match info.ssi_code {
            // For example an alarm that was set before dlock was started, which is only for this process.
            libc::SI_KERNEL if !TERMINAL.contains(&number) => Self::Process(0),
            // The kernel reports a hang-up to the session leader alone.
            libc::SI_KERNEL if number == SIGHUP && getsid(None) == Ok(getpid()) => Self::Process(0),
            libc::SI_KERNEL => Self::Terminal,
            code if number == SIGCHLD && code > 0 => Self::Child,
            _ if is_below_us(info.ssi_pid) => Self::Below,
            _ => Self::Process(info.ssi_pid),
        }
    }
}

impl SignalFd {
    /// Blocks all signals, which from now on are read from the descriptor.
    ///
    /// Threads and processes that are started later inherit the mask, so this must be called before any thread is
    /// started. Signals that the caller of dlock ignores stay ignored (nohup). A fault of this process still kills it,
    /// because the kernel does not let a fault wait. With `job_control`, SIGTSTP, SIGTTIN and SIGTTOU are not blocked
    /// and stop this process as usual.
    ///
    /// # Errors
    /// Fails if the kernel has no free descriptor.
    pub fn open(job_control: bool) -> io::Result<Self> {
        let taken = SignalMask::of((1..=64).filter(|number| match *number {
            SIGCHLD => true,
            SIGTSTP | SIGTTIN | SIGTTOU if job_control => false,
            // If an ignored signal were blocked, the kernel would queue it instead of discarding it.
            number => !was_ignored(number),
        }));
        // SAFETY: the set is initialised and its pointer is not kept. The descriptor is new and has no other owner.
        // SIGCHLD is set to its default because the kernel reaps children silently while it is ignored, and the
        // parent of dlock may have ignored it.
        unsafe {
            libc::signal(SIGCHLD, libc::SIG_DFL);
            match libc::signalfd(-1, &raw const taken.0, libc::SFD_CLOEXEC) {
                -1 => Err(io::Error::last_os_error()),
                descriptor => {
                    taken.apply(libc::SIG_BLOCK);
                    Ok(Self(OwnedFd::from_raw_fd(descriptor)))
                }
            }
        }
    }

    /// Discards all signals that have arrived.
    pub fn clear(&self) {
        let has_one = || wait_for([self.as_fd()], Some(Duration::ZERO)).is_ok_and(|[ready]| ready);
        while has_one() && self.take().is_ok() {}
    }

    /// Waits for the next signal.
    ///
    /// # Errors
    /// Fails if the descriptor cannot be read, for which no cause is known.
    pub fn take(&self) -> io::Result<Signal> {
        let size = size_of::<libc::signalfd_siginfo>();
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        // SAFETY: the kernel writes at most `size` bytes into `info`, which contains only integers.
        let (count, info) = unsafe {
            let count = libc::read(self.0.as_raw_fd(), info.as_mut_ptr().cast(), size);
            (count, info.assume_init())
        };
        if usize::try_from(count) != Ok(size) {
            return Err(io::Error::last_os_error());
        }
        let number = info.ssi_signo.cast_signed();
        Ok(Signal {
            number,
            origin: Origin::of(&info, number),
        })
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Stops this process and the rest of its group, like Ctrl-Z. Returns when the process is continued, or immediately if
/// the group is orphaned and nothing could continue it. Only for a process that leaves job control to the terminal.
pub fn suspend_self() {
    let before = SignalMask::of([SIGTSTP]).apply(libc::SIG_BLOCK);
    // The kernel may deliver the signal to the group to another thread, and this thread would run for a moment. A
    // second signal, to this thread alone, prevents that. It must be pending before the first signal can stop the
    // process; otherwise it would stop the process again after SIGCONT. SIGCONT discards both.
    // SAFETY: raise takes a plain number.
    unsafe { libc::raise(SIGTSTP) };
    send(0, SIGTSTP);
    before.apply(libc::SIG_SETMASK);
}

/// Sends `signal` to the process `pid`, to the process group `-pid` if `pid` is negative, or to the group of this
/// process if `pid` is 0.
pub(super) fn send(pid: i32, signal: i32) {
    // SAFETY: kill takes plain numbers. It fails if no such process is left, which is not an error here.
    unsafe {
        libc::kill(pid, signal);
    }
}
