//! Counts the packets of a client on their way to its server, by the proxy of the tests.
//!
//! TLS would hide all this, so the client must not use it.

use std::process::Command;

use crate::proxy::{Kind, Proxy, Request};

/// What a client sent.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) connections: usize,
    /// Packets up to the end of the login.
    pub(crate) login: usize,
    /// Commands before the first that attempts to take the lock.
    pub(crate) before_attempt: usize,
    /// Commands that are answered.
    pub(crate) requests: usize,
    /// Farewells, which are not.
    pub(crate) quits: usize,
}

/// Runs the client that `client` makes for the port of a proxy to the port `server`, and counts what it sends.
pub(crate) fn traffic(server: u16, client: impl FnOnce(u16) -> Command) -> Traffic {
    let proxy = Proxy::to(server);
    let status = client(proxy.port()).status().expect("the client runs");
    assert!(status.success(), "the client: {status}");
    let mut traffic = Traffic::default();
    for session in proxy.sessions() {
        let is_attempt = |request: &Request| request.kind() == Some(Kind::Attempt);
        let quits = |request: &&Request| **request == Request::Quit;
        let all = session.requests.len();
        let farewells = session.requests.iter().filter(quits).count();
        traffic.connections += 1;
        traffic.login += session.login;
        traffic.before_attempt += session.requests.iter().position(is_attempt).unwrap_or(all);
        traffic.requests += all - farewells;
        traffic.quits += farewells;
    }
    traffic
}
