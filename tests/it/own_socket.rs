//! The socket of a session that the test program itself has.

use std::fs;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};

use mysql::prelude::Queryable;
use mysql::{Conn, Opts, OptsBuilder, Row};
use rustix::net::getsockname;

/// Opens a session over TCP.
pub(crate) fn connect(url: &str) -> mysql::Result<Conn> {
    // By default, the client changes to the Unix socket of a local server.
    let options = OptsBuilder::from_opts(Opts::from_url(url)?).prefer_socket(false);
    Conn::new(options)
}

/// Returns the descriptor of the socket of `session`.
pub(crate) fn socket_of(session: &mut Conn) -> RawFd {
    let own = session.connection_id();
    let rows: Vec<Row> = session
        .query("SHOW PROCESSLIST")
        .expect("an account sees its own sessions");
    let host: String = rows
        .into_iter()
        .find(|row| row.get("Id") == Some(own))
        .and_then(|row| row.get("Host"))
        .expect("the own session is in the list");
    let (_, port) = host.rsplit_once(':').expect("the session uses TCP");
    let port = port.parse().expect("a port is a number");
    socket_with_port(port).expect("the own socket is open")
}

/// Returns the open socket of this process whose local port is `port`.
fn socket_with_port(port: u16) -> Option<RawFd> {
    let entries = fs::read_dir("/proc/self/fd").ok()?;
    let names = entries.flatten().map(|entry| entry.file_name());
    let mut descriptors = names.filter_map(|name| name.to_str()?.parse::<RawFd>().ok());
    descriptors.find(|descriptor| {
        // SAFETY: the borrow ends with this closure. If the descriptor has been closed, the call returns an error or
        // the address of another socket.
        let socket = unsafe { BorrowedFd::borrow_raw(*descriptor) };
        let address = getsockname(socket).ok();
        let address = address.and_then(|address| SocketAddr::try_from(address).ok());
        address.is_some_and(|address| address.port() == port)
    })
}
