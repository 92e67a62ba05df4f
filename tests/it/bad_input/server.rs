//! Servers that are unreachable, silent or read-only, or that send malformed packets.

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use testkit::cli_runner::{Dlock, eventually};
use testkit::command::Stage;
use testkit::network::{local, resolving};
use testkit::proxy::{Port, Proxy, packet};
use testkit::servers::{Flavour, Server, shared};

use super::{Form, actions, exec, free, refused, set_up};

/// Maximum time that dlock may take to give up. With a ttl of 3 s, dlock makes two attempts of 0.5 s each; the
/// remaining time allows for a busy machine. If dlock had no timeout, it would never give up.
const SOON: Duration = Duration::from_secs(20);

#[test]
fn an_unreachable_server_is_unavailable() {
    let closed = Port::reserve(local(0)).expect("127.0.0.1 has a free port");
    let port = closed.number();
    let stage = Stage::new();
    let socket = stage.path("socket");
    let run = |url: &str| {
        let dlock =
            Dlock::new(["exec", "-a", "init", "--connect-timeout", "0"]).env("DLOCK_URL", url);
        resolving(dlock, "db.test=127.0.0.1")
    };
    refused(
        run("mysql://u:p@unknown.test/d"),
        Form::Line,
        69,
        "cannot resolve unknown.test:3306",
    );
    let refusing = format!("mysql://u:p@127.0.0.1:{port}/d");
    refused(run(&refusing), Form::Line, 69, "Connection refused");
    // dlock retries until the limit.
    let exec = ["exec", "-q", "-a", "init", "--connect-timeout=2s"];
    let limited = Dlock::new(exec).env("DLOCK_URL", &refusing);
    refused(limited, Form::Line, 69, "; gave up after 2s");
    let refusing = format!("mysql://u:p@db.test:{port}/d");
    refused(
        run(&refusing),
        Form::Line,
        69,
        &format!("cannot reach db.test:{port}"),
    );
    let absent = format!("mysql://u:p@localhost/d?socket={}", socket.display());
    refused(run(&absent), Form::Line, 69, "No such file or directory");
    // Leaves the socket file without a listener, like a server that crashed.
    drop(UnixListener::bind(&socket).expect("the folder is writable"));
    refused(run(&absent), Form::Line, 69, "Connection refused");
}

/// Asserts that dlock gives up connecting to `url` within [`SOON`] and prints `why`.
#[track_caller]
fn gives_up_on(url: &str, why: &str) {
    let started = Instant::now();
    let dlock = Dlock::new([
        "exec",
        "-a",
        "init",
        "--ttl",
        "3s",
        "--connect-timeout",
        "0",
    ])
    .env("DLOCK_URL", url);
    refused(resolving(dlock, "stuck.test=never"), Form::Line, 69, why);
    assert!(started.elapsed() < SOON, "after {:?}", started.elapsed());
}

#[test]
fn dlock_gives_up_on_a_silent_server_in_time() {
    // The kernel completes each connection, but no process accepts the connection.
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("127.0.0.1 has a free port");
    let port = tcp.local_addr().expect("the socket is bound").port();
    gives_up_on(
        &format!("mysql://u:p@127.0.0.1:{port}/d"),
        "no response in time",
    );
    gives_up_on(
        &format!("mysql://u:p@127.0.0.1:{port}/d?ssl-mode=required"),
        "no response in time",
    );

    let stage = Stage::new();
    let path = stage.path("socket");
    let _unix = UnixListener::bind(&path).expect("the folder is writable");
    gives_up_on(
        &format!("mysql://u:p@localhost/d?socket={}", path.display()),
        "no response in time",
    );
}

