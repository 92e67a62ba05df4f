//! A TCP port that stays reserved while no socket listens on it.

use std::io;
use std::net::{SocketAddr, TcpListener};

use rustix::fd::OwnedFd;
use rustix::net::sockopt::{set_socket_reuseaddr, set_socket_reuseport};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, listen, socket_with};

const BACKLOG: i32 = 128;

/// A reserved port. Dropping this value frees the port.
pub struct Port {
    /// A socket that is bound but never listens. The kernel refuses connections to the port, and does not assign the
    /// port to a program that binds port 0.
    _reservation: OwnedFd,
    address: SocketAddr,
}

impl Port {
    /// Reserves `address`. Port 0 selects a free port.
    pub fn reserve(address: SocketAddr) -> io::Result<Self> {
        let reservation = bound(address)?;
        let address = SocketAddr::try_from(getsockname(&reservation)?)?;
        Ok(Self {
            _reservation: reservation,
            address,
        })
    }

    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    pub const fn number(&self) -> u16 {
        self.address.port()
    }

    /// Listens on the port until the listener is dropped.
    pub fn listen(&self) -> io::Result<TcpListener> {
        let listener = bound(self.address)?;
        listen(&listener, BACKLOG)?;
        Ok(listener.into())
    }
}

/// Returns a bound socket that can share its port with other sockets from this function.
fn bound(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    // If a child process inherited a listener, the kernel would queue connections on that listener, and no process
    // would accept these connections.
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_reuseaddr(&socket, true)?;
    set_socket_reuseport(&socket, true)?;
    bind(&socket, &address)?;
    Ok(socket)
}
