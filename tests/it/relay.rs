//! What stands between dlock and its server: a relay that keeps a record and may tamper, a server that only says no,
//! and a resolver that knows the names of one test.
//!
//! Knows as much of the MySQL protocol as that takes: packets, and that a request has the sequence number 0, which in
//! a login only the server's greeting has. Each relay has a thread that accepts and two threads a connection; they
//! end with the test process.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::{fs, process};

use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};

use crate::dlock::{Dlock, eventually};

/// Turns the server's greeting into what the client gets to read before anything else.
type Tamper = dyn Fn(&[u8]) -> Vec<u8> + Send + Sync;

/// A TCP relay to a server on 127.0.0.1.
pub(crate) struct Relay {
    port: u16,
    sessions: Arc<Mutex<Vec<Session>>>,
}

/// What a client sent in one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Session {
    /// Packets of the login.
    pub(crate) login: usize,
    /// Whether the client asked for TLS; nothing that follows can be read then.
    pub(crate) is_encrypted: bool,
    pub(crate) requests: Vec<Request>,
    is_over: bool,
}

/// A packet that the server has to act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Query(String),
    Quit,
    /// Any other, by its number.
    Other(u8),
}

impl Relay {
    /// A relay on 127.0.0.1 to `port`.
    #[track_caller]
    pub(crate) fn to(port: u16) -> Self {
        Self::start(local(0), port, <[u8]>::to_vec).expect("127.0.0.1 has a port")
    }

    /// The same, at an address of this machine that may be missing.
    pub(crate) fn at(address: SocketAddr, port: u16) -> io::Result<Self> {
        Self::start(address, port, <[u8]>::to_vec)
    }

    /// A relay on 127.0.0.1 to `port` that sends `tamper(greeting)` for the server's first packet, in one write.
    #[track_caller]
    pub(crate) fn tampering(
        port: u16,
        tamper: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        Self::start(local(0), port, tamper).expect("127.0.0.1 has a port")
    }

    fn start(
        address: SocketAddr,
        port: u16,
        tamper: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let relay = Self {
            port: listener.local_addr()?.port(),
            sessions: Arc::default(),
        };
        let sessions = Arc::clone(&relay.sessions);
        let tamper: Arc<Tamper> = Arc::new(tamper);
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.expect("a connection can be accepted");
                let number = {
                    let mut sessions = locked(&sessions);
                    sessions.push(Session::default());
                    sessions.len() - 1
                };
                let server = TcpStream::connect(local(port)).expect("the server listens");
                serve(client, server, &tamper, &sessions, number);
            }
        });
        Ok(relay)
    }

    /// The port that the relay listens on.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// All connections so far, each to its end, which must come.
    #[track_caller]
    pub(crate) fn sessions(&self) -> Vec<Session> {
        eventually("all relayed connections end", || {
            locked(&self.sessions).iter().all(|session| session.is_over)
        });
        locked(&self.sessions).clone()
    }
}

impl Session {
    /// Takes the whole packets out of `pending`.
    fn take_in(&mut self, pending: &mut Vec<u8>) {
        while let (false, [low, middle, high, number, ..]) = (self.is_encrypted, &pending[..]) {
            let end =
                4 + usize::from(*low) + (usize::from(*middle) << 8) + (usize::from(*high) << 16);
            let number = *number;
            let Some(payload) = pending.get(4..end) else {
                return;
            };
            match (number, payload) {
                (0, [1]) => self.requests.push(Request::Quit),
                (0, [3, text @ ..]) => self
                    .requests
                    .push(Request::Query(String::from_utf8_lossy(text).into_owned())),
                (0, other) => self
                    .requests
                    .push(Request::Other(other.first().copied().unwrap_or(u8::MAX))),
                // A login that is cut off after its fixed part asks for TLS.
                (1, login) if login.len() == 32 => self.is_encrypted = true,
                _ => self.login += 1,
            }
            pending.drain(..end);
        }
    }
}

/// Starts the two threads of a connection.
fn serve(
    client: TcpStream,
    server: TcpStream,
    tamper: &Arc<Tamper>,
    sessions: &Arc<Mutex<Vec<Session>>>,
    number: usize,
) {
    let [to_client, to_server] = [&client, &server].map(|stream| {
        stream.set_nodelay(true).expect("a TCP socket");
        stream.try_clone().expect("a socket can be duplicated")
    });
    let tamper = Arc::clone(tamper);
    thread::spawn(move || {
        // That one side closes or resets the connection is what the other gets to see; no more to do about it.
        let _ = replies(server, to_client, &*tamper);
    });
    let sessions = Arc::clone(sessions);
    thread::spawn(move || {
        let _ = requests(client, to_server, &sessions, number);
        locked(&sessions)[number].is_over = true;
    });
}

