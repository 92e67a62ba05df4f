//! Servers that are unreachable or silent, or that send malformed packets, and accounts that they refuse.

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use testkit::cli_runner::Dlock;
use testkit::command::Stage;
use testkit::network::{local, resolving};
use testkit::proxy::{Flow, Port, Proxy, packet};
use testkit::servers::{Flavour, shared};

use super::{actions, exec, free, refused};
use crate::faults::on_each;

/// Maximum time that dlock may take to give up. With a ttl of 3 s, dlock makes two attempts of 0.5 s each; the
/// remaining time allows for a busy machine. If dlock had no timeout, it would never give up.
const SOON: Duration = Duration::from_secs(20);

#[test]
fn an_unreachable_server_is_unavailable() {
    let closed = Port::reserve(local(0)).expect("127.0.0.1 has a free port");
    let port = closed.number();
    let stage = Stage::new();
    let socket = stage.path("socket");
    let fails = |url: &str, timeout: &str, why: &str| {
        let exec = ["exec", "-q", "-a", "init", "--connect-timeout", timeout];
        let dlock = Dlock::new(exec).env("DLOCK_URL", url);
        refused(resolving(dlock, "db.test=127.0.0.1"), 69, why);
    };
    let unknown = "cannot resolve unknown.test:3306";
    fails("mysql://u:p@unknown.test/d", "0", unknown);
    let refusing = format!("mysql://u:p@127.0.0.1:{port}/d");
    fails(&refusing, "0", "Connection refused");
    // dlock retries until the limit.
    fails(&refusing, "2s", "; gave up after 2s");
    let by_name = format!("mysql://u:p@db.test:{port}/d");
    fails(&by_name, "0", &format!("cannot reach db.test:{port}"));
    let absent = format!("mysql://u:p@localhost/d?socket={}", socket.display());
    fails(&absent, "0", "No such file or directory");
    // Leaves the socket file without a listener, like a server that crashed.
    drop(UnixListener::bind(&socket).expect("the folder is writable"));
    fails(&absent, "0", "Connection refused");
}

/// Asserts that dlock gives up connecting to `url` within [`SOON`] and prints `why`.
#[track_caller]
fn gives_up_on(url: &str, why: &str) {
    let started = Instant::now();
    let exec = ["exec", "-a", "init", "--ttl=3s", "--connect-timeout=0"];
    let dlock = Dlock::new(exec).env("DLOCK_URL", url);
    refused(resolving(dlock, "stuck.test=never"), 69, why);
    assert!(started.elapsed() < SOON, "after {:?}", started.elapsed());
}

#[test]
fn dlock_gives_up_on_a_silent_server_in_time() {
    // The kernel completes each connection, but no process accepts the connection.
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("127.0.0.1 has a free port");
    let port = tcp.local_addr().expect("the socket is bound").port();
    let stage = Stage::new();
    let path = stage.path("socket");
    let _unix = UnixListener::bind(&path).expect("the folder is writable");
    let by_tcp = format!("mysql://u:p@127.0.0.1:{port}/d");
    let by_tls = format!("{by_tcp}?ssl-mode=required");
    let by_socket = format!("mysql://u:p@localhost/d?socket={}", path.display());
    for url in [&by_tcp, &by_tls, &by_socket] {
        gives_up_on(url, "no response in time");
    }
    let no_resolver = "mysql://u@stuck.test/d?ssl-mode=disabled";
    for url in [&by_tcp, no_resolver] {
        for words in [&["exec", "-a", "init", "--", "true"][..], &["wait", "init"]] {
            let dlock = Dlock::new(words).env("DLOCK_URL", url);
            let dlock = dlock.env("DLOCK_OPT_CONNECT_TIMEOUT", "300ms");
            let started = Instant::now();
            let outcome = resolving(dlock, "stuck.test=never").run();
            let took = started.elapsed();
            outcome.expect(69, "", "no response in time; gave up after ");
            // A whole connect would take longer.
            assert!(took < Duration::from_millis(1900), "{took:?}: {outcome:#?}");
        }
    }
}

