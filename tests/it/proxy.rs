//! A TCP proxy between dlock and its server. It knows the protocol, records requests and injects the faults of networks
//! and middleboxes.
//!
//! ```text
//! let proxy = Proxy::to(server.port());              // dlock connects to proxy.port()
//! let case = proxy.next(Kind::Renew, Fault::LoseResponse); // the next renewal is delivered, its response is not
//! let all = proxy.every(Kind::Release, Fault::Reset);   // every release from now on
//! case.wait();                                       // returns when the fault was hit
//! let bytes = case.response();                          // the server's response
//! all.lift();                                        // ends the fault
//!
//! let error = error_packet(1205, "Lock wait timeout exceeded");
//! proxy.next(Kind::TryAcquire, Fault::Respond(error.clone()));   // not delivered, and the client gets this error
//! proxy.next(Kind::TryAcquire, Fault::RespondAfter(error));      // delivered and done, and the client gets this error
//!
//! let late = proxy.next(Kind::TryAcquire, Fault::HoldRequest);  // also HoldResponse
//! late.wait(); late.let_go();                        // delivered late, even if the client has hung up
//!
//! proxy.requests(Flow::Hold); proxy.responses(Flow::Lose); proxy.both(Flow::Pass);  // all connections, also new ones
//! proxy.door(Door::Silent);                          // new connections: Open, Silent, Reset, Refused
//! proxy.retarget(other_port);                        // the target of new connections
//! proxy.reset(); proxy.close();                      // ends current connections by RST or FIN
//! proxy.inject(&bytes);                              // sends bytes to current clients
//! proxy.asked(Kind::Renew); proxy.connections();     // counts so far, including lost and held requests
//! proxy.wait_asked(Kind::Renew, 3); proxy.wait_connections(2);  // waits for a count
//! proxy.forget_requests();                           // stops recording request texts, for long runs
//! proxy.sessions();                                  // all requests, when every connection has ended
//! ```
//!
//! A response ends with its last packet, so "delivered" means that the server has executed the whole request. The proxy
//! can parse requests and responses only without TLS; with TLS, flows and doors still work. Each proxy has one thread
//! that accepts connections, which ends with the test process, and two threads for each connection, which end with the
//! connection. The proxy depends only on `std` and `rustix` and on no other part of these tests. Another target can
//! include it with `#[path = "../it/proxy.rs"] mod proxy;`.

#![allow(
    dead_code,
    unused_imports,
    reason = "several targets include this file, and none uses all of it"
)]

#[path = "proxy/carry.rs"]
mod carry;
#[path = "proxy/port.rs"]
mod port;
#[path = "proxy/state.rs"]
mod state;
#[path = "proxy/wire.rs"]
pub(crate) mod wire;

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread;
use std::time::Duration;

pub(crate) use port::Port;
use state::{Injection, Shared, State};
pub(crate) use wire::{Kind, Request, error_packet, packet};

/// Maximum time that a method such as [`Case::wait`] waits before it panics.
const PATIENCE: Duration = Duration::from_mins(1);

/// A fault that affects one request.
#[derive(Clone)]
pub(crate) enum Fault {
    /// The request never arrives. The connection stays open and silent.
    LoseRequest,
    /// The request is held until [`Case::let_go`], and then arrives even if the client has hung up.
    HoldRequest,
    /// The request is executed and the response is lost. The connection stays open and silent.
    LoseResponse,
    /// The request is executed and the response is held until [`Case::let_go`].
    HoldResponse,
    /// The request does not arrive. Both sides get an RST.
    Reset,
    /// The request is executed. Then both sides get an RST.
    ResetAfter,
    /// The request is executed. The client gets this number of bytes of the response, then the end of the stream.
    Truncate(usize),
    /// The response arrives byte by byte, with this pause after each byte.
    Drip(Duration),
    /// The request does not arrive. The client gets these bytes as the response, and the connection stays open.
    Respond(Vec<u8>),
    /// The request is executed. The client gets these bytes instead of the response, and the connection stays open.
    RespondAfter(Vec<u8>),
    /// The request is executed. The client gets the response as this function changes it.
    Alter(Alter),
}

/// A function that changes a response.
pub(crate) type Alter = Arc<dyn Fn(&[u8]) -> Vec<u8> + Send + Sync>;

