//! A pair of sockets between two processes: messages go through whole or not at all, in order.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};

/// Most bytes of a message.
pub const LONGEST: usize = 1024;

/// One end.
#[derive(Debug)]
pub struct Link(OwnedFd);

/// What comes out of a link.
#[derive(Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A message.
    Message(Vec<u8>),
    /// Nothing for now.
    Nothing,
    /// The other end is closed: its process has ended.
    Closed,
}

impl Link {
    /// Two ends; neither is inherited by a command.
    ///
    /// # Errors
    /// When the kernel has no descriptor left.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok((Self(one), Self(other)))
    }

    /// Sends, if there is room: the sender has deadlines of its own and must not wait for a frozen
    /// process.
    ///
    /// # Errors
    /// When there is no room, or nobody at the other end.
    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        send(&self.0, message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
        Ok(())
    }

    /// Sends, however long the other process is frozen.
    ///
    /// # Errors
    /// When there is nobody at the other end.
    pub fn send_waiting(&self, message: &[u8]) -> io::Result<()> {
        send(&self.0, message, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// The next message, if there is one. It has 1 to [`LONGEST`] bytes.
    #[must_use]
    pub fn receive(&self) -> Incoming {
        let mut message = Vec::with_capacity(LONGEST);
        let flags = RecvFlags::DONTWAIT;
        match recv(&self.0, spare_capacity(&mut message), flags) {
            Ok((1.., _)) => Incoming::Message(message),
            Err(Errno::AGAIN | Errno::INTR) => Incoming::Nothing,
            // The other end was closed with messages of ours unread. Told once, and before what it has
            // said to us, which is still there.
            Err(Errno::CONNRESET) => self.receive(),
            Ok(_) | Err(_) => Incoming::Closed,
        }
    }

    /// Takes whatever there is, unread.
    pub fn drain(&self) {
        while let Incoming::Message(_) = self.receive() {}
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::{Incoming, Link};

    #[test]
    fn messages_arrive_whole_and_in_order_and_the_end_is_noticed() {
        let (one, other) = Link::pair().expect("a pair");
        assert_eq!(other.receive(), Incoming::Nothing);
        one.send(&[1, 2]).expect("room");
        one.send(&[3, 4]).expect("room");
        drop(one);
        assert_eq!(other.receive(), Incoming::Message(vec![1, 2]));
        assert_eq!(other.receive(), Incoming::Message(vec![3, 4]));
        assert_eq!(other.receive(), Incoming::Closed);
    }

    #[test]
    fn the_last_words_of_one_that_did_not_listen_are_heard() {
        let (one, other) = Link::pair().expect("a pair");
        one.send(&[1, 2]).expect("room");
        other.send(&[3, 4]).expect("room");
        drop(other);
        assert_eq!(one.receive(), Incoming::Message(vec![3, 4]));
        assert_eq!(one.receive(), Incoming::Closed);
    }
}
