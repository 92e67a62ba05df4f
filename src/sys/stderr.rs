//! Writing to stderr without waiting for its reader.
//!
//! Any thread, and any forked process: takes no lock and starts no thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The most bytes that a pipe takes at once when it says that it has room (`PIPE_BUF`).
const ROOM: usize = 4096;

/// Writes the beginning of `text` to stderr, in one write, if there is room for it.
///
/// Another process that fills a shared pipe between the look and the write may make this wait: it
/// is only for what is said in an emergency.
pub fn write_if_room(text: &[u8]) {
    write_to(io::stderr().as_fd(), text);
}

fn write_to(fd: BorrowedFd<'_>, text: &[u8]) {
    let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
    if poll(&mut polled, Some(&Timespec::default())) == Ok(1)
        && polled[0].revents() == PollFlags::OUT
    {
        // Lost if it cannot be written.
        let _ = rustix::io::write(fd, &text[..text.len().min(ROOM)]);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write, pipe};
    use std::os::fd::AsFd;

    use super::write_to;

    #[test]
    fn what_a_full_pipe_has_no_room_for_is_lost_and_nobody_waits() {
        let (mut reader, mut writer) = pipe().expect("a pipe");
        write_to(writer.as_fd(), b"first");
        let mut read = [0; 5];
        reader.read_exact(&mut read).expect("it was written");
        assert_eq!(&read, b"first");

        let size = rustix::pipe::fcntl_getpipe_size(&reader).expect("it has a size");
        writer.write_all(&vec![0; size]).expect("it fits");
        write_to(writer.as_fd(), b"lost");
        drop(writer);
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).expect("it can be read");
        assert_eq!(rest.len(), size);
    }
}
