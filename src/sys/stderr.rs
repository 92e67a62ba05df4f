//! Writes to stderr without waiting for its reader, and without being stopped by a terminal.
//!
//! Any thread and any forked process may call [`write_if_room`], because this function takes no lock and starts no
//! thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::signal_mask::SignalMask;

/// The number of bytes that a pipe accepts in one write when it is writable (`PIPE_BUF`).
const ROOM: usize = 4096;

/// Writes at most the first 4096 bytes of `text` to stderr, in one write, if stderr has room for these bytes.
///
/// The write can block if another process fills a shared pipe after the check. Use this function only for emergency
/// messages.
pub fn write_if_room(text: &[u8]) {
    write_to(io::stderr().as_fd(), text);
}

/// Calls `write` while this thread blocks SIGTTOU. A terminal with `stty tostop` would otherwise stop this process if it
/// writes a message in the background, and a stopped process cannot renew a lease.
pub fn in_background<T>(write: impl FnOnce() -> T) -> T {
    let before = SignalMask::of([libc::SIGTTOU]).apply(libc::SIG_BLOCK);
    let written = write();
    before.apply(libc::SIG_SETMASK);
    written
}

fn write_to(fd: BorrowedFd<'_>, text: &[u8]) {
    let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
    if poll(&mut polled, Some(&Timespec::default())) == Ok(1)
        && polled[0].revents() == PollFlags::OUT
    {
        // The message is lost if the write fails.
        let _ = in_background(|| rustix::io::write(fd, &text[..text.len().min(ROOM)]));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write, pipe};
    use std::os::fd::AsFd;

    use super::write_to;

    #[test]
    fn message_is_lost_without_waiting_if_the_pipe_is_full() {
        let (mut reader, mut writer) = pipe().expect("a pipe");
        write_to(writer.as_fd(), b"first");
        let mut read = [0; 5];
        reader
            .read_exact(&mut read)
            .expect("the message was written");
        assert_eq!(&read, b"first");

        let size = rustix::pipe::fcntl_getpipe_size(&reader).expect("the pipe has a size");
        writer
            .write_all(&vec![0; size])
            .expect("the bytes fit into the pipe");
        write_to(writer.as_fd(), b"lost");
        drop(writer);
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).expect("the pipe can be read");
        assert_eq!(rest.len(), size);
    }
}
