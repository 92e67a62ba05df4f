//! What dlock was started with and the Rust runtime changes before `main`: recorded earlier still,
//! so that the command can be given it back.
//!
//! The runtime opens `/dev/null` where stdin, stdout or stderr is closed, and ignores SIGPIPE. dlock
//! itself must hear SIGCHLD.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU8, Ordering};

/// Bit n: descriptor n was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Those signals which are changed later, and what they may have been before.
const CHANGED: [i32; 2] = [libc::SIGPIPE, libc::SIGCHLD];

/// Bit n: `CHANGED[n]` was ignored.
static IGNORED: AtomicU8 = AtomicU8::new(0);

/// Run by the C library before the Rust runtime; statics that are never read again are kept by
/// `used`.
#[used]
#[unsafe(link_section = ".init_array")]
static RECORD: extern "C" fn() = record;

extern "C" fn record() {
    for descriptor in 0..3 {
        // SAFETY: F_GETFD only asks, and fails for a number that is not open.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } < 0 {
            CLOSED.fetch_or(1 << descriptor, Ordering::Relaxed);
        }
    }
    for (bit, signal) in CHANGED.into_iter().enumerate() {
        if is_ignored(signal) {
            IGNORED.fetch_or(1 << bit, Ordering::Relaxed);
        }
    }
}

/// Whether `signal`, one of those that are changed, was ignored.
pub(super) fn was_ignored(signal: i32) -> Option<bool> {
    let bit = CHANGED.iter().position(|changed| *changed == signal)?;
    Some(IGNORED.load(Ordering::Relaxed) & (1 << bit) != 0)
}

/// Those of stdin, stdout and stderr that were closed.
fn closed() -> impl Iterator<Item = i32> {
    let closed = CLOSED.load(Ordering::Relaxed);
    (0..3).filter(move |descriptor| closed & (1 << descriptor) != 0)
}

/// Closes again what was closed, in a process that is about to become the command.
pub(super) fn restore_streams() {
    for descriptor in closed() {
        // SAFETY: the runtime has put `/dev/null` there; what writes to it is not run any more.
        unsafe { rustix::io::close(descriptor) };
    }
}

/// Ignores again what was ignored, in a process that is about to become a command.
pub(super) fn restore_signals() {
    let ignored = IGNORED.load(Ordering::Relaxed);
    for (bit, signal) in CHANGED.into_iter().enumerate() {
        let disposition = match ignored & (1 << bit) {
            0 => libc::SIG_DFL,
            _ => libc::SIG_IGN,
        };
        // SAFETY: a valid signal, and no handler.
        unsafe { libc::signal(signal, disposition) };
    }
}

/// Whether `signal` is ignored now.
pub(super) fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action only queries; `action` is large enough, and all zero bytes are a
    // valid value should the call fail, as it does for numbers that the C library keeps for itself.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}
