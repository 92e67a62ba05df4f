//! Signals by number: which there are, taking them one by one, sending them.
//!
//! They are blocked and read from a descriptor, not caught by handlers: that costs two system calls
//! where handlers for all of them cost some three hundred, no call of any thread is interrupted
//! (the kernel would restart the timeouts of socket calls with every signal), and the kernel tells
//! who sent each. Process 1 of a container hears them too, as it would not without a handler.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::process::{getpid, getsid};
use serde::{Deserialize, Serialize};

use super::descendants::is_below_us;
use super::inherited::was_ignored;

/// Signals with which a terminal stops jobs.
const JOB_CONTROL: [i32; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// Signals that the kernel sends to all of a terminal's foreground group: for a key, another size, a
/// lost line.
const TERMINAL: [i32; 8] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGCONT,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGWINCH,
];

/// Signals that by default do nothing or stop the process; all others end it.
const HARMLESS: [i32; 7] = [
    libc::SIGCHLD,
    libc::SIGCONT,
    libc::SIGURG,
    libc::SIGWINCH,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
];

/// The signal by which the kernel tells of a child's end.
pub const CHILD: i32 = libc::SIGCHLD;

/// The signal by which the kernel tells that the terminal has another size.
pub const RESIZED: i32 = libc::SIGWINCH;

/// The signal that lets a stopped process go on.
pub const CONTINUED: i32 = libc::SIGCONT;

/// Whether `signal` ends a process that did not ask for it.
#[must_use]
pub fn is_deadly(signal: i32) -> bool {
    !HARMLESS.contains(&signal)
}

/// A set of signals as a thread has them blocked.
#[derive(Clone, Copy)]
pub struct Mask(libc::sigset_t);

impl Mask {
    /// Makes it this process's own.
    pub(super) fn apply(&self) {
        // SAFETY: the set is initialised, and the call keeps no pointer.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
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

/// Who sent a signal.
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
            // Who leads the session is the only one that is told of a lost line.
            libc::SI_KERNEL if number == libc::SIGHUP && leads_session() => Self::Process(0),
            libc::SI_KERNEL => Self::Terminal,
            code if number == CHILD && code > 0 => Self::Child,
            _ if is_below_us(info.ssi_pid) => Self::Below,
            _ => Self::Process(info.ssi_pid),
        }
    }
}

fn leads_session() -> bool {
    getsid(None).is_ok_and(|session| session == getpid())
}

/// From now on signals wait to be taken from the inbox; returns the mask that was in force before.
///
/// Threads that are started later inherit this, so it must come before any of them. What was
/// ignored by who started us stays so (nohup). A fault of our own still kills: the kernel does not
/// let it wait. With `job_control` left to the terminal, SIGTSTP and its like keep stopping us.
///
/// # Errors
/// When the kernel has no descriptor left.
pub fn open_inbox(job_control: bool) -> io::Result<(Inbox, Mask)> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigfillset initialises `set`, pthread_sigmask initialises `before`, and none of the
    // calls keeps a pointer. The numbers are valid, so sigdelset cannot fail. The descriptor is
    // new and nobody else's. A child that nobody waits for must not be reaped by the kernel, even
    // where the parent of dlock asked for that: its end would go unheard.
    unsafe {
        libc::sigfillset(set.as_mut_ptr());
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        // Blocked, an ignored signal would not be thrown away but wait to be taken.
        let ignored = (1..=64).filter(|number| *number != CHILD && was_ignored(*number));
        let stopping = JOB_CONTROL.into_iter().filter(|_| job_control);
        for number in ignored.chain(stopping) {
            libc::sigdelset(set.as_mut_ptr(), number);
        }
        let fd = libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr());
        Ok((Inbox(OwnedFd::from_raw_fd(fd)), Mask(before.assume_init())))
    }
}

/// All signals wait from now on, and SIGCHLD alone is heard of: for a process that nothing but SIGKILL
/// may stop.
///
/// # Errors
/// When the kernel has no descriptor left.
pub fn open_child_inbox() -> io::Result<Inbox> {
    let mut blocked = MaybeUninit::<libc::sigset_t>::uninit();
    let mut heard = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are initialised before they are used, and none of the calls keeps a
    // pointer. The descriptor is new and nobody else's.
    unsafe {
        libc::sigfillset(blocked.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, blocked.as_ptr(), std::ptr::null_mut());
        libc::sigemptyset(heard.as_mut_ptr());
        libc::sigaddset(heard.as_mut_ptr(), CHILD);
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        match libc::signalfd(-1, heard.as_ptr(), flags) {
            fd if fd < 0 => Err(io::Error::last_os_error()),
            fd => Ok(Inbox(OwnedFd::from_raw_fd(fd))),
        }
    }
}

impl Inbox {
    /// Takes all that have arrived in an inbox that is not waited for by itself.
    pub fn clear(&self) {
        while self.take().is_ok() {}
    }

    /// Waits for the next signal.
    ///
    /// # Errors
    /// When the kernel does not give one, which it has no reason for.
    pub fn take(&self) -> io::Result<Signal> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the kernel writes at most `size` bytes into `info`.
        let count = unsafe { libc::read(self.0.as_raw_fd(), info.as_mut_ptr().cast(), size) };
        if usize::try_from(count) != Ok(size) {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the whole of `info` was written.
        let info = unsafe { info.assume_init() };
        let number = i32::try_from(info.ssi_signo).unwrap_or(0);
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
    let mut stop = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises `stop`, the first pthread_sigmask initialises `before`, and none
    // of the calls keeps a pointer.
    //
    // The group's signal may reach another thread, so that this one would go on for a moment: hence the
    // second, for this thread alone. It must be there before the first can stop us, or it would stop us
    // again when we go on; what lets us go on takes back both.
    unsafe {
        libc::sigemptyset(stop.as_mut_ptr());
        libc::sigaddset(stop.as_mut_ptr(), libc::SIGTSTP);
        libc::pthread_sigmask(libc::SIG_BLOCK, stop.as_ptr(), before.as_mut_ptr());
        libc::raise(libc::SIGTSTP);
        libc::kill(0, libc::SIGTSTP);
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
    }
}

/// Sends `signal` to the process `pid`, or to the process group `-pid`.
pub(super) fn send(pid: i32, signal: i32) {
    // SAFETY: kill takes plain numbers. It fails when nobody is left, which is what we wanted.
    unsafe {
        libc::kill(pid, signal);
    }
}
