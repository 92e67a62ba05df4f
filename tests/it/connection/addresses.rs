//! Host names with several addresses. dlock tries every IPv4 and IPv6 address.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use testkit::network::{local, resolving};
use testkit::proxy::{Port, Proxy};
use testkit::servers::{Database, Flavour, shared};

use super::{all_reach, bare};

#[test]
fn every_address_of_a_host_name_is_tried() {
    // A connection to ::1 fails in this test even if the machine has IPv6.
    const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
    for flavour in Flavour::ALL {
        let server = shared(flavour);
        let database = server.database("addresses");
        let Database {
            name,
            user,
            password,
            ..
        } = &database;
        let through = |port: u16, addresses: &str| {
            let url = format!("mysql://{user}:{password}@db.test:{port}/{name}?ssl-mode=disabled");
            resolving(
                bare().env("DLOCK_URL", url),
                &format!("db.test={addresses}"),
            )
        };
        // The server listens only on 127.0.0.1. At the port of the proxy, the server is reachable only on 127.0.0.2.
        let proxy = Proxy::at(SocketAddr::new(IpAddr::V4(OTHER), 0), server.port())
            .expect("127.0.0.0/8 is loopback");
        let _closed = Port::reserve(local(proxy.port())).expect("the port is free on 127.0.0.1");
        let runs = [
            ("the second family", through(server.port(), "::1,127.0.0.1")),
            ("the first family", through(server.port(), "127.0.0.1,::1")),
            (
                "the second address of a family",
                through(proxy.port(), "127.0.0.1,127.0.0.2"),
            ),
            (
                "the second address of the second family",
                through(proxy.port(), "::1,127.0.0.1,127.0.0.2"),
            ),
        ];
        all_reach(&database, flavour, runs);

        // dlock prints the error of the connection attempt, not the error that the driver gets when it connects
        // across address families.
        let closed = Port::reserve(local(0)).expect("127.0.0.1 has a free port");
        let port = closed.number();
        for addresses in ["127.0.0.1,::1", "::1,127.0.0.1"] {
            let outcome = through(port, addresses)
                .env("DLOCK_OPT_ACTION", "none")
                .arg("--")
                .arg("true")
                .run();
            outcome.expect(69, "", &format!("cannot reach db.test:{port}: "));
            for noise in ["Invalid argument", "Address family not supported"] {
                assert!(!outcome.stderr.contains(noise), "{flavour}: {outcome:?}");
            }
        }
    }
}

#[test]
fn an_ipv6_only_server_is_reached_by_name_and_by_address() {
    let here = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 0);
    for flavour in Flavour::ALL {
        let server = shared(flavour);
        let Ok(proxy) = Proxy::at(here, server.port()) else {
            // On a machine without ::1 this test checks nothing. On a machine with ::1 the proxy must be able to bind
            // to this address.
            let addresses = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
            assert!(
                !addresses.starts_with(&format!("{:0>32} 01", 1)),
                "{addresses}"
            );
            return;
        };
        let _closed = Port::reserve(local(proxy.port())).expect("the port is free on 127.0.0.1");
        let database = server.database("ipv6");
        let Database {
            name,
            user,
            password,
            ..
        } = &database;
        let at = |host: &str| {
            let url = format!("mysql://{user}:{password}@{host}:{}/{name}", proxy.port());
            // On a busy machine, dlock would print that it cannot end sessions behind the proxy.
            let dlock = bare().args(["--server-sessions", "ignore"]);
            resolving(dlock.env("DLOCK_URL", url), "localhost=127.0.0.1,::1")
        };
        all_reach(
            &database,
            flavour,
            [("address", at("[::1]")), ("name", at("localhost"))],
        );
    }
}