#[test]
fn dlock_limits_the_waits_for_which_the_driver_has_no_timeout() {
    // The name server never responds.
    gives_up_on(
        "mysql://u:p@stuck.test/d?ssl-mode=disabled",
        "gave up after 1s",
    );

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
    gives_up_on(
        &format!("mysql://u:p@localhost/d?socket={}", path.display()),
        "gave up after 1s",
    );

    // The server sends one byte at a time, so that each read returns before its timeout.
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("127.0.0.1 has a free port");
    let port = tcp.local_addr().expect("the socket is bound").port();
    thread::spawn(move || {
        for client in tcp.incoming() {
            let mut client = client.expect("a connection can be accepted");
            thread::spawn(move || {
                // At this rate the greeting of 255 bytes takes longer than dlock waits. The loop ends when dlock exits.
                let greeting = packet(0, &[10; 255]);
                for byte in greeting {
                    if client.write_all(&[byte]).is_err() {
                        return;
                    }
                    thread::sleep(Duration::from_millis(100));
                }
            });
        }
    });
    gives_up_on(
        &format!("mysql://u:p@127.0.0.1:{port}/d"),
        "gave up after 1s",
    );
}

#[test]
fn a_read_only_server_is_reported_as_unavailable_and_read_only() {
    for flavour in Flavour::ALL {
        // Starts a separate server, since read_only is a global setting.
        let server = Server::start(flavour, &[]);
        let database = set_up(&server, "replica");
        free(&database, "known");
        let empty = server.database("empty");
        server
            .admin()
            .query_drop("SET GLOBAL read_only = 1")
            .expect("root has the privilege");
        for (database, action) in [(&database, "known"), (&database, "init"), (&empty, "init")] {
            let why = "is read-only, probably a replica, but dlock needs the primary";
            refused(exec(database, action), Form::Line, 69, why);
        }
        assert_eq!(actions(&database), ["known"], "{flavour}");
        let status = Dlock::on(&database, ["status", "known"]).run();
        assert!(
            status.stdout.contains("free"),
            "{flavour}: status failed on a read-only server: {status:?}"
        );

        // A waiter gets the lock when the server becomes writable.
        let mut root = server.admin();
        let mut connections = || -> u64 {
            let counted = root
                .query_first("SHOW GLOBAL STATUS LIKE 'Connections'")
                .expect("root has the privilege");
            let (_, connections): (String, _) = counted.expect("the variable exists");
            connections
        };
        let before = connections();
        let waiter = Dlock::on(&database, ["exec", "-a", "init", "--", "echo", "ran"]).start();
        // The second connection belongs to the second attempt.
        eventually("the waiter has tried twice", || connections() >= before + 2);
        server
            .admin()
            .query_drop("SET GLOBAL read_only = 0")
            .expect("root has the privilege");
        let outcome = waiter.wait();
        outcome.expect(
            0,
            "ran\n",
            "is read-only, probably a replica, but dlock needs the primary; trying again",
        );
        for (database, action) in [(&database, "known"), (&database, "init"), (&empty, "init")] {
            free(database, action);
        }
    }
}

#[test]
fn a_response_that_makes_the_driver_panic_is_a_failed_attempt() {
    for flavour in Flavour::ALL {
        let server = shared(flavour);
        let database = set_up(server, "panic");
        let connections = AtomicUsize::new(0);
        let proxy = Proxy::tampering(server.port(), move |greeting| {
            // Sends an empty packet as the response to the login. The driver reads the first byte of the packet and
            // panics.
            let empty = match connections.fetch_add(1, Ordering::Relaxed) {
                0 | 1 => packet(2, &[]),
                _ => Vec::new(),
            };
            [greeting, &empty].concat()
        });
        let outcome = Dlock::new(["exec", "-a", "init", "--", "echo", "ran"])
            .env("DLOCK_URL", database.url_through(proxy.port()))
            .run();
        outcome.expect(0, "ran\n", "could not read the server's response");
        assert!(
            !outcome.stderr.contains("internal error"),
            "{flavour}: {outcome:?}"
        );
        assert_eq!(proxy.sessions().len(), 3, "{flavour}: {outcome:?}");
    }
}
