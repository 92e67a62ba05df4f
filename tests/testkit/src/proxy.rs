//! A TCP proxy between dlock and the server. The proxy parses the MySQL protocol, records requests and injects network
//! and middlebox faults.
//!
//! ```text
//! let proxy = Proxy::to(server.port());                    // dlock connects to proxy.port()
//! let case = proxy.next(Kind::Renew, Fault::LoseResponse); // loses the response to the next renewal
//! case.wait();                                             // waits until the fault is injected
//! proxy.both(Flow::Hold);                                  // current and new connections
//! proxy.door(AcceptMode::Silent);                          // new connections
//! ```
//!
//! The proxy injects a fault into a response only after it has received the last packet of the response. At this point,
//! the server has executed the whole request. The proxy cannot parse encrypted requests and responses. With TLS, only
//! the methods that set the flow, set the handling of new connections or end connections work. Each proxy has one
//! thread that accepts connections and ends with the test process. Each connection has two threads, which end with the
//! connection.

mod carry;
mod port;
mod state;
pub mod wire;

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread;
use std::time::Duration;

pub use port::Port;
use state::{Injection, Shared, State};
pub use wire::{Kind, Request, error_packet, packet};

/// Maximum time that a method such as [`Case::wait`] waits before it panics.
const PATIENCE: Duration = Duration::from_mins(1);

/// A fault that affects one request or the response to this request.
#[derive(Clone)]
pub enum Fault {
    /// The proxy drops the request. The connection stays open and silent.
    LoseRequest,
    /// The proxy holds the request until [`Case::let_go`] and then delivers it, even if the client has disconnected.
    HoldRequest,
    /// The server executes the request, and the proxy drops the response. The connection stays open and silent.
    LoseResponse,
    /// The server executes the request, and the proxy holds the response until [`Case::let_go`].
    HoldResponse,
    /// The proxy drops the request. Both sides get an RST.
    Reset,
    /// The server executes the request. Then both sides get an RST.
    ResetAfter,
    /// The server executes the request. The client gets this number of bytes of the response and then the end of the
    /// stream.
    Truncate(usize),
    /// The server executes the request. The client gets the response byte by byte, with this pause after each byte.
    Drip(Duration),
    /// The proxy drops the request. The client gets these bytes as the response, and the connection stays open.
    Respond(Vec<u8>),
    /// The server executes the request. The client gets these bytes instead of the response, and the connection stays
    /// open.
    RespondAfter(Vec<u8>),
    /// The server executes the request. The client gets the output of this function instead of the response.
    Alter(Alter),
}

/// A function that returns a changed copy of a response.
pub type Alter = Arc<dyn Fn(&[u8]) -> Vec<u8> + Send + Sync>;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    #[default]
    Pass,
    /// The proxy holds packets until the flow changes and then delivers them, as if a network cable had been unplugged
    /// and plugged in again.
    Hold,
    /// The proxy drops packets. It holds an end of the stream until the flow changes.
    Lose,
    /// The proxy delivers packets byte by byte, with this pause after each byte.
    Drip(Duration),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AcceptMode {
    #[default]
    Open,
    Silent,
    Reset,
    /// The proxy accepts connections, and refuses them as a server does that has no free connection.
    Full,
    Refused,
}

#[derive(Clone, Debug, Default)]
pub struct Session {
    /// The number of packets that the client sent to log in.
    pub login: usize,
    /// True if the client requested TLS. The proxy cannot read the packets that follow.
    pub is_encrypted: bool,
    pub requests: Vec<Request>,
    is_over: bool,
}

/// A handle to a running proxy. All clones control the same proxy.
#[derive(Clone)]
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
}

/// A handle to a fault from [`Proxy::next`] or [`Proxy::every`].
#[derive(Clone)]
pub struct Case {
    shared: Arc<Shared>,
    number: usize,
}