/// The treatment of all packets in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Pass,
    /// Packets are held until the flow changes and are then delivered, as if a cable had been unplugged for a while.
    Hold,
    /// Packets never arrive. An end of the stream is held.
    Lose,
    /// Packets arrive byte by byte, with this pause after each byte.
    Drip(Duration),
}

/// The treatment of new connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    Open,
    /// Connections are accepted and get no response.
    Silent,
    /// Connections are accepted and then reset.
    Reset,
    /// Connections are refused.
    Refused,
}

/// The packets that a client sent on one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Session {
    /// The number of packets that the client sent to log in.
    pub(crate) login: usize,
    /// True if the client requested TLS. The proxy cannot read the packets that follow.
    pub(crate) is_encrypted: bool,
    pub(crate) requests: Vec<Request>,
    is_over: bool,
}

/// The handle of a proxy on 127.0.0.1. All clones control the same proxy.
#[derive(Clone)]
pub(crate) struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
}

/// The handle of an ordered fault.
#[derive(Clone)]
pub(crate) struct Case {
    shared: Arc<Shared>,
    number: usize,
}

impl Proxy {
    /// Starts a proxy on a free port of 127.0.0.1 that connects to `port`.
    #[track_caller]
    pub(crate) fn to(port: u16) -> Self {
        Self::at(local(0), port).expect("127.0.0.1 has a port")
    }

