//! The socket of a session that the test program itself has.

use std::fs;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};

use crate::sql::Sql;
use mysql::prelude::Queryable;
use mysql::{Conn, Opts, OptsBuilder, Row};
use rustix::net::{getpeername, getsockname};

/// Opens a session over TCP.
pub fn connect(url: &str) -> mysql::Result<Conn> {
    // By default, the client changes to the Unix socket of a local server.
    let options = OptsBuilder::from_opts(Opts::from_url(url)?).prefer_socket(false);
    Conn::new(options)
}

/// Returns the descriptor of the socket of `session`.
pub fn socket_of(session: &mut Conn) -> RawFd {
    let own = session.connection_id();
    let rows: Vec<Row> = session.rows("SHOW PROCESSLIST");
    let host: String = rows
        .into_iter()
        .find(|row| row.get("Id") == Some(own))
        .and_then(|row| row.get("Host"))
        .expect("the own session is in the list");
    let (_, port) = host.rsplit_once(':').expect("the session uses TCP");
    let port = port.parse().expect("a port is a number");
    let server: u16 = (session.query_first("SELECT @@port"))
        .expect("the server responds")
        .expect("the query returns one row");
    // Two sockets with different remote ports can have the same local port. A proxy has a port of its own.
    let direct = socket_with_port(port, |remote| remote == server);
    let socket = direct.or_else(|| socket_with_port(port, |_| true));
    socket.expect("the own socket is open")
}

/// Returns the open socket of this process whose local port is `port`, and whose remote port `is_remote`.
fn socket_with_port(port: u16, is_remote: impl Fn(u16) -> bool) -> Option<RawFd> {
    let entries = fs::read_dir("/proc/self/fd").ok()?;
    let names = entries.flatten().map(|entry| entry.file_name());
    let mut descriptors = names.filter_map(|name| name.to_str()?.parse::<RawFd>().ok());
    descriptors.find(|descriptor| {
        // SAFETY: the borrow ends with this closure. If the descriptor has been closed, the call returns an error or
        // the address of another socket.
        let socket = unsafe { BorrowedFd::borrow_raw(*descriptor) };
        let local = getsockname(socket).ok();
        let local = local.and_then(|address| SocketAddr::try_from(address).ok());
        let remote = getpeername(socket).ok().flatten();
        let remote = remote.and_then(|address| SocketAddr::try_from(address).ok());
        local.is_some_and(|local| local.port() == port)
            && remote.is_some_and(|remote| is_remote(remote.port()))
    })
}
