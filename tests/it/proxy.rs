//! A TCP proxy between dlock and its server that knows the protocol, keeps a record and can do all that networks and
//! middle boxes do.
//!
//! ```text
//! let proxy = Proxy::to(server.port());              // dlock goes to proxy.port()
//! let case = proxy.next(Kind::Renew, Fault::LoseReply); // the next renewal: delivered, its reply is not
//! let all = proxy.every(Kind::Release, Fault::Reset);   // each release from now on
//! case.wait();                                       // returns when the fault was hit
//! let bytes = case.reply();                          // what the server had answered
//! all.lift();                                        // no more of that
//!
//! let error = error_packet(1205, "Lock wait timeout exceeded");
//! proxy.next(Kind::Attempt, Fault::Answer(error.clone()));   // not delivered, and the client gets this error
//! proxy.next(Kind::Attempt, Fault::AnswerAfter(error));      // delivered and done, and the client gets this error
//!
//! let late = proxy.next(Kind::Attempt, Fault::HoldRequest);  // also HoldReply
//! late.wait(); late.let_go();                        // delivered late, even if the client is gone
//!
//! proxy.requests(Flow::Hold); proxy.replies(Flow::Lose); proxy.both(Flow::Pass);  // every connection, new ones too
//! proxy.door(Door::Silent);                          // new connections: Open, Silent, Reset, Refused
//! proxy.retarget(other_port);                        // new connections go there
//! proxy.reset(); proxy.close();                      // the present connections end by RST, by FIN
//! proxy.inject(&bytes);                              // to the present clients, out of the blue
//! proxy.asked(Kind::Renew); proxy.connections();     // counts so far, lost and held requests included
//! proxy.wait_asked(Kind::Renew, 3); proxy.wait_connections(2);  // until so many
//! proxy.forget_requests();                           // a long run keeps no record of texts
//! proxy.sessions();                                  // all that was sent, once every connection is over
//! ```
//!
//! A reply ends with its last packet, so "delivered" means that the server has done all of it. Requests and replies are
//! told apart only without TLS; with it, flows and doors still work. Each proxy has a thread that accepts and two a
//! connection, which end with the connection; the first ends with the test process. Depends on `std` and `rustix`
//! alone, and on nothing else of these tests: take it into another target with
//! `#[path = "../it/proxy.rs"] mod proxy;`.

#![allow(
    dead_code,
    unused_imports,
    reason = "more than one target takes this file, and none needs all of it"
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
use state::{Order, Shared, State};
pub(crate) use wire::{Kind, Request, error_packet, packet};

/// How long anything that must happen may take before [`Case::wait`] panics.
const PATIENCE: Duration = Duration::from_mins(1);

/// What happens to one question.
#[derive(Clone)]
pub(crate) enum Fault {
    /// It never arrives; the connection stays open and silent.
    LoseRequest,
    /// It arrives when [`Case::let_go`] says so, even if the client has hung up by then.
    HoldRequest,
    /// It arrives and is done; the reply is swallowed, the connection stays open and silent.
    LoseReply,
    /// It arrives and is done; the reply comes when [`Case::let_go`] says so.
    HoldReply,
    /// It does not arrive; both sides get an RST.
    Reset,
    /// It arrives and is done; then both sides get an RST.
    ResetAfter,
    /// It arrives and is done; the client gets so many bytes of the reply, then the end of the stream.
    Truncate(usize),
    /// The reply comes byte by byte with a pause after each.
    Drip(Duration),
    /// It does not arrive; the client gets these bytes for a reply, and the connection stays open.
    Answer(Vec<u8>),
    /// It arrives and is done; the client gets these bytes for the reply, and the connection stays open.
    AnswerAfter(Vec<u8>),
    /// It arrives and is done; the client gets what this makes of the reply.
    Alter(Alter),
}

