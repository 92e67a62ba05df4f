//! Time limits of a socket, its end, and ending a blocked read of another thread by shutting it down.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{Shutdown, shutdown};

use super::alarm::wait_for_flags;

/// Sets how long one read of the socket `fd` may take; none: for ever.
///
/// # Errors
/// When the kernel refuses.
pub fn limit_reads(fd: RawFd, limit: Option<Duration>) -> io::Result<()> {
    // SAFETY: the caller owns the connection that `fd` belongs to and keeps it open during this
    // call; the borrow ends here.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    set_socket_timeout(socket, Timeout::Recv, limit)?;
    Ok(())
}

/// Waits until `bell` has something to say, or the peer of `socket` ends the connection; tells whether
/// it was the latter. What the peer says before is left to who reads it.
///
/// # Errors
/// When the kernel is out of memory.
pub fn hangs_up(socket: BorrowedFd<'_>, bell: BorrowedFd<'_>) -> io::Result<bool> {
    let polled = [
        PollFd::from_borrowed_fd(bell, PollFlags::IN),
        PollFd::from_borrowed_fd(socket, PollFlags::RDHUP),
    ];
    wait_for_flags(polled, None).map(|[has_rung, _]| !has_rung)
}

/// A handle on whatever connection the database thread has at the moment.
///
/// The driver's time limits count per system call: a server that drips one byte a second outlives
/// them. A shutdown ends the read at once, whatever the driver is at.
#[derive(Debug, Clone, Default)]
pub struct Interrupter(Arc<Mutex<Option<OwnedFd>>>);

impl Interrupter {
    /// Watches the socket `fd` from now on, instead of the one before.
    pub fn watch(&self, fd: RawFd) {
        // SAFETY: the caller owns the connection that `fd` belongs to and keeps it open during
        // this call; the borrow ends here, what is kept is a descriptor of our own.
        let socket = unsafe { BorrowedFd::borrow_raw(fd) };
        *self.lock() = rustix::io::fcntl_dupfd_cloexec(socket, 0).ok();
    }

    /// A descriptor of the connection, if there is one.
    #[must_use]
    pub fn watched(&self) -> Option<OwnedFd> {
        self.lock().as_ref()?.try_clone().ok()
    }

    /// Watches nothing any more.
    pub fn unwatch(&self) {
        *self.lock() = None;
    }

    /// Ends the read or write that is going on, if any. The connection is of no use afterwards.
    pub fn interrupt(&self) {
        if let Some(socket) = self.lock().take() {
            // Fails only if the peer was faster.
            let _ = shutdown(socket, Shutdown::Both);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<OwnedFd>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