    /// Starts a proxy at `address` that connects to `port`.
    ///
    /// # Errors
    /// If `address` cannot be bound, for example because this machine does not have it.
    pub(crate) fn at(address: SocketAddr, port: u16) -> io::Result<Self> {
        let own = Port::reserve(address)?;
        let (address, listener) = (own.address(), own.listen()?);
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                target: port,
                door: Door::Open,
                is_listening: true,
                requests: Flow::Pass,
                responses: Flow::Pass,
                injections: Vec::new(),
                rewrite: None,
                greeting: None,
                sessions: Vec::new(),
                keeps_texts: true,
                asked: HashMap::new(),
                connections: Vec::new(),
                silent: Vec::new(),
            }),
            changed: Condvar::new(),
        });
        let thread_shared = Arc::clone(&shared);
        thread::spawn(move || carry::accept(&thread_shared, &own, listener));
        Ok(Self { shared, address })
    }

    /// Starts a proxy that replaces the server's first packet with `tamper(greeting)`, in one write.
    #[track_caller]
    pub(crate) fn tampering(
        port: u16,
        tamper: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        let proxy = Self::to(port);
        proxy.shared.locked().greeting = Some(Arc::new(tamper));
        proxy
    }

    /// Starts a proxy that replaces `said` with `heard` in every query. Both must have the same length, so that no
    /// packet header has to change.
    #[track_caller]
    pub(crate) fn rewriting(port: u16, original: &'static str, replacement: &'static str) -> Self {
        let proxy = Self::to(port);
        proxy.rewrite(original, replacement);
        proxy
    }

    /// Replaces `said` with `heard` in every query from now on. Both must have the same length.
    #[track_caller]
    pub(crate) fn rewrite(&self, original: &'static str, replacement: &'static str) {
        assert_eq!(
            original.len(),
            replacement.len(),
            "the texts have different lengths"
        );
        self.shared.locked().rewrite = Some((original, replacement));
    }

    /// Clears the recorded requests and stops recording. In a long run the record would grow without limit.
    pub(crate) fn forget_requests(&self) {
        self.shared.change(|state| {
            state.keeps_texts = false;
            state
                .sessions
                .iter_mut()
                .for_each(|session| session.requests.clear());
        });
    }

    /// Returns the port that the proxy listens on.
    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Injects `fault` into the next request of this kind. Orders for the same kind apply in the order of the calls.
    pub(crate) fn next(&self, kind: Kind, fault: Fault) -> Case {
        self.add_injection(kind, fault, 1)
    }

    /// Injects `fault` into every request of this kind until [`Case::lift`].
    pub(crate) fn every(&self, kind: Kind, fault: Fault) -> Case {
        self.add_injection(kind, fault, usize::MAX)
    }

    fn add_injection(&self, kind: Kind, fault: Fault, left: usize) -> Case {
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

    /// Sets the flow from clients to the server.
    pub(crate) fn requests(&self, flow: Flow) {
        self.shared.change(|state| state.requests = flow);
    }

    /// Sets the flow from the server to clients.
    pub(crate) fn responses(&self, flow: Flow) {
        self.shared.change(|state| state.responses = flow);
    }

    /// Sets the flow in both directions.
    pub(crate) fn both(&self, flow: Flow) {
        self.shared
            .change(|state| (state.requests, state.responses) = (flow, flow));
    }

    /// Sets the treatment of new connections. The setting is in force when this returns.
    pub(crate) fn door(&self, door: Door) {
        self.shared.change(|state| state.door = door);
        if door == Door::Refused {
            // This wakes the accepting thread, which has to stop listening. The connection fails if it has already done
            // so.
            let _ = TcpStream::connect(self.address);
        }
        let listens = door != Door::Refused;
        self.shared
            .until("the door changes", |state| state.is_listening == listens);
    }

    /// Sends new connections to another server.
    pub(crate) fn retarget(&self, port: u16) {
        self.shared.change(|state| state.target = port);
    }

    /// Ends the current connections with an RST to both sides.
    pub(crate) fn reset(&self) {
        self.end(true);
    }

    /// Ends the current connections with a FIN to both sides.
    pub(crate) fn close(&self) {
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
    pub(crate) fn inject(&self, bytes: &[u8]) {
        let connections = self.shared.locked().connections.clone();
        for connection in connections.iter().filter_map(Weak::upgrade) {
            // The write fails if the client has hung up.
            let _ = (&connection.client).write_all(bytes);
        }
    }

    /// Returns the number of requests of this kind that clients have sent.
    pub(crate) fn asked(&self, kind: Kind) -> usize {
        self.shared.locked().asked(kind)
    }

    /// Waits until clients have sent `count` requests of this kind since the proxy was started.
    #[track_caller]
    pub(crate) fn wait_asked(&self, kind: Kind, count: usize) {
        self.shared.until("enough requests are sent", |state| {
            state.asked(kind) >= count
        });
    }

    /// Returns the number of accepted connections.
    pub(crate) fn connections(&self) -> usize {
        self.shared.locked().sessions.len()
    }

    /// Waits until `count` connections have been accepted.
    #[track_caller]
    pub(crate) fn wait_connections(&self, count: usize) {
        self.shared.until("enough clients connect", |state| {
            state.sessions.len() >= count
        });
    }

    /// Waits until all connections have ended, and returns their sessions.
    #[track_caller]
    pub(crate) fn sessions(&self) -> Vec<Session> {
        self.wait_ends();
        self.shared.locked().sessions.clone()
    }

    /// Waits until all connections have ended, so that none of their requests can meet a new order.
    #[track_caller]
    pub(crate) fn wait_ends(&self) {
        let is_over = |state: &State| state.sessions.iter().all(|session| session.is_over);
        self.shared.until("all connections end", is_over);
    }
}

impl Case {
    /// Waits until the fault was hit: the request has arrived at the proxy, and the server has executed it if the fault
    /// delivers it at once.
    #[track_caller]
    pub(crate) fn wait(&self) {
        self.wait_for(1);
    }

    /// Waits until the fault was hit `hits` times.
    #[track_caller]
    pub(crate) fn wait_for(&self, hits: usize) {
        self.shared.until("the fault is hit", |state| {
            state.injections[self.number].hits >= hits
        });
    }

    /// Returns the number of times that the fault was hit.
    pub(crate) fn hits(&self) -> usize {
        self.shared.locked().injections[self.number].hits
    }

    /// Returns the server's response to the request that was hit last.
    pub(crate) fn response(&self) -> Vec<u8> {
        self.shared.locked().injections[self.number]
            .response
            .clone()
    }

    /// Delivers the held packet. This fault holds no packet from now on.
    pub(crate) fn let_go(&self) {
        self.shared
            .change(|state| state.injections[self.number].may_go = true);
    }

    /// Ends the fault for further requests.
    pub(crate) fn lift(&self) {
        self.shared
            .change(|state| state.injections[self.number].left = 0);
    }
}

/// The address 127.0.0.1 with `port`.
fn local(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}