/// Makes another reply of a reply.
pub(crate) type Alter = Arc<dyn Fn(&[u8]) -> Vec<u8> + Send + Sync>;

/// What happens to all packets of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Pass,
    /// Nothing goes through until it passes again; then everything does, as over a cable that was out for a while.
    Hold,
    /// What comes now never arrives. An end of the stream is held.
    Lose,
    /// Byte by byte, with a pause after each.
    Drip(Duration),
}

/// What happens to new connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    Open,
    /// Accepted, and never a word.
    Silent,
    /// Accepted, then an RST.
    Reset,
    /// Nobody listens.
    Refused,
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

/// The handle of a proxy on 127.0.0.1; all clones steer the same one.
#[derive(Clone)]
pub(crate) struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
}

/// The handle of a fault that was ordered.
#[derive(Clone)]
pub(crate) struct Case {
    shared: Arc<Shared>,
    number: usize,
}

impl Proxy {
    /// A proxy at a free port of 127.0.0.1 to `port`.
    #[track_caller]
    pub(crate) fn to(port: u16) -> Self {
        Self::at(local(0), port).expect("127.0.0.1 has a port")
    }

    /// The same, at an address of this machine that may be missing.
    pub(crate) fn at(address: SocketAddr, port: u16) -> io::Result<Self> {
        let own = Port::claim(address)?;
        let (address, listener) = (own.address(), own.listen()?);
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                target: port,
                door: Door::Open,
                is_listening: true,
                requests: Flow::Pass,
                replies: Flow::Pass,
                orders: Vec::new(),
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
        let its = Arc::clone(&shared);
        thread::spawn(move || carry::accept(&its, &own, listener));
        Ok(Self { shared, address })
    }

    /// A proxy that sends `tamper(greeting)` for the server's first packet, in one write.
    #[track_caller]
    pub(crate) fn tampering(
        port: u16,
        tamper: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        let proxy = Self::to(port);
        proxy.shared.locked().greeting = Some(Arc::new(tamper));
        proxy
    }

    /// A proxy whose server hears `heard` wherever a query says `said`; both of one length, so that no packet's
    /// header has to change.
    #[track_caller]
    pub(crate) fn rewriting(port: u16, said: &'static str, heard: &'static str) -> Self {
        let proxy = Self::to(port);
        proxy.rewrite(said, heard);
        proxy
    }

    /// The same from now on.
    #[track_caller]
    pub(crate) fn rewrite(&self, said: &'static str, heard: &'static str) {
        assert_eq!(said.len(), heard.len(), "a packet keeps its length");
        self.shared.locked().rewrite = Some((said, heard));
    }

    /// Keeps no requests in its record any more, which would grow without end in a long run.
    pub(crate) fn forget_requests(&self) {
        self.shared.change(|state| {
            state.keeps_texts = false;
            state
                .sessions
                .iter_mut()
                .for_each(|session| session.requests.clear());
        });
    }

    /// The port that the proxy listens on.
    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Lets the next question of this kind meet `fault`. Orders for one kind are met in the order in which they came.
    pub(crate) fn next(&self, kind: Kind, fault: Fault) -> Case {
        self.order(kind, fault, 1)
    }

    /// Lets every question of this kind meet `fault`, until [`Case::lift`].
    pub(crate) fn every(&self, kind: Kind, fault: Fault) -> Case {
        self.order(kind, fault, usize::MAX)
    }

    fn order(&self, kind: Kind, fault: Fault, left: usize) -> Case {
        let mut state = self.shared.locked();
        state.orders.push(Order {
            kind,
            fault,
            left,
            hits: 0,
            may_go: false,
            reply: Vec::new(),
        });
        Case {
            shared: Arc::clone(&self.shared),
            number: state.orders.len() - 1,
        }
    }

    /// Sets what happens to all that clients send from now on.
    pub(crate) fn requests(&self, flow: Flow) {
        self.shared.change(|state| state.requests = flow);
    }

