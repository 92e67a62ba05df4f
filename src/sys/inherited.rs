//! What dlock was started with: open descriptors, closed standard streams, ignored and blocked signals. The
//! command gets all of it; dlock and the monitor keep no descriptor that is the command's.
//!
//! Recorded before `main`. The Rust runtime opens `/dev/null` where stdin, stdout or stderr is closed,
//! and ignores SIGPIPE. dlock itself must hear SIGCHLD. And a library may open a descriptor of its own
//! at any time, which nobody else may close.

use std::fs::{self, File};
use std::mem::{self, MaybeUninit};
use std::os::fd::RawFd;
use std::sync::{LazyLock, Mutex, PoisonError};

use rustix::stdio::{dup2_stdin, dup2_stdout};

use super::signal::Mask;

struct Inherited {
    /// Those of the first three descriptors that were closed.
    closed: Vec<RawFd>,
    /// All other descriptors that were open, until they are closed.
    open: Mutex<Vec<RawFd>>,
    ignored: Vec<i32>,
    blocked: Mask,
}

static INHERITED: LazyLock<Inherited> = LazyLock::new(|| {
    let closed = (0..3).filter(|descriptor| !is_open(*descriptor)).collect();
    let mut open = listed().unwrap_or_default();
    // The listing had a descriptor of its own, which is closed by now.
    open.retain(|descriptor| is_open(*descriptor));
    Inherited {
        closed,
        open: Mutex::new(open),
        ignored: (1..=64).filter(|signal| is_ignored(*signal)).collect(),
        blocked: Mask::of([]).apply(libc::SIG_BLOCK),
    }
});

/// Run by the C library before the Rust runtime; statics that are never read again are kept by
/// `used`.
#[used]
#[unsafe(link_section = ".init_array")]
static RECORD: extern "C" fn() = record;

extern "C" fn record() {
    LazyLock::force(&INHERITED);
}

fn is_open(descriptor: RawFd) -> bool {
    // SAFETY: F_GETFD only asks, and fails for a number that is not open.
    unsafe { libc::fcntl(descriptor, libc::F_GETFD) >= 0 }
}

/// All descriptors from 3 on. None without `/proc`.
fn listed() -> Option<Vec<RawFd>> {
    let entries = fs::read_dir("/proc/self/fd").ok()?;
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Some(numbers.filter(|number| *number >= 3).collect())
}

/// Closes the descriptors that this process has inherited, and puts `/dev/null` in the place of stdin
/// and stdout: a reader of a pipe waits for its last writer, which must be the command.
pub fn close_descriptors() {
    let mut open = INHERITED
        .open
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    for descriptor in mem::take(&mut *open) {
        // SAFETY: it was open before anything in this program could open one, so nothing refers to it,
        // and it is not closed twice.
        unsafe { rustix::io::close(descriptor) };
    }
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        // They fail for no descriptors that are open.
        let _ = (dup2_stdin(&null), dup2_stdout(&null));
    }
}

/// Closes again those of the first three that were closed, in a process that is about to become the
/// command.
pub(super) fn restore_streams() {
    for descriptor in &INHERITED.closed {
        // SAFETY: the runtime has put `/dev/null` there; what writes to it is not run any more.
        unsafe { rustix::io::close(*descriptor) };
    }
}

/// Ignores and blocks again what was ignored and blocked, in a process that is about to become a command.
pub(super) fn restore_signals() {
    for signal in [libc::SIGPIPE, libc::SIGCHLD] {
        let disposition = match was_ignored(signal) {
            true => libc::SIG_IGN,
            false => libc::SIG_DFL,
        };
        // SAFETY: a valid signal, and no handler.
        unsafe { libc::signal(signal, disposition) };
    }
    INHERITED.blocked.apply(libc::SIG_SETMASK);
}

/// Whether `signal` was ignored when dlock was started.
pub(super) fn was_ignored(signal: i32) -> bool {
    INHERITED.ignored.contains(&signal)
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
