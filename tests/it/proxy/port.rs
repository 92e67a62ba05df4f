//! A TCP port that stays one's own while nobody listens to it.

use std::io;
use std::net::{SocketAddr, TcpListener};

use rustix::fd::OwnedFd;
use rustix::net::sockopt::{set_socket_reuseaddr, set_socket_reuseport};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, listen, socket_with};

/// How many clients may wait to be accepted.
const BACKLOG: i32 = 128;

/// A claimed port, free again when this is dropped.
pub(crate) struct Port {
    /// Bound and never listening: the kernel refuses who connects, and gives the port to nobody who asks for any.
    _keeper: OwnedFd,
    address: SocketAddr,
}

impl Port {
    /// Claims `address`; a port 0 becomes a free one.
    pub(crate) fn claim(address: SocketAddr) -> io::Result<Self> {
        let keeper = bound(address)?;
        let address = SocketAddr::try_from(getsockname(&keeper)?)?;
        Ok(Self {
            _keeper: keeper,
            address,
        })
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) const fn number(&self) -> u16 {
        self.address.port()
    }

    /// Accepts clients until the listener is dropped.
    pub(crate) fn listen(&self) -> io::Result<TcpListener> {
        let listener = bound(self.address)?;
        listen(&listener, BACKLOG)?;
        Ok(listener.into())
    }
}

/// A socket that shares its port with the others of this file, and with no other program's.
fn bound(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    // A program that inherited a listener would be given clients by the kernel, and never accept them.
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_reuseaddr(&socket, true)?;
    set_socket_reuseport(&socket, true)?;
    bind(&socket, &address)?;
    Ok(socket)
}