    /// Sets what happens to all that the server sends from now on.
    pub(crate) fn replies(&self, flow: Flow) {
        self.shared.change(|state| state.replies = flow);
    }

    /// Sets both.
    pub(crate) fn both(&self, flow: Flow) {
        self.shared
            .change(|state| (state.requests, state.replies) = (flow, flow));
    }

    /// Sets what happens to new connections; in force when this returns.
    pub(crate) fn door(&self, door: Door) {
        self.shared.change(|state| state.door = door);
        if door == Door::Refused {
            // The thread that accepts has to wake up to stop listening. It may have done so already.
            let _ = TcpStream::connect(self.address);
        }
        let listens = door != Door::Refused;
        self.shared
            .until("the door moves", |state| state.is_listening == listens);
    }

    /// Sends new connections to another server.
    pub(crate) fn retarget(&self, port: u16) {
        self.shared.change(|state| state.target = port);
    }

    /// Ends the present connections by an RST to both sides.
    pub(crate) fn reset(&self) {
        self.end(true);
    }

    /// Ends the present connections by a FIN to both sides.
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

    /// Sends `bytes` to all present clients, as if from the server.
    pub(crate) fn inject(&self, bytes: &[u8]) {
        let connections = self.shared.locked().connections.clone();
        for connection in connections.iter().filter_map(Weak::upgrade) {
            // Who has hung up gets nothing.
            let _ = (&connection.client).write_all(bytes);
        }
    }

    /// How many questions of this kind have been sent.
    pub(crate) fn asked(&self, kind: Kind) -> usize {
        self.shared.locked().asked(kind)
    }

    /// Waits until `count` questions of this kind have been sent since the proxy began.
    #[track_caller]
    pub(crate) fn wait_asked(&self, kind: Kind, count: usize) {
        self.shared
            .until("that is asked", |state| state.asked(kind) >= count);
    }

    /// How many connections were accepted.
    pub(crate) fn connections(&self) -> usize {
        self.shared.locked().sessions.len()
    }

    /// Waits until so many connections were accepted.
    #[track_caller]
    pub(crate) fn wait_connections(&self, count: usize) {
        self.shared
            .until("so many connect", |state| state.sessions.len() >= count);
    }

    /// All connections so far, each to its end, which must come.
    #[track_caller]
    pub(crate) fn sessions(&self) -> Vec<Session> {
        self.wait_ends();
        self.shared.locked().sessions.clone()
    }

    /// Waits until all connections so far are over, so that none of their requests can meet a new order.
    #[track_caller]
    pub(crate) fn wait_ends(&self) {
        let is_over = |state: &State| state.sessions.iter().all(|session| session.is_over);
        self.shared.until("all connections end", is_over);
    }
}

impl Case {
    /// Waits until the fault was hit: the request is there, and done if the fault lets it arrive at once.
    #[track_caller]
    pub(crate) fn wait(&self) {
        self.wait_for(1);
    }

    /// Waits until it was hit so many times.
    #[track_caller]
    pub(crate) fn wait_for(&self, hits: usize) {
        self.shared.until("the fault is hit", |state| {
            state.orders[self.number].hits >= hits
        });
    }

    /// How many times it was hit.
    pub(crate) fn hits(&self) -> usize {
        self.shared.locked().orders[self.number].hits
    }

    /// The server's reply to the question that was hit last.
    pub(crate) fn reply(&self) -> Vec<u8> {
        self.shared.locked().orders[self.number].reply.clone()
    }

    /// Delivers what is held, and what this fault would hold from now on.
    pub(crate) fn let_go(&self) {
        self.shared
            .change(|state| state.orders[self.number].may_go = true);
    }

    /// Lets no further question meet this fault.
    pub(crate) fn lift(&self) {
        self.shared
            .change(|state| state.orders[self.number].left = 0);
    }
}

/// 127.0.0.1 and `port`.
fn local(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}
