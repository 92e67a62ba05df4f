//! Limits the time of a read from a socket, detects that the peer has closed the connection, and shuts the connection
//! down to end another thread's blocked read.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{Shutdown, shutdown};

use super::boot_timer::wait_for_flags;

/// Sets the maximum time of one read from the socket `fd`. None waits forever.
///
/// # Errors
/// Fails if the kernel refuses the limit.
pub fn limit_reads(fd: RawFd, limit: Option<Duration>) -> io::Result<()> {
    // SAFETY: the caller owns the connection that `fd` belongs to and keeps it open during this
    // call; the borrow ends here.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    set_socket_timeout(socket, Timeout::Recv, limit)?;
    Ok(())
}

/// Waits until `wakeup` is readable or the peer of `socket` closes the connection. Returns true if the peer has closed
/// the connection and `wakeup` is not readable. Does not read data that the peer has sent.
///
/// # Errors
/// Fails if the kernel is out of memory.
pub fn hangs_up(socket: BorrowedFd<'_>, wakeup: BorrowedFd<'_>) -> io::Result<bool> {
    let polled = [
        PollFd::from_borrowed_fd(wakeup, PollFlags::IN),
        PollFd::from_borrowed_fd(socket, PollFlags::RDHUP),
    ];
    wait_for_flags(polled, None).map(|[is_readable, _]| !is_readable)
}

/// A handle with which another thread can end the database thread's current connection.
///
/// The driver's time limits apply to each system call, so a server that sends one byte per second may never exceed
/// them. A shutdown of the connection ends the driver's read or write immediately.
#[derive(Debug, Clone, Default)]
pub struct Interrupter(Arc<Mutex<Option<OwnedFd>>>);

impl Interrupter {
    /// Watches the socket `fd` instead of the previous socket.
    pub fn watch(&self, fd: RawFd) {
        // SAFETY: the caller owns the connection that `fd` belongs to and keeps it open during
        // this call; the borrow ends here, and only a duplicate of the descriptor is kept.
        let socket = unsafe { BorrowedFd::borrow_raw(fd) };
        *self.lock() = rustix::io::fcntl_dupfd_cloexec(socket, 0).ok();
    }

    /// Returns a new descriptor of the connection. None if there is no connection.
    #[must_use]
    pub fn watched(&self) -> Option<OwnedFd> {
        self.lock().as_ref()?.try_clone().ok()
    }

    /// Stops watching the connection.
    pub fn unwatch(&self) {
        *self.lock() = None;
    }

    /// Ends the current read or write, if any. The connection cannot be used afterwards.
    pub fn interrupt(&self) {
        if let Some(socket) = self.lock().take() {
            // The call fails only if the peer has already closed the connection.
            let _ = shutdown(socket, Shutdown::Both);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<OwnedFd>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
