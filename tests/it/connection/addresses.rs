//! Host names with several addresses. dlock tries every IPv4 and IPv6 address.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use testkit::cli_runner::Dlock;
use testkit::network::{local, resolving};
use testkit::proxy::{Port, Proxy};
use testkit::servers::{Flavour, shared};

use super::{all_reach, bare};

#[test]
fn every_address_of_a_host_name_is_tried_also_of_an_ipv6_only_server() {
    // A connection to ::1 fails in this test even if the machine has IPv6.
    const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
    let database = shared(Flavour::of_this_test()).database("addresses");
    let through = |dlock: Dlock, port: u16, addresses: &str| {
        let url = database.url_at(&format!("db.test:{port}"));
        let dlock = dlock.env("DLOCK_URL", format!("{url}?ssl-mode=disabled"));
        resolving(dlock, &format!("db.test={addresses}"))
    };
    // The server listens only on 127.0.0.1. At the port of the proxy, the server is reachable only on 127.0.0.2.
    let (_closed, port) = closed_port();
    let here = SocketAddr::new(IpAddr::V4(OTHER), port);
    let _proxy = Proxy::at(here, database.port).expect("127.0.0.0/8 is loopback");
    let runs = [
        ("the second family", database.port, "::1,127.0.0.1"),
        ("the first family", database.port, "127.0.0.1,::1"),
        ("its second address", port, "127.0.0.1,127.0.0.2"),
        ("the second of IPv4", port, "::1,127.0.0.1,127.0.0.2"),
    ];
    let run = |(name, port, addresses)| (name, through(bare(), port, addresses));
    all_reach(&database, runs.map(run));

    // dlock prints the error of the connection attempt, not the error that the driver gets when it connects
    // across address families.
    let (_closed, port) = closed_port();
    for addresses in ["127.0.0.1,::1", "::1,127.0.0.1"] {
        let exec = Dlock::new(["exec", "none", "--connect-timeout=0", "--", "true"]);
        let outcome = through(exec, port, addresses).run();
        outcome.expect(69, "", &format!("cannot reach db.test:{port}: "));
        for noise in ["Invalid argument", "Address family not supported"] {
            assert!(!outcome.stderr.contains(noise), "{outcome:?}");
        }
    }

    // A server that listens only on IPv6.
    let (_closed, port) = closed_port();
    let here = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), port);
    let database = shared(Flavour::of_this_test()).database("ipv6");
    let Ok(_proxy) = Proxy::at(here, database.port) else {
        // On a machine without ::1 this part checks nothing. On another machine the proxy must be able to bind to it.
        let addresses = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
        let own = format!("{:0>32} 01", 1);
        assert!(!addresses.starts_with(&own), "{addresses}");
        return;
    };
    let at = |host: &str| {
        let url = database.url_at(&format!("{host}:{port}"));
        // On a busy machine, dlock would print that it cannot end sessions behind the proxy.
        let dlock = bare().args(["--server-sessions", "ignore"]);
        resolving(dlock.env("DLOCK_URL", url), "localhost=127.0.0.1,::1")
    };
    let runs = [("address", at("[::1]")), ("name", at("localhost"))];
    all_reach(&database, runs);
}

/// Reserves a port on which no program listens on 127.0.0.1. A port that is chosen elsewhere may already belong to a proxy
/// of another test, and all reservations of this process can share a port.
fn closed_port() -> (Port, u16) {
    let port = Port::reserve(local(0)).expect("127.0.0.1 has a free port");
    let number = port.number();
    (port, number)
}
