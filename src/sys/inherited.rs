//! The state that dlock inherits at its start: open descriptors, closed standard streams, and ignored and blocked
//! signals. The command inherits all of this state. While the command runs, dlock and the monitor keep none of the
//! inherited descriptors open, except stderr.
//!
//! The state is recorded before `main`, for three reasons. First, the Rust runtime opens `/dev/null` if stdin, stdout
//! or stderr is closed, or aborts if there is no `/dev/null`, and ignores SIGPIPE. Therefore `record` opens the closed
//! streams itself. Second, dlock must receive SIGCHLD and therefore changes how that signal
//! is handled. Third, a library may open a descriptor at any time, and [`close_descriptors`] must not close that
//! descriptor.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::{LazyLock, Mutex, PoisonError};

use rustix::fs::{FileType, fstat};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use super::signal_mask::SignalMask;
use super::stderr::write_if_room;

/// The exit status if the standard streams cannot be opened. The same as `Status::INTERNAL`, which this layer cannot use.
const INTERNAL_ERROR: i32 = 70;

struct Inherited {
    /// The standard streams (descriptors 0 to 2) that were closed.
    closed: Vec<RawFd>,
    /// All open descriptors except the standard streams. [`close_descriptors`] empties the list.
    open: Mutex<Vec<RawFd>>,
    /// The inodes of the sockets among all open descriptors.
    sockets: BTreeSet<u64>,
    ignored: Vec<i32>,
    blocked: SignalMask,
}

static INHERITED: LazyLock<Inherited> = LazyLock::new(|| {
    let closed = (0..3).filter(|descriptor| !is_open(*descriptor)).collect();
    let mut open = list_descriptors().unwrap_or_default();
    // The directory listing used its own descriptor, which is now closed.
    open.retain(|descriptor| is_open(*descriptor));
    let sockets = (0..3).chain(open.iter().copied());
    let sockets = sockets.filter_map(socket_inode).collect();
    Inherited {
        closed,
        open: Mutex::new(open),
        sockets,
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
    if let Err(error) = open_streams(&INHERITED.closed) {
        write_if_room(
            format!("dlock: cannot open the closed standard streams: {error}\n").as_bytes(),
        );
        // SAFETY: the call never returns, and runs no destructor or exit handler.
        unsafe { libc::_exit(INTERNAL_ERROR) }
    }
}

/// Opens the standard streams in `closed`, in ascending order. Each new descriptor gets the lowest free number, which is
/// the number of the stream.
fn open_streams(closed: &[RawFd]) -> io::Result<()> {
    for _ in closed {
        let stream = null()?;
        fcntl_setfd(&stream, FdFlags::empty())?;
        let _ = stream.into_raw_fd();
    }
    Ok(())
}

/// Opens `/dev/null`. If there is no `/dev/null`, as in a chroot with an empty `/dev`, returns a pipe without a writer: it
/// is empty, and a write fails as if the descriptor were closed.
///
/// # Errors
/// Fails if the kernel has no free descriptor.
pub(super) fn null() -> io::Result<OwnedFd> {
    match File::options().read(true).write(true).open("/dev/null") {
        Ok(null) => Ok(null.into()),
        Err(_) => Ok(pipe_with(PipeFlags::CLOEXEC)?.0),
    }
}

fn is_open(descriptor: RawFd) -> bool {
    // SAFETY: F_GETFD only reads, and fails for a descriptor that is not open.
    unsafe { libc::fcntl(descriptor, libc::F_GETFD) >= 0 }
}

/// Returns the inode of the socket with this descriptor. None if the descriptor is not a socket.
fn socket_inode(descriptor: RawFd) -> Option<u64> {
    // SAFETY: the borrow ends with this function. The call fails for a descriptor that is not open.
    let status = fstat(unsafe { BorrowedFd::borrow_raw(descriptor) }).ok()?;
    (FileType::from_raw_mode(status.st_mode) == FileType::Socket).then_some(status.st_ino)
}

/// Returns the inodes of the sockets that dlock inherited. They belong to dlock's caller, even if the command has inherited
/// them too.
pub(super) fn sockets() -> &'static BTreeSet<u64> {
    &INHERITED.sockets
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
    if let Ok(null) = null() {
        // These calls do not fail for open descriptors.
        let _ = (dup2_stdin(&null), dup2_stdout(&null));
    }
}

/// Replaces stderr with `/dev/null`, so that a reader of stderr does not wait for this process.
pub fn close_stderr() {
    if let Ok(null) = null() {
        // This call does not fail for an open descriptor.
        let _ = dup2_stderr(&null);
    }
}

/// Closes the standard streams that were closed at the start of dlock. Call this function only in a process that is
/// about to execute the command.
pub(super) fn restore_streams() {
    for descriptor in &INHERITED.closed {
        // SAFETY: `open_streams` opened this descriptor, and the code that would write to it no longer
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
