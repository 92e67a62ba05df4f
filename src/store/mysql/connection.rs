//! One connection to the server: connect, time limits and close.
//!
//! This file works around problems of the driver. It prevents the driver's set-up queries and a second connection
//! through the server's Unix socket, sets time limits on socket calls, and converts a panic in the driver into an
//! error. A connection with *any* error is dropped, because the driver would return the late response of one request as
//! the response to the next request.

use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{ClientIdentity, Conn, OptsBuilder, Row, SslOpts};

use super::errors::{ConnectError, Phase, connect_error, failure};
use crate::store::check::Check;
use crate::store::connected::ConnectedServer;
use crate::store::target::{Address, Secret, SslMode, Target, Tls};
use crate::store::{Failure, FailureKind};
use crate::sys::socket::{self, Interrupter};
use crate::sys::tcp::{self, TcpConnection};

/// Maximum size of a packet in bytes, which is larger than any packet of a response. It is set so that the driver does
/// not query the server's limit.
const MAX_PACKET: usize = 1 << 20;

/// Number of unanswered keepalive probes, one per second, after which the peer counts as dead.
const KEEPALIVE_PROBES: u32 = 3;

/// Time limits of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Maximum time to connect to one address, and maximum time of each read of the login.
    pub(super) connect: Duration,
    /// Maximum time of each write.
    pub(super) request: Duration,
}

impl From<Duration> for Limits {
    fn from(limit: Duration) -> Self {
        Self {
            connect: limit,
            request: limit,
        }
    }
}

/// Takes a row of a response as soon as it arrives, with the index of its SELECT. Returns the row if it is to be kept until
/// the end of the response.
pub(super) type TakeRow<'a> = &'a mut dyn FnMut(usize, Row) -> Option<Row>;

/// An open connection.
pub(super) struct Connection {
    conn: Conn,
    interrupter: Interrupter,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The interrupter's descriptor would keep the socket open.
        self.interrupter.unwatch();
    }
}

impl Connection {
    /// Connects and logs in. Tries the addresses that the host name resolves to, until a server responds.
    ///
    /// The limit of each read stays [`Limits::connect`] until [`Self::limit_reads`] changes it. Name resolution has no
    /// time limit, so a thread with other work must not call this function.
    pub(super) fn open(
        target: &Target,
        limits: Limits,
        interrupter: &Interrupter,
    ) -> Result<Self, ConnectError> {
        check_readable(&target.tls).map_err(|why| ConnectError {
            at: None,
            failure: Failure::new(FailureKind::Config, why),
        })?;
        let unresolved = |why| ConnectError {
            at: Some(Check::Address),
            failure: Failure::new(FailureKind::Unreachable, why),
        };
        let address = &target.address;
        let families = families(address)
            .map_err(|error| unresolved(format!("cannot resolve {address}: {error}")))?;
        let mut last = unresolved(format!("{address} resolves to no address"));
        for family in families {
            last = match catch_panic(|| Conn::new(options(target, limits, family))) {
                Ok(Ok(conn)) => {
                    interrupter.watch(conn.as_raw_fd());
                    return Ok(Self {
                        conn,
                        interrupter: interrupter.clone(),
                    });
                }
                Ok(Err(error)) => connect_error(&error, target),
                Err(panic) => ConnectError {
                    at: Some(Check::Connect),
                    failure: panicked(&panic),
                },
            };
            // The server responded, or TLS failed. The server's other addresses would not help.
            if !matches!(
                last.failure.kind,
                FailureKind::Unreachable | FailureKind::Unknown
            ) {
                break;
            }
        }
        Err(last)
    }

    /// Returns the session id in the server's greeting, which contains only the lower 32 bits of the id.
    pub(super) fn greeting_id(&self) -> u32 {
        self.conn.connection_id()
    }

    /// Returns the facts about this connection to `target`.
    pub(super) fn facts(&self, target: &Target) -> ConnectedServer {
        let is_tcp = matches!(target.address, Address::Tcp { .. });
        ConnectedServer {
            address: target.address.clone(),
            version: None,
            // The driver fails if the server does not offer TLS.
            tls: Some(target.tls.mode).filter(|mode| is_tcp && *mode != SslMode::Disabled),
            session_id: self.greeting_id(),
            skipped: Vec::new(),
        }
    }

    /// Returns the addresses of the connection. None if it uses a Unix socket.
    pub(super) fn tcp_connection(&self) -> Option<TcpConnection> {
        tcp::connection_of_raw(self.conn.as_raw_fd())
    }

    /// Sets the maximum time of each read. None sets no limit, and then only the kernel's keepalive detects a dead
    /// server.
    pub(super) fn limit_reads(&self, limit: Option<Duration>) -> Result<(), Failure> {
        socket::limit_reads(self.conn.as_raw_fd(), limit).map_err(|error| {
            let message = format!("cannot set a time limit on the connection: {error}");
            Failure::new(FailureKind::Unreachable, message)
        })
    }

    /// Sends `packet` and reads the rows of each of its SELECTs. Consumes the connection and returns it, or None if the
    /// driver panicked. The returned connection may be used again only if there was no error.
    pub(super) fn exchange(
        self,
        packet: &str,
        target: &Target,
    ) -> (Option<Self>, Result<Vec<Vec<Row>>, Failure>) {
        self.exchange_rows(packet, target, &mut |_, row| Some(row))
    }

