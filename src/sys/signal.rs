//! Signals by number: which there are, how they are set, how they are sent and kept away.

use std::mem::MaybeUninit;

/// Signals that say that the process itself is broken; nobody may go on after them.
const FAULTS: [i32; 7] = [
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGSEGV,
    libc::SIGSYS,
];

/// The signal by which the kernel tells of a child's end.
pub const CHILD: i32 = libc::SIGCHLD;

/// Signals with which a terminal stops jobs.
pub const JOB_CONTROL: [i32; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

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

/// Every signal that can be caught and that was not ignored when this process started, in order.
///
/// Left out: faults, and SIGPIPE, which the Rust runtime itself sets to be ignored.
#[must_use]
pub fn catchable() -> Vec<i32> {
    (1..=libc::SIGRTMAX())
        .filter(|signal| ![libc::SIGKILL, libc::SIGSTOP, libc::SIGPIPE].contains(signal))
        .filter(|signal| !FAULTS.contains(signal))
        // Between the classic signals and SIGRTMIN lie those that the C library keeps for itself.
        .filter(|signal| *signal < 32 || *signal >= libc::SIGRTMIN())
        // An end of a child must be heard of even where the parent ignored it.
        .filter(|signal| *signal == libc::SIGCHLD || !is_ignored(*signal))
        .collect()
}

/// Whether `signal` ends a process that did not ask for it.
#[must_use]
pub fn is_deadly(signal: i32) -> bool {
    !HARMLESS.contains(&signal)
}

fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action only queries; `action` is large enough, and all zero bytes are a
    // valid value should the call fail for an unknown number.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// Runs `start` with all signals blocked, so that a thread that it starts never takes one: the
/// kernel would restart the timeouts of that thread's socket calls with every signal.
pub fn blocked<T>(start: impl FnOnce() -> T) -> T {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigfillset initialises `all`, pthread_sigmask initialises `before`; neither keeps a
    // pointer.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let result = start();
    // SAFETY: `before` was initialised above; with valid arguments the calls cannot fail.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
    }
    result
}

/// Sends `signal` to the process `pid`, or to the process group `-pid`.
pub(super) fn send(pid: i32, signal: i32) {
    // SAFETY: kill takes plain numbers. It fails when nobody is left, which is what we wanted.
    unsafe {
        libc::kill(pid, signal);
    }
}
