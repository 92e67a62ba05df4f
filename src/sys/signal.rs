//! Signals by number: which there are, taking them one by one, sending them.
//!
//! They are blocked and read from a descriptor, not caught by handlers: that costs two system calls
//! where handlers for all of them cost some three hundred, no call of any thread is interrupted
//! (the kernel would restart the timeouts of socket calls with every signal), and the kernel tells
//! who sent each. Process 1 of a container hears them too, as it would not without a handler.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

pub use libc::{SIGCHLD, SIGCONT, SIGWINCH};
use libc::{SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG};
use rustix::process::{getpid, getsid};
use serde::{Deserialize, Serialize};

use super::alarm::wait_for;
use super::inherited::was_ignored;
use super::proc::is_below_us;

/// Signals that the kernel sends to all of a terminal's foreground group: for a key, another size, a
/// lost line.
const TERMINAL: [i32; 8] = [
    SIGHUP, SIGINT, SIGQUIT, SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU, SIGWINCH,
];

/// Signals that by default do nothing or stop the process; all others end it.
const HARMLESS: [i32; 7] = [
    SIGCHLD, SIGCONT, SIGURG, SIGWINCH, SIGTSTP, SIGTTIN, SIGTTOU,
];

/// Whether `signal` ends a process that did not ask for it.
#[must_use]
pub fn is_deadly(signal: i32) -> bool {
    !HARMLESS.contains(&signal)
}

/// A set of signals.
#[derive(Debug)]
pub(super) struct Mask(libc::sigset_t);

impl Mask {
    pub(super) fn of(numbers: impl IntoIterator<Item = i32>) -> Self {
        let mut set = MaybeUninit::uninit();
        // SAFETY: sigemptyset initialises `set`; sigaddset refuses a number that is no signal, or that
        // the C library keeps for itself.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for number in numbers {
                libc::sigaddset(set.as_mut_ptr(), number);
            }
            Self(set.assume_init())
        }
    }

    /// Changes what this thread blocks, `how` being that of `sigprocmask(2)`. Returns what it blocked before.
    pub(super) fn apply(&self, how: i32) -> Self {
        let mut before = MaybeUninit::uninit();
        // SAFETY: the set is initialised, and the call initialises `before` and keeps no pointer.
        unsafe {
            libc::pthread_sigmask(how, &raw const self.0, before.as_mut_ptr());
            Self(before.assume_init())
        }
    }
}

/// Where signals arrive.
#[derive(Debug)]
pub struct Inbox(OwnedFd);

/// A signal as it arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signal {
    /// Its number.
    pub number: i32,
    /// Where it came from.
    pub origin: Origin,
}

/// The sender of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// Our terminal, to every process of the group that we are in.
    Terminal,
    /// The kernel, about a child of ours.
    Child,
    /// A process that we have started, or one below it.
    Below,
    /// Another process, by its number: 0 for one that we cannot see, and for the kernel.
    Process(u32),
}

impl Origin {
    fn of(info: &libc::signalfd_siginfo, number: i32) -> Self {
        match info.ssi_code {
            // An alarm that was set before we were started, say, is for us alone.
            libc::SI_KERNEL if !TERMINAL.contains(&number) => Self::Process(0),
            // The kernel reports a lost line to the session leader alone.
            libc::SI_KERNEL if number == SIGHUP && getsid(None) == Ok(getpid()) => Self::Process(0),
            libc::SI_KERNEL => Self::Terminal,
            code if number == SIGCHLD && code > 0 => Self::Child,
            _ if is_below_us(info.ssi_pid) => Self::Below,
            _ => Self::Process(info.ssi_pid),
        }
    }
}

impl Inbox {
    /// From now on signals wait to be taken from the inbox.
    ///
    /// Threads and processes that are started later inherit this, so it must come before any thread. What
    /// was ignored by who started us stays so (nohup). A fault of our own still kills: the kernel does
    /// not let it wait. With `job_control` left to the terminal, SIGTSTP and its like keep stopping us.
    ///
    /// # Errors
    /// When the kernel has no descriptor left.
    pub fn open(job_control: bool) -> io::Result<Self> {
        let taken = Mask::of((1..=64).filter(|number| match *number {
            SIGCHLD => true,
            SIGTSTP | SIGTTIN | SIGTTOU if job_control => false,
            // Blocked, an ignored signal would not be thrown away but wait to be taken.
            number => !was_ignored(number),
        }));
        // SAFETY: the set is initialised and its pointer not kept. The descriptor is new and nobody
        // else's. A child that nobody waits for must not be reaped by the kernel, even where the parent
        // of dlock asked for that: its end would go unheard.
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

    /// Takes all that have arrived.
    pub fn clear(&self) {
        let has_one = || wait_for([self.as_fd()], Some(Duration::ZERO)).is_ok_and(|[ready]| ready);
        while has_one() && self.take().is_ok() {}
    }

    /// Waits for the next signal.
    ///
    /// # Errors
    /// When the kernel does not give one, which it has no reason for.
    pub fn take(&self) -> io::Result<Signal> {
        let size = size_of::<libc::signalfd_siginfo>();
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        // SAFETY: the kernel writes at most `size` bytes into `info`, which is made of numbers alone.
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

impl AsFd for Inbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Stops this process and the rest of its group as Ctrl-Z would; returns when it goes on, or at once
/// where nobody is there to let it go on. Only for a process that leaves job control to the terminal.
pub fn stop_job() {
    let before = Mask::of([SIGTSTP]).apply(libc::SIG_BLOCK);
    // The group's signal may reach another thread, and this one would go on for a moment. The second
    // signal, for this thread alone, prevents that. It must be pending before the first can stop us, or it
    // would stop us again when we continue; SIGCONT discards both.
    // SAFETY: raise takes a plain number.
    unsafe { libc::raise(SIGTSTP) };
    send(0, SIGTSTP);
    before.apply(libc::SIG_SETMASK);
}

/// Sends `signal` to the process `pid`, to the process group `-pid`, or to our own group if it is 0.
pub(super) fn send(pid: i32, signal: i32) {
    // SAFETY: kill takes plain numbers. It fails when nobody is left, which is what we wanted.
    unsafe {
        libc::kill(pid, signal);
    }
}