fn replies(mut server: TcpStream, mut client: TcpStream, tamper: &Tamper) -> io::Result<()> {
    let mut greeting = vec![0; 4];
    server.read_exact(&mut greeting)?;
    let length = u32::from_le_bytes([greeting[0], greeting[1], greeting[2], 0]);
    io::Read::by_ref(&mut server)
        .take(u64::from(length))
        .read_to_end(&mut greeting)?;
    client.write_all(&tamper(&greeting))?;
    io::copy(&mut server, &mut client)?;
    client.shutdown(Shutdown::Write)
}

fn requests(
    mut client: TcpStream,
    mut server: TcpStream,
    sessions: &Mutex<Vec<Session>>,
    number: usize,
) -> io::Result<()> {
    let mut pending = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let length = match client.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            outcome => outcome?,
        };
        if length == 0 {
            return server.shutdown(Shutdown::Write);
        }
        pending.extend_from_slice(&buffer[..length]);
        locked(sessions)[number].take_in(&mut pending);
        server.write_all(&buffer[..length])?;
    }
}

/// A packet of the protocol.
pub(crate) fn packet(number: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a small packet");
    let mut packet = length.to_le_bytes()[..3].to_vec();
    packet.push(number);
    packet.extend_from_slice(payload);
    packet
}

/// The port of a server that answers every connection with the error `code` and `text`.
#[track_caller]
pub(crate) fn refusing(code: u16, text: &str) -> u16 {
    let listener = TcpListener::bind(local(0)).expect("127.0.0.1 has a port");
    let port = listener.local_addr().expect("it is bound").port();
    let mut payload = vec![0xff];
    payload.extend_from_slice(&code.to_le_bytes());
    payload.extend_from_slice(text.as_bytes());
    let answer = packet(0, &payload);
    thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.expect("a connection can be accepted");
            // Who hangs up does not get an answer.
            let _ = client.write_all(&answer);
            let _ = client.shutdown(Shutdown::Write);
            let _ = io::copy(&mut client, &mut io::sink());
        }
    });
    port
}

/// Sees to it that nobody listens at `address` for as long as the socket lives; a port 0 becomes a free one.
pub(crate) fn deaf(address: SocketAddr) -> io::Result<(OwnedFd, u16)> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    // Bound and never listening: the kernel refuses who connects, and lets nobody else have the port.
    let socket = socket(family, SocketType::STREAM, None)?;
    bind(&socket, &address)?;
    let bound = SocketAddr::try_from(getsockname(&socket)?)?;
    Ok((socket, bound.port()))
}

/// `dlock` where `names`, such as `db.test=::1,127.0.0.1;stuck.test=never`, are all that can be resolved. No name of the
/// machine or the network resolves the same everywhere; these do.
#[track_caller]
pub(crate) fn resolving(dlock: Dlock, names: &str) -> Dlock {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    dlock
        .env("LD_PRELOAD", LIBRARY.get_or_init(build_resolver))
        .env("TEST_NAMES", names)
}

/// Goes before the C library's resolver. Addresses are still its own business.
const RESOLVER: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int resolver(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    resolver *resolve = (resolver *)dlsym(RTLD_NEXT, "getaddrinfo");
    struct addrinfo numeric = {0};
    numeric.ai_flags = AI_NUMERICHOST;
    if (!name || resolve(name, NULL, &numeric, found) == 0) return resolve(name, service, hints, found);

    char *names = strdup(getenv("TEST_NAMES")), *next_name = names, *entry;
    while ((entry = strsep(&next_name, ";"))) {
        char *addresses = entry, *address;
        if (strcmp(strsep(&addresses, "="), name)) continue;
        if (strcmp(addresses, "never") == 0) for (;;) pause();
        while ((address = strsep(&addresses, ","))) {
            int failed = resolve(address, service, hints, found);
            if (failed) return failed;
            while (*found) found = &(*found)->ai_next;
        }
        free(names);
        return 0;
    }
    free(names);
    return EAI_NONAME;
}
"#;

/// Compiles [`RESOLVER`]. The compiler is there: dlock's TLS library could not have been built without it.
fn build_resolver() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let library = folder.join("resolver.so");
    let unfinished = folder.join(format!("resolver-{}.so", process::id()));
    let mut compiler = Command::new("cc")
        .args(["-shared", "-fPIC", "-x", "c", "-", "-o"])
        .arg(&unfinished)
        .stdin(process::Stdio::piped())
        .spawn()
        .expect("cc, the C compiler, is installed");
    let mut stdin = compiler.stdin.take().expect("stdin is a pipe");
    stdin.write_all(RESOLVER.as_bytes()).expect("cc reads it");
    drop(stdin);
    assert!(compiler.wait().expect("cc runs").success(), "cc failed");
    // Whole or not at all, whoever else runs these tests.
    fs::rename(&unfinished, &library).expect("the folder is writable");
    library
}

/// 127.0.0.1 and `port`.
pub(crate) fn local(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
