//! Counts the packets of a client on their way to its server: a TCP relay that knows where packets begin.
//!
//! A packet of the protocol is three bytes of length, one sequence number, and the payload. A command is the packet
//! with which the numbering begins anew, and its first byte says which; what the client sends before its first command
//! is the login. TLS would hide all this, so the client must not use it.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope};

const COM_QUIT: u8 = 1;

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

impl Traffic {
    fn count(&mut self, sequence: u8, payload: &[u8]) {
        match (sequence, payload.first()) {
            (0, Some(&COM_QUIT)) => self.quits += 1,
            (0, _) => {
                let attempts = payload
                    .windows(18)
                    .any(|part| part == b"UPDATE dlock_lock ");
                if self.requests == self.before_attempt && !attempts {
                    self.before_attempt += 1;
                }
                self.requests += 1;
            }
            _ => self.login += 1,
        }
    }

    fn add(&mut self, connection: &Self) {
        self.connections += 1;
        self.login += connection.login;
        self.before_attempt += connection.before_attempt;
        self.requests += connection.requests;
        self.quits += connection.quits;
    }
}

/// Runs the client that `client` makes for the port of a relay to the port `server`, and counts what it sends.
pub(crate) fn traffic(server: u16, client: impl FnOnce(u16) -> Command) -> Traffic {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("a bound port").port();
    let mut client = client(port);
    let (listener, over) = (&listener, &AtomicBool::new(false));
    thread::scope(|scope| {
        let relay = scope.spawn(move || {
            let mut connections = Vec::new();
            for connection in listener.incoming() {
                let connection = connection.expect("a connection");
                if over.load(Ordering::SeqCst) {
                    break;
                }
                connections.push(scope.spawn(move || carry(scope, &connection, server)));
            }
            let mut traffic = Traffic::default();
            for connection in connections {
                traffic.add(&connection.join().expect("the relay does not panic"));
            }
            traffic
        });
        let status = client.status();
        // Nothing may fail before the relay knows, or the scope would wait for it for ever.
        over.store(true, Ordering::SeqCst);
        // Wakes the relay up, which then sees that it is over.
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the relay listens");
        let traffic = relay.join().expect("the relay does not panic");
        let status = status.expect("the client runs");
        assert!(status.success(), "the client: {status}");
        traffic
    })
}

/// Carries one connection to its end.
fn carry<'scope>(scope: &'scope Scope<'scope, '_>, client: &TcpStream, server: u16) -> Traffic {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).expect("the server listens");
    for socket in [client, &server] {
        socket.set_nodelay(true).expect("a TCP socket");
    }
    let [mut from, mut to] = [&server, client].map(|socket| socket.try_clone().expect("a socket"));
    let answers = scope.spawn(move || io::copy(&mut from, &mut to));
    let mut traffic = Traffic::default();
    // Both ends may go away as they please: that is how a connection ends.
    while let Ok((header, payload)) = packet(client) {
        traffic.count(header[3], &payload);
        if (&server)
            .write_all(&[&header[..], &payload].concat())
            .is_err()
        {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Write);
    let _ = answers.join();
    traffic
}

fn packet(mut client: &TcpStream) -> io::Result<([u8; 4], Vec<u8>)> {
    let mut header = [0; 4];
    client.read_exact(&mut header)?;
    let length = u32::from_le_bytes([header[0], header[1], header[2], 0]);
    let mut payload = vec![0; usize::try_from(length).expect("a length of 24 bits")];
    client.read_exact(&mut payload)?;
    Ok((header, payload))
}