impl Proxy {
    /// Starts a proxy on a free port of 127.0.0.1. The proxy connects to the server on `port` of 127.0.0.1.
    #[track_caller]
    pub fn to(port: u16) -> Self {
        Self::at(local(0), port).expect("127.0.0.1 has a free port")
    }

    /// Starts a proxy at `address`. The proxy connects to the server on `port` of 127.0.0.1.
    ///
    /// # Errors
    /// Fails if `address` cannot be bound, for example because it is not an address of this machine.
    pub fn at(address: SocketAddr, port: u16) -> io::Result<Self> {
        let own = Port::reserve(address)?;
        let (address, listener) = (own.address(), own.listen()?);
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                target: port,
                is_listening: true,
                keeps_texts: true,
                ..State::default()
            }),
            changed: Condvar::new(),
        });
        let thread_shared = Arc::clone(&shared);
        thread::spawn(move || carry::accept(&thread_shared, &own, listener));
        Ok(Self { shared, address })
    }

    /// Starts a proxy that replaces the server's greeting with the output of `tamper`, and sends this output in one
    /// write.
    #[track_caller]
    pub fn tampering(port: u16, tamper: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let proxy = Self::to(port);
        proxy.shared.locked().greeting = Some(Arc::new(tamper));
        proxy
    }

    /// Starts a proxy that replaces `original` with `replacement` in every query. Both strings must have the same
    /// length, because the proxy does not change packet headers.
    #[track_caller]
    pub fn rewriting(port: u16, original: &'static str, replacement: &'static str) -> Self {
        let proxy = Self::to(port);
        proxy.rewrite(original, replacement);
        proxy
    }

    /// Replaces `original` with `replacement` in every later query. Both strings must have the same length.
    #[track_caller]
    pub fn rewrite(&self, original: &'static str, replacement: &'static str) {
        let [old, new] = [original, replacement].map(str::len);
        assert_eq!(old, new, "the strings have different lengths");
        self.shared.locked().rewrite = Some((original, replacement));
    }

    /// Deletes the recorded requests and stops recording. In a long run, the recorded requests would use too much
    /// memory.
    pub fn forget_requests(&self) {
        self.shared.change(|state| {
            state.keeps_texts = false;
            for session in &mut state.sessions {
                session.requests.clear();
            }
        });
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Injects `fault` into the next request of this kind. Several faults for one kind apply in the order of the calls.
    pub fn next(&self, kind: Kind, fault: Fault) -> Case {
        self.inject_into(kind, fault, 1)
    }

    /// Injects `fault` into every request of this kind until [`Case::lift`].
    pub fn every(&self, kind: Kind, fault: Fault) -> Case {
        self.inject_into(kind, fault, usize::MAX)
    }

    fn inject_into(&self, kind: Kind, fault: Fault, left: usize) -> Case {
        let mut state = self.shared.locked();
        state.injections.push(Injection {
            kind,
            fault,
            left,
            hits: 0,
            may_go: false,
            response: Vec::new(),
        });
        Case {
            shared: Arc::clone(&self.shared),
            number: state.injections.len() - 1,
        }
    }

    pub fn requests(&self, flow: Flow) {
        self.shared.change(|state| state.requests = flow);
    }

    pub fn responses(&self, flow: Flow) {
        self.shared.change(|state| state.responses = flow);
    }

    pub fn both(&self, flow: Flow) {
        self.shared
            .change(|state| (state.requests, state.responses) = (flow, flow));
    }

    /// Sets the handling of new connections. The setting is in effect when this method returns.
    pub fn door(&self, door: AcceptMode) {
        self.shared.change(|state| state.door = door);
        if door == AcceptMode::Refused {
            // This connection wakes the accepting thread, which must stop listening. The connection fails if the thread
            // has already stopped listening.
            let _ = TcpStream::connect(self.address);
        }
        let listens = door != AcceptMode::Refused;
        self.shared
            .until("the door changes", |state| state.is_listening == listens);
    }

    pub fn retarget(&self, port: u16) {
        self.shared.change(|state| state.target = port);
    }

    /// Ends the current connections with an RST to both sides.
    pub fn reset(&self) {
        self.end(true);
    }

    /// Ends the current connections with a FIN to both sides.
    pub fn close(&self) {
        self.end(false);
    }

    fn end(&self, by_reset: bool) {
        self.shared.change(|state| {
            for socket in state.silent.drain(..) {
                carry::abandon(&socket, by_reset);
            }
            for connection in state.connections.drain(..) {
                if let Some(connection) = connection.upgrade() {
                    connection.end(by_reset);
                }
            }
        });
    }

    /// Sends `bytes` to all current clients, as if from the server.
    pub fn inject(&self, bytes: &[u8]) {
        let connections = self.shared.locked().connections.clone();
        for connection in connections.iter().filter_map(Weak::upgrade) {
            // The write fails if the client has disconnected.
            let _ = (&connection.client).write_all(bytes);
        }
    }

    /// Returns the number of requests of this kind that clients have sent.
    pub fn asked(&self, kind: Kind) -> usize {
        self.shared.locked().asked(kind)
    }

    /// Returns the number of requests of all kinds that clients have sent.
    pub fn asked_in_all(&self) -> usize {
        self.shared.locked().asked.values().sum()
    }

    /// Waits until clients have sent `count` requests of this kind since the proxy was started.
    #[track_caller]
    pub fn wait_asked(&self, kind: Kind, count: usize) {
        self.shared.until("enough requests are sent", |state| {
            state.asked(kind) >= count
        });
    }

    /// Waits until clients have sent `count` more requests of this kind.
    #[track_caller]
    pub fn wait_more(&self, kind: Kind, count: usize) {
        self.wait_asked(kind, self.asked(kind) + count);
    }

    pub fn connections(&self) -> usize {
        self.shared.locked().sessions.len()
    }

    #[track_caller]
    pub fn wait_connections(&self, count: usize) {
        self.shared.until("enough clients connect", |state| {
            state.sessions.len() >= count
        });
    }

    /// Waits until all connections have ended, and returns their sessions.
    #[track_caller]
    pub fn sessions(&self) -> Vec<Session> {
        self.wait_ends();
        self.shared.locked().sessions.clone()
    }

    /// Waits until all connections have ended, and returns the only query. Panics unless the client has sent this query and
    /// then ended its only session with QUIT.
    #[track_caller]
    pub fn only_query(&self) -> String {
        let sessions = self.sessions();
        let [session] = sessions.as_slice() else {
            panic!("not one session: {sessions:?}");
        };
        let [Request::Query(query), Request::Quit] = session.requests.as_slice() else {
            panic!("not one query: {session:?}");
        };
        query.clone()
    }

    /// Waits until all connections have ended, so that a later fault cannot affect their requests.
    #[track_caller]
    pub fn wait_ends(&self) {
        let is_over = |state: &State| state.sessions.iter().all(|session| session.is_over);
        self.shared.until("all connections end", is_over);
    }
}

impl Case {
    /// Waits until the fault is injected. If the fault neither drops nor holds the request, the server has then
    /// executed the request.
    #[track_caller]
    pub fn wait(&self) {
        self.wait_for(1);
    }

    #[track_caller]
    pub fn wait_for(&self, hits: usize) {
        self.shared.until("the fault is injected", |state| {
            state.injections[self.number].hits >= hits
        });
    }

    pub fn hits(&self) -> usize {
        self.shared.locked().injections[self.number].hits
    }

    /// Returns the server's response to the most recent request that the fault affected.
    pub fn response(&self) -> Vec<u8> {
        let state = self.shared.locked();
        state.injections[self.number].response.clone()
    }

    /// Delivers the held packet. From now on, this fault holds no packet.
    pub fn let_go(&self) {
        self.shared
            .change(|state| state.injections[self.number].may_go = true);
    }

    /// Stops injecting the fault into later requests.
    pub fn lift(&self) {
        self.shared
            .change(|state| state.injections[self.number].left = 0);
    }
}

pub fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}
