//! What dlock was started with: open descriptors, closed standard streams, ignored signals. The command
//! gets all of it; dlock and the monitor keep no descriptor that is the command's.
//!
//! Recorded before `main`. The Rust runtime opens `/dev/null` where stdin, stdout or stderr is closed,
//! and ignores SIGPIPE. dlock itself must hear SIGCHLD. And a library may open a descriptor of its own
//! at any time, which nobody else may close.

use std::fs::{self, File};
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Descriptors that were open, but for the first three.
static OPEN: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());

/// Highest number that is tried where `/proc` does not list descriptors.
const MOST_TRIED: RawFd = 1024;

/// Bit n: descriptor n was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Bit n: signal n + 1 was ignored.
static IGNORED: AtomicU64 = AtomicU64::new(0);

/// Run by the C library before the Rust runtime; statics that are never read again are kept by
/// `used`.
#[used]
#[unsafe(link_section = ".init_array")]
static RECORD: extern "C" fn() = record;

extern "C" fn record() {
    for descriptor in (0..3).filter(|descriptor| !is_open(*descriptor)) {
        CLOSED.fetch_or(1 << descriptor, Ordering::Relaxed);
    }
    for signal in (1..=64).filter(|signal| is_ignored(*signal)) {
        IGNORED.fetch_or(1 << (signal - 1), Ordering::Relaxed);
    }
    let mut open = listed().unwrap_or_else(|| (3..MOST_TRIED).collect());
    // The listing had a descriptor of its own, which is closed by now.
    open.retain(|descriptor| is_open(*descriptor));
    *OPEN.lock().unwrap_or_else(PoisonError::into_inner) = open;
}

fn is_open(descriptor: RawFd) -> bool {
    // SAFETY: F_GETFD only asks, and fails for a number that is not open.
    unsafe { libc::fcntl(descriptor, libc::F_GETFD) >= 0 }
}

/// All descriptors from 3 on, as the kernel lists them.
fn listed() -> Option<Vec<RawFd>> {
    let entries = fs::read_dir("/proc/self/fd").ok()?;
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Some(numbers.filter(|number| *number >= 3).collect())
}

/// Closes the descriptors that this process has inherited, and puts `/dev/null` in the place of stdin
/// and stdout: a reader of a pipe waits for its last writer, which must be the command.
pub fn close_descriptors() {
    let open = mem::take(&mut *OPEN.lock().unwrap_or_else(PoisonError::into_inner));
    for descriptor in open {
        // SAFETY: it was open before anything in this program could open one, so nothing refers to it,
        // and it is not closed twice.
        unsafe { rustix::io::close(descriptor) };
    }
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        for standard in 0..2 {
            // SAFETY: both are open descriptors; nothing in Rust owns 0 and 1.
            unsafe { libc::dup2(null.as_raw_fd(), standard) };
        }
    }
}

/// Closes again those of the first three that were closed, in a process that is about to become the
/// command.
pub(super) fn restore_streams() {
    let closed = CLOSED.load(Ordering::Relaxed);
    for descriptor in (0..3).filter(|descriptor| closed & (1 << descriptor) != 0) {
        // SAFETY: the runtime has put `/dev/null` there; what writes to it is not run any more.
        unsafe { rustix::io::close(descriptor) };
    }
}

/// Ignores again what was ignored and has been changed, in a process that is about to become a command.
pub(super) fn restore_signals() {
    for signal in [libc::SIGPIPE, libc::SIGCHLD] {
        let disposition = match was_ignored(signal) {
            true => libc::SIG_IGN,
            false => libc::SIG_DFL,
        };
        // SAFETY: a valid signal, and no handler.
        unsafe { libc::signal(signal, disposition) };
    }
}

/// Whether `signal` was ignored when dlock was started.
pub(super) fn was_ignored(signal: i32) -> bool {
    IGNORED.load(Ordering::Relaxed) & (1 << (signal - 1)) != 0
}

fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action only queries; `action` is large enough, and all zero bytes are a
    // valid value should the call fail, as it does for numbers that the C library keeps for itself.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}