#[test]
fn dlock_limits_the_waits_for_which_the_driver_has_no_timeout() {
    // The name server never responds.
    let limit = "gave up after 1s";
    gives_up_on("mysql://u:p@stuck.test/d?ssl-mode=disabled", limit);

    // The backlog of the socket is full.
    let stage = Stage::new();
    let path = stage.path("full");
    let address = SocketAddrUnix::new(&path).expect("a short path");
    let unix = |flags| {
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .expect("the system has sockets")
    };
    let listener = unix(SocketFlags::CLOEXEC);
    rustix::net::bind(&listener, &address).expect("the folder is writable");
    rustix::net::listen(&listener, 0).expect("the socket is bound");
    let mut waiting = Vec::new();
    loop {
        let client = unix(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK);
        match rustix::net::connect(&client, &address) {
            Ok(()) => waiting.push(client),
            Err(error) => break assert_eq!(error, rustix::io::Errno::AGAIN),
        }
    }
    let socket = format!("mysql://u:p@localhost/d?socket={}", path.display());
    gives_up_on(&socket, limit);

    // The server sends one byte at a time, so that each read returns before its timeout.
    let proxy = Proxy::to(shared(Flavour::of_this_test()).port());
    // At this rate the greeting takes longer than dlock waits.
    proxy.responses(Flow::Drip(Duration::from_millis(100)));
    gives_up_on(&format!("mysql://u:p@127.0.0.1:{}/d", proxy.port()), limit);
}

#[test]
fn a_response_that_makes_the_driver_panic_is_a_failed_attempt() {
    let database = shared(Flavour::of_this_test()).set_up("panic");
    let connections = AtomicUsize::new(0);
    let proxy = Proxy::tampering(database.port, move |greeting| {
        // Sends an empty packet as the response to the login. The driver reads the first byte of the packet and panics.
        let empty = match connections.fetch_add(1, Ordering::Relaxed) {
            0 | 1 => packet(2, &[]),
            _ => Vec::new(),
        };
        [greeting, &empty].concat()
    });
    let exec = ["exec", "-a", "init", "--", "echo", "ran"];
    let outcome = Dlock::through(&database, proxy.port(), exec).run();
    outcome.expect(0, "ran\n", "could not read the server's response");
    assert!(!outcome.stderr.contains("internal error"), "{outcome:?}");
    assert_eq!(proxy.sessions().len(), 3, "{outcome:?}");
}

#[test]
fn an_account_that_may_not_use_the_tables_is_denied_and_an_unknown_database_is_reported() {
    on_each(|flavour| {
        let database = shared(flavour).set_up("denied");
        let run = || exec(&database, "init");
        refused(run().env("DLOCK_PASSWORD", "wrong"), 77, "Access denied");
        // For an unknown account, MySQL requests the password with a randomly chosen authentication plugin.
        refused(run().env("DLOCK_USER", "nobody"), 77, "nobody");
        // dlock does not retry a denied login, regardless of --connect-timeout.
        let patient = Dlock::on(&database, ["exec", "-a", "init", "--connect-timeout=1h"]);
        let patient = patient.env("DLOCK_PASSWORD", "wrong");
        refused(patient, 77, "check the account");
        // If the account has no privileges on the database, dlock prints the server's message.
        let other = run().arg("--database=mysql");
        refused(other, 77, "to database 'mysql'");
        assert_eq!(actions(&database), [""; 0], "{flavour}");
        free(&database, "init");
        let absent = format!("{}_absent", database.name);
        database.grant(&format!("ALL ON `{absent}`.*"));
        let why = format!("create it (CREATE DATABASE {absent}) or specify another");
        refused(run().arg("--database").arg(&absent), 78, &why);
    });
}
