//! Descriptors that a process holds on to without need: who reads a pipe waits for its last writer.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Closes everything but stderr and `kept`, and puts `/dev/null` in the place of stdin and stdout:
/// these belong to the command, and its end of a pipe must be the last.
pub fn keep_only<'a>(kept: impl IntoIterator<Item = BorrowedFd<'a>>) {
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        for standard in 0..2 {
            // SAFETY: both are open descriptors; nothing in Rust owns 0 and 1.
            unsafe { libc::dup2(null.as_fd().as_raw_fd(), standard) };
        }
    }
    let mut kept: Vec<u32> = kept
        .into_iter()
        .filter_map(|fd| u32::try_from(fd.as_raw_fd()).ok())
        .collect();
    kept.sort_unstable();
    let mut first = 3;
    for fd in kept {
        if first < fd {
            close_range(first, fd - 1);
        }
        first = first.max(fd + 1);
    }
    close_range(first, u32::MAX);
}

/// Has what is written to stdout go where stderr goes.
pub fn join_stdout_to_stderr() {
    // SAFETY: both are open descriptors, by the Rust runtime if by nobody else; nothing in Rust owns
    // 1.
    unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) };
}

fn close_range(first: u32, last: u32) {
    // SAFETY: the caller names everything that is still owned; what is closed was inherited and
    // nothing in Rust refers to it. A kernel before 5.9 does not know the call, and then a reader
    // of an inherited pipe waits for us too.
    unsafe {
        libc::syscall(libc::SYS_close_range, first, last, 0);
    }
}
