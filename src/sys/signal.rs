//! Signals by number: classifies, receives and sends them.
//!
//! Signals are blocked and read from a descriptor instead of being caught by handlers. Each signal that is read
//! contains its sender. A blocked signal interrupts no system call, so a signal does not restart the timeout of a
//! socket call. If dlock is process 1 of a container, the kernel discards signals that have no handler, but not
//! blocked signals.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

pub use libc::{SIGCHLD, SIGCONT, SIGTSTP, SIGWINCH};
use libc::{SIGHUP, SIGINT, SIGQUIT, SIGTTIN, SIGTTOU, SIGURG};
use rustix::process::{getpid, getsid};
use serde::{Deserialize, Serialize};

use super::boot_timer::wait_for;
use super::inherited::was_ignored;
use super::proc::is_below_us;
use super::signal_mask::SignalMask;

/// Calls `stop` on a new thread when SIGINT, SIGTERM or SIGHUP arrives. Signals that were ignored when dlock was started
/// stay ignored.
///
/// # Errors
/// Fails if the kernel cannot create a thread or a descriptor.
#[cfg(feature = "serve")]
pub fn on_stop(stop: impl FnMut() + Send + 'static) -> io::Result<()> {
    ctrlc::set_handler(stop).map_err(io::Error::other)?;
    for signal in [SIGHUP, SIGINT, libc::SIGTERM] {
        if was_ignored(signal) {
            // SAFETY: the signal is valid, and SIG_IGN is not a handler.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
    }
    Ok(())
}

/// Signals that the kernel sends to a process group of a terminal, because of a key, a new window size, a hang-up, or
/// an access to the terminal from the background.
const TERMINAL: [i32; 8] = [
    SIGHUP, SIGINT, SIGQUIT, SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU, SIGWINCH,
];

/// Signals whose default action is not to end the process. The default action of all other signals that can be blocked
/// ends the process.
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
    /// The number of the signal.
    pub number: i32,
    /// The sender of the signal.
    pub origin: Origin,
}

/// What SIGTSTP, SIGTTIN and SIGTTOU do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobControl {
    /// All three are read from the descriptor, and stop no process.
    Off,
    /// SIGTSTP (Ctrl-Z) is read from the descriptor, and the reader calls [`stop_this_process`]. The other two stop this
    /// process as usual.
    Announced,
    /// All three stop this process as usual.
    Usual,
}

/// The sender of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// The controlling terminal, which sends the signal to every process in the group of this process.
    Terminal,
    /// The kernel, which reports that a child of this process has changed state.
    Child,
    /// A descendant of this process.
    Below,
    /// Another process, or the kernel. Contains the id of the process, or 0 for the kernel and for a process in a
    /// namespace that is not visible.
    Process(u32),
}

impl Origin {
    fn of(info: &libc::signalfd_siginfo, number: i32) -> Self {
        match info.ssi_code {
            // For example, an alarm that was set before dlock started. The kernel sends the signal of an alarm only to
            // this process.
            libc::SI_KERNEL if !TERMINAL.contains(&number) => Self::Process(0),
            // The kernel sends the signal of a hang-up only to the session leader.
            libc::SI_KERNEL if number == SIGHUP && getsid(None) == Ok(getpid()) => Self::Process(0),
            libc::SI_KERNEL => Self::Terminal,
            code if number == SIGCHLD && code > 0 => Self::Child,
            _ if is_below_us(info.ssi_pid) => Self::Below,
            _ => Self::Process(info.ssi_pid),
        }
    }
}

impl SignalFd {
    /// Blocks signals and opens the descriptor from which they are read.
    ///
    /// Threads and processes that are started later inherit the signal mask, so call this function before any thread is
    /// started. Signals that were ignored when dlock was started (nohup), except SIGCHLD, stay ignored. A fault such as
    /// an invalid memory access still kills this process, because the kernel does not delay the signal for a fault.
    ///
    /// # Errors
    /// Fails if the kernel has no free descriptor.
    pub fn open(job_control: JobControl) -> io::Result<Self> {
        let taken = SignalMask::of((1..=64).filter(|number| match *number {
            SIGCHLD => true,
            SIGTTIN | SIGTTOU if job_control != JobControl::Off => false,
            SIGTSTP if job_control == JobControl::Usual => false,
            // If an ignored signal were blocked, the kernel would queue it instead of discarding it.
            number => !was_ignored(number),
        }));
        // SAFETY: the set is initialised and its pointer is not kept. The descriptor is new and has no other owner.
        // SIGCHLD is set to its default, because the kernel reaps children silently while SIGCHLD is ignored, and the
        // parent of dlock may have ignored SIGCHLD.
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

    /// Waits for the next signal and returns it.
    ///
    /// # Errors
    /// Fails if the descriptor cannot be read. No cause of such a failure is known.
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

/// Stops this process and the other processes in its group, like Ctrl-Z. Returns when the process is resumed, or
/// immediately if the group is orphaned and no process could resume it. Call this function only in a process that
/// leaves job control to the terminal.
pub fn suspend_self() {
    let before = SignalMask::of([SIGTSTP]).apply(libc::SIG_BLOCK);
    // The kernel may deliver the signal for the group to another thread, and this thread would continue for a moment.
    // Therefore a second SIGTSTP is sent to this thread only. The second signal must be pending before the signal for
    // the group can stop the process. Otherwise the second signal could arrive after SIGCONT and stop the process
    // again. SIGCONT discards both signals.
    // SAFETY: raise takes a plain number.
    unsafe { libc::raise(SIGTSTP) };
    send(0, SIGTSTP);
    before.apply(libc::SIG_SETMASK);
}

/// Stops this process, as SIGTSTP does by default. Returns when the process is resumed, or immediately if no process could
/// resume it. Call this function only if SIGTSTP is blocked, after SIGTSTP was read from the descriptor. The other
/// processes of the group have received their own SIGTSTP.
pub fn stop_this_process() {
    // If SIGCONT arrives before the signal is unblocked, the kernel discards the signal, and the process continues.
    // SAFETY: raise takes a plain number.
    unsafe { libc::raise(SIGTSTP) };
    let before = SignalMask::of([SIGTSTP]).apply(libc::SIG_UNBLOCK);
    before.apply(libc::SIG_SETMASK);
}

/// Sends `signal` to the process `pid`, to the process group `-pid` if `pid` is negative, or to the group of this
/// process if `pid` is 0. Returns false if the kernel refused this because the process belongs to another user. A process
/// that no longer exists is not an error.
pub(super) fn send(pid: i32, signal: i32) -> bool {
    // SAFETY: kill takes plain numbers.
    let result = unsafe { libc::kill(pid, signal) };
    result == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EPERM)
}

/// Returns false if the kernel would refuse signals to the process `pid` because the process belongs to another user.
#[must_use]
pub fn is_permitted(pid: u32) -> bool {
    send(pid.cast_signed(), 0)
}
