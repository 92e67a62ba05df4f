//! A pair of connected sockets. Each message arrives completely or not at all, and messages arrive in order.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};

/// Maximum length of a message, in bytes.
pub const LONGEST: usize = 1024;

/// One end of the pair.
#[derive(Debug)]
pub struct Channel(OwnedFd);

/// The result of a read from a channel.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// A message.
    Message(Vec<u8>),
    /// No message has arrived yet.
    Nothing,
    /// The other end is closed, for example because its process has ended.
    Closed,
}

impl Channel {
    /// Creates a pair of connected ends. The command does not inherit these descriptors.
    ///
    /// # Errors
    /// Fails if the kernel has no free descriptor.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok((Self(one), Self(other)))
    }

    /// Sends `message` without waiting. The sender has its own deadlines and must not wait for a frozen process.
    ///
    /// # Errors
    /// Fails if the buffer is full or the other end is closed.
    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        send(&self.0, message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
        Ok(())
    }

    /// Sends `message`. Waits while the buffer is full, for example while the other process is frozen.
    ///
    /// # Errors
    /// Fails if the other end is closed.
    pub fn send_waiting(&self, message: &[u8]) -> io::Result<()> {
        send(&self.0, message, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Returns the next message, which has 1 to [`LONGEST`] bytes, without waiting for a message.
    #[must_use]
    pub fn receive(&self) -> Received {
        let mut message = Vec::with_capacity(LONGEST);
        let flags = RecvFlags::DONTWAIT;
        match recv(&self.0, spare_capacity(&mut message), flags) {
            Ok((1.., _)) => Received::Message(message),
            Err(Errno::AGAIN | Errno::INTR) => Received::Nothing,
            // The other end was closed before it had read all messages. The kernel reports this error once. The
            // messages from the other end can still be read afterwards.
            Err(Errno::CONNRESET) => self.receive(),
            Ok(_) | Err(_) => Received::Closed,
        }
    }

    /// Discards all messages that have arrived.
    pub fn drain(&self) {
        while let Received::Message(_) = self.receive() {}
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::{Channel, Received};

    #[test]
    fn messages_arrive_complete_in_order_and_then_the_close() {
        let (one, other) = Channel::pair().expect("a pair");
        assert_eq!(other.receive(), Received::Nothing);
        one.send(&[1, 2]).expect("the buffer has room");
        one.send(&[3, 4]).expect("the buffer has room");
        drop(one);
        assert_eq!(other.receive(), Received::Message(vec![1, 2]));
        assert_eq!(other.receive(), Received::Message(vec![3, 4]));
        assert_eq!(other.receive(), Received::Closed);
    }

    #[test]
    fn messages_of_a_closed_end_with_unread_input_are_received() {
        let (one, other) = Channel::pair().expect("a pair");
        one.send(&[1, 2]).expect("the buffer has room");
        other.send(&[3, 4]).expect("the buffer has room");
        drop(other);
        assert_eq!(one.receive(), Received::Message(vec![3, 4]));
        assert_eq!(one.receive(), Received::Closed);
    }
}
