//! One connection to the server: how it is made, what it may cost, and when it is thrown away.
//!
//! The driver's traps are shut in here: no second connect by socket, no set-up queries, time limits
//! on every socket call, a panic of the driver is an error like any other, and a connection that
//! has seen *any* error is dropped, because the driver would hand the late reply of one question
//! to the next.

use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{ClientIdentity, Conn, OptsBuilder, Row, SslOpts};

use super::errors::{Phase, Refusal, failure, refusal};
use crate::store::finding::Check;
use crate::store::target::{Address, Secret, SslMode, Target, Tls};
use crate::store::{Failure, FailureKind};
use crate::sys::socket::{self, Interrupter};

/// Larger than any reply of dlock; set so that the driver does not ask the server for its limit.
const MAX_PACKET: usize = 1 << 20;

/// Unanswered keepalive probes, one a second, after which a silent peer counts as gone.
const KEEPALIVE_PROBES: u32 = 3;

/// A live connection.
pub(super) struct Connection {
    conn: Conn,
    interrupter: Interrupter,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Its descriptor would keep the socket open.
        self.interrupter.unwatch();
    }
}

impl Connection {
    /// Connects and logs in. Every address that the host name resolves to is tried.
    ///
    /// `limit` bounds the connect to one address and each read and write; resolving the name has
    /// no limit of its own, so the caller must not be a thread that has anything else to do.
    pub(super) fn open(
        target: &Target,
        limit: Duration,
        interrupter: &Interrupter,
    ) -> Result<Self, Refusal> {
        readable(&target.tls).map_err(|why| Refusal {
            at: None,
            failure: Failure::new(FailureKind::Config, why),
        })?;
        let unresolved = |why| Refusal {
            at: Some(Check::Address),
            failure: Failure::new(FailureKind::Unreachable, why),
        };
        let address = &target.address;
        let families = families(address)
            .map_err(|error| unresolved(format!("cannot resolve {address}: {error}")))?;
        let mut last = unresolved(format!("{address} resolves to no address"));
        for family in families {
            last = match guarded(|| Conn::new(options(target, limit, family))) {
                Ok(Ok(conn)) => {
                    interrupter.watch(conn.as_raw_fd());
                    return Ok(Self {
                        conn,
                        interrupter: interrupter.clone(),
                    });
                }
                Ok(Err(error)) => refusal(&error, target),
                Err(panic) => Refusal {
                    at: Some(Check::Connect),
                    failure: panicked(&panic),
                },
            };
            // The server answered, or TLS failed: another of its addresses would not help.
            if !matches!(
                last.failure.kind,
                FailureKind::Unreachable | FailureKind::Unknown
            ) {
                break;
            }
        }
        Err(last)
    }

    /// The session's id as the greeting gave it, which has room for 32 bits.
    pub(super) fn greeted_as(&self) -> u32 {
        self.conn.connection_id()
    }

    /// Sets the bound on each read; none: a reply may take for ever, and the kernel's keepalive
    /// alone tells whether the server is still there.
    pub(super) fn limit_reads(&self, limit: Option<Duration>) -> Result<(), Failure> {
        socket::limit_reads(self.conn.as_raw_fd(), limit).map_err(|error| {
            let message = format!("cannot set a time limit: {error}");
            Failure::new(FailureKind::Unreachable, message)
        })
    }

    /// Sends `packet` and reads the rows of each of its SELECTs. Consumes the connection: what it gives back may
    /// be used again only if nothing went wrong.
    pub(super) fn exchange(
        mut self,
        packet: &str,
        target: &Target,
    ) -> (Option<Self>, Result<Vec<Vec<Row>>, Failure>) {
        match guarded(|| read_all(&mut self.conn, packet)) {
            Ok(Ok(sets)) => (Some(self), Ok(sets)),
            Ok(Err(error)) => (Some(self), Err(failure(&error, Phase::Asking, target))),
            Err(panic) => {
                // The driver's Drop would write to a connection in an unknown state.
                self.interrupter.interrupt();
                std::mem::forget(self);
                (None, Err(panicked(&panic)))
            }
        }
    }
}

fn read_all(conn: &mut Conn, packet: &str) -> Result<Vec<Vec<Row>>, mysql::Error> {
    let mut found = Vec::new();
    // Dropped only when all went well: after an error that would read on, and after a panic of the
    // driver it may panic a second time, which aborts the process and leaves the command alone.
    let mut sets = ManuallyDrop::new(conn.query_iter(packet)?);
    while let Some(set) = sets.iter() {
        let mut set = ManuallyDrop::new(set);
        let has_rows = !set.columns().as_ref().is_empty();
        let rows: Result<Vec<Row>, _> = set.by_ref().collect();
        let rows = rows?;
        drop(ManuallyDrop::into_inner(set));
        if has_rows {
            found.push(rows);
        }
    }
    drop(ManuallyDrop::into_inner(sets));
    Ok(found)
}

/// Runs a call into the driver; its panics (an empty packet is enough) become a text.
fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_default()
    })
}

fn panicked(text: &str) -> Failure {
    let message = format!("the driver could not read the server's reply: {text}");
    Failure::new(FailureKind::Unknown, message)
}

/// The bind addresses to connect from, one an address family, in the resolver's order.
///
/// The driver tries only the first address of a name, unless it binds; then it tries all of the
/// bind address's family. So: one attempt a family. A literal address or a socket needs no bind.
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

fn options(target: &Target, limit: Duration, bind: Option<IpAddr>) -> OptsBuilder {
    let millis = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
    let seconds = u32::try_from(limit.as_secs().max(1)).unwrap_or(1);
    let options = OptsBuilder::new()
        .user(Some(&target.user))
        .pass(target.password.as_ref().map(Secret::reveal))
        .db_name(Some(&target.database).filter(|name| !name.is_empty()))
        // These two keep the driver from a second connection and from two queries.
        .prefer_socket(false)
        .max_allowed_packet(Some(MAX_PACKET))
        .stmt_cache_size(0)
        .read_timeout(Some(limit))
        .write_timeout(Some(limit))
        .tcp_connect_timeout(Some(limit))
        // A peer that is gone without a word is noticed within the time of two attempts.
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

/// Refuses what the driver would take for a server that cannot be reached: a file that it cannot
/// read.
fn readable(tls: &Tls) -> Result<(), String> {
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
