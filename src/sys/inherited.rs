//! The state that dlock inherits at its start: open descriptors, closed standard streams, and ignored and blocked
//! signals. The command inherits all of this state. While the command runs, dlock and the monitor keep none of the
//! inherited descriptors open, except stderr.
//!
//! The state is recorded before `main`, for three reasons. First, the Rust runtime opens `/dev/null` if stdin, stdout
//! or stderr is closed, and ignores SIGPIPE. Second, dlock must receive SIGCHLD and therefore changes how that signal
//! is handled. Third, a library may open a descriptor at any time, and [`close_descriptors`] must not close that
//! descriptor.

use std::fs::{self, File};
use std::mem::{self, MaybeUninit};
use std::os::fd::RawFd;
use std::sync::{LazyLock, Mutex, PoisonError};

use rustix::stdio::{dup2_stdin, dup2_stdout};

use super::signal_mask::SignalMask;

struct Inherited {
    /// The standard streams (descriptors 0 to 2) that were closed.
    closed: Vec<RawFd>,
    /// All open descriptors except the standard streams. [`close_descriptors`] empties the list.
    open: Mutex<Vec<RawFd>>,
    ignored: Vec<i32>,
    blocked: SignalMask,
}

static INHERITED: LazyLock<Inherited> = LazyLock::new(|| {
    let closed = (0..3).filter(|descriptor| !is_open(*descriptor)).collect();
    let mut open = list_descriptors().unwrap_or_default();
    // The directory listing used its own descriptor, which is now closed.
    open.retain(|descriptor| is_open(*descriptor));
    Inherited {
        closed,
        open: Mutex::new(open),
        ignored: (1..=64).filter(|signal| is_ignored(*signal)).collect(),
        blocked: SignalMask::of([]).apply(libc::SIG_BLOCK),
    }
});

/// Makes the C library call [`record`] before the Rust runtime starts. The attribute `used` keeps this static in the
/// program, although no code reads this static.
#[used]
#[unsafe(link_section = ".init_array")]
static RECORD: extern "C" fn() = record;

extern "C" fn record() {
    LazyLock::force(&INHERITED);
}

fn is_open(descriptor: RawFd) -> bool {
    // SAFETY: F_GETFD only reads, and fails for a descriptor that is not open.
    unsafe { libc::fcntl(descriptor, libc::F_GETFD) >= 0 }
}

/// Returns all open descriptors except 0 to 2. None if `/proc` is not mounted.
fn list_descriptors() -> Option<Vec<RawFd>> {
    let entries = fs::read_dir("/proc/self/fd").ok()?;
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Some(numbers.filter(|number| *number >= 3).collect())
}

/// Closes the inherited descriptors except the standard streams, and replaces stdin and stdout with `/dev/null`.
/// Otherwise, the reader of a pipe to which the command writes would wait for dlock and the monitor to exit, too.
pub fn close_descriptors() {
    let mut open = INHERITED
        .open
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    for descriptor in mem::take(&mut *open) {
        // SAFETY: the descriptor was open before any code of this program could open one, so no code refers to it.
        // `take` empties the list, so no descriptor is closed twice.
        unsafe { rustix::io::close(descriptor) };
    }
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        // These calls do not fail for open descriptors.
        let _ = (dup2_stdin(&null), dup2_stdout(&null));
    }
}

/// Closes the standard streams that were closed at the start of dlock. Call this function only in a process that is
/// about to execute the command.
pub(super) fn restore_streams() {
    for descriptor in &INHERITED.closed {
        // SAFETY: the Rust runtime opened `/dev/null` with this number, and the code that would write to it no longer
        // runs.
        unsafe { rustix::io::close(*descriptor) };
    }
}

/// Restores the ignored and blocked signals that dlock inherited. Call this function only in a process that is about to
/// execute a command.
pub(super) fn restore_signals() {
    for signal in [libc::SIGPIPE, libc::SIGCHLD] {
        let disposition = match was_ignored(signal) {
            true => libc::SIG_IGN,
            false => libc::SIG_DFL,
        };
        // SAFETY: the signal is valid, and no handler is installed.
        unsafe { libc::signal(signal, disposition) };
    }
    INHERITED.blocked.apply(libc::SIG_SETMASK);
}

/// Returns true if `signal` was ignored when dlock was started.
pub(super) fn was_ignored(signal: i32) -> bool {
    INHERITED.ignored.contains(&signal)
}

fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: with a null new action the call only reads, and `action` is large enough. The call fails for numbers
    // that the C library reserves; `action` is then all zero bytes, which is a valid value.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}