    /// Does the same, but returns only the rows that `take` keeps.
    pub(super) fn exchange_rows(
        mut self,
        packet: &str,
        target: &Target,
        take: TakeRow,
    ) -> (Option<Self>, Result<Vec<Vec<Row>>, Failure>) {
        match catch_panic(|| read_all(&mut self.conn, packet, take)) {
            Ok(Ok(sets)) => (Some(self), Ok(sets)),
            Ok(Err(error)) => (Some(self), Err(failure(&error, Phase::Requesting, target))),
            Err(panic) => {
                // The driver's Drop would write to a connection in an unknown state.
                self.interrupter.interrupt();
                std::mem::forget(self);
                (None, Err(panicked(&panic)))
            }
        }
    }
}

fn read_all(conn: &mut Conn, packet: &str, take: TakeRow) -> Result<Vec<Vec<Row>>, mysql::Error> {
    let mut found = Vec::new();
    // The result sets are dropped only on success. After an error, dropping them would continue to read from the
    // server. After a panic in the driver, dropping them could panic again, which would abort dlock while the command
    // is running.
    let mut sets = ManuallyDrop::new(conn.query_iter(packet)?);
    while let Some(set) = sets.iter() {
        let mut set = ManuallyDrop::new(set);
        let has_rows = !set.columns().as_ref().is_empty();
        let mut rows = Vec::new();
        for row in set.by_ref() {
            rows.extend(take(found.len(), row?));
        }
        drop(ManuallyDrop::into_inner(set));
        if has_rows {
            found.push(rows);
        }
    }
    drop(ManuallyDrop::into_inner(sets));
    Ok(found)
}

/// Calls the driver, and returns the message of a panic as the error. The driver panics even on an empty packet.
fn catch_panic<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_default()
    })
}

fn panicked(text: &str) -> Failure {
    let message = format!("the driver could not read the server's response: {text}");
    Failure::new(FailureKind::Unknown, message)
}

/// Returns the bind addresses to connect from, one per address family, in the resolver's order. None binds no address.
///
/// If no bind address is set, the driver tries only the first address of a name. If one is set, the driver tries all
/// addresses of the same family, so dlock connects once per family. A literal address or a socket needs no bind
/// address.
fn families(address: &Address) -> std::io::Result<Vec<Option<IpAddr>>> {
    let (host, port) = match address {
        Address::Tcp { host, port } if host.parse::<IpAddr>().is_err() => (host.as_str(), *port),
        Address::Tcp { .. } | Address::Socket(_) => return Ok(vec![None]),
    };
    let mut families = Vec::new();
    for address in (host, port).to_socket_addrs()? {
        let family = Some(match address {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        });
        if !families.contains(&family) {
            families.push(family);
        }
    }
    Ok(families)
}

fn options(target: &Target, limits: Limits, bind: Option<IpAddr>) -> OptsBuilder {
    let limit = limits.request;
    let millis = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
    let seconds = u32::try_from(limit.as_secs().max(1)).unwrap_or(1);
    let options = OptsBuilder::new()
        .user(Some(&target.user))
        .pass(target.password.as_ref().map(Secret::reveal))
        .db_name(Some(&target.database).filter(|name| !name.is_empty()))
        // The next two settings prevent a second connection and two queries by the driver.
        .prefer_socket(false)
        .max_allowed_packet(Some(MAX_PACKET))
        .stmt_cache_size(0)
        .read_timeout(Some(limits.connect))
        .write_timeout(Some(limit))
        .tcp_connect_timeout(Some(limits.connect))
        // A peer that dies without closing the connection is detected within twice the time limit.
        .tcp_user_timeout_ms(Some(millis.saturating_mul(2)))
        .tcp_keepalive_time_ms(Some(seconds * 1000))
        .tcp_keepalive_probe_interval_secs(Some(1))
        .tcp_keepalive_probe_count(Some(KEEPALIVE_PROBES))
        .connect_attrs(Some(HashMap::from([("program_name", "dlock")])));
    match &target.address {
        Address::Socket(path) => options.socket(Some(path.to_string_lossy())),
        Address::Tcp { host, port } => options
            .ip_or_hostname(Some(host))
            .tcp_port(*port)
            .bind_address(bind.map(|ip| SocketAddr::new(ip, 0)))
            .ssl_opts(ssl(target)),
    }
}

/// Returns an error if a TLS file cannot be read. The driver would report such a file as an unreachable server.
fn check_readable(tls: &Tls) -> Result<(), String> {
    let identity = tls.identity.iter().flat_map(|(cert, key)| [cert, key]);
    for path in tls.ca.iter().chain(identity) {
        std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    }
    Ok(())
}

fn ssl(target: &Target) -> Option<SslOpts> {
    let tls = &target.tls;
    if tls.mode == SslMode::Disabled {
        return None;
    }
    let mut options = SslOpts::default()
        .with_danger_accept_invalid_certs(tls.mode == SslMode::Required)
        .with_danger_skip_domain_validation(tls.mode == SslMode::VerifyCa)
        .with_root_cert_path(tls.ca.clone().map(std::borrow::Cow::Owned));
    if let Some((cert, key)) = tls.identity.clone() {
        options = options.with_client_identity(Some(ClientIdentity::new(cert, key)));
    }
    Some(options)
}
