//! Counts the packets that a client sends to its server. The proxy of the tests records them.
//!
//! The client must not use TLS, which would hide the packets.

use std::process::Command;

use crate::proxy::{Kind, Proxy, Request};

#[derive(Debug, Default)]
pub struct Traffic {
    pub connections: usize,
    /// Packets up to the end of the login.
    pub login: usize,
    /// Requests before the first attempt to acquire the lock.
    pub before_attempt: usize,
    /// Requests after the login, without `COM_QUIT`.
    pub requests: usize,
    /// `COM_QUIT` packets, which have no response.
    pub quits: usize,
}

/// Starts a proxy for the port `server`, runs the command that `client` returns for the port of the proxy, and counts
/// the packets of the command.
pub fn traffic(server: u16, client: impl FnOnce(u16) -> Command) -> Traffic {
    let proxy = Proxy::to(server);
    let status = client(proxy.port()).status().expect("the client runs");
    assert!(status.success(), "the client: {status}");
    let mut traffic = Traffic::default();
    for session in proxy.sessions() {
        let is_attempt = |request: &Request| request.kind() == Some(Kind::TryAcquire);
        let is_quit = |request: &&Request| **request == Request::Quit;
        let all = session.requests.len();
        let quits = session.requests.iter().filter(is_quit).count();
        traffic.connections += 1;
        traffic.login += session.login;
        traffic.before_attempt += session.requests.iter().position(is_attempt).unwrap_or(all);
        traffic.requests += all - quits;
        traffic.quits += quits;
    }
    traffic
}
