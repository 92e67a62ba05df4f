//! One contender on a real server: its connections, through proxies that learn the id of each session.
//!
//! A contender has two routes to the server, so that the session of a dropped connection can linger on one route while
//! the contender uses the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use dlock::store::mysql::Database;
use dlock::store::target::{Address, Secret, SslMode, Target, Tls};
use dlock::store::{Contender, FailureKind, Request, TimedResponse};
use dlock::sys::socket::Interrupter;

use crate::proxy::{Case, Flow, Kind, Proxy, error_packet};
use crate::servers;
use crate::step::{Fault, FaultKind};

/// Limit for requests and idle sessions: longer than any of them takes.
const LIMIT: Duration = Duration::from_mins(10);

/// A text in a query, and its replacement, which has the same length.
pub(crate) type Rewrite = (&'static str, &'static str);

/// A contender.
pub(crate) struct Peer {
    ways: [Way; 2],
    /// Index of the route in use.
    using: usize,
    /// A request that waits for the queue lock. None if there is none.
    waiting: Option<JoinHandle<(Database, TimedResponse)>>,
}

/// A route to the server.
struct Way {
    proxy: Proxy,
    database: Option<Database>,
    interrupter: Interrupter,
    /// The last session that was created, until it is taken over by `note`; 0 if there is none.
    latest: Arc<AtomicU64>,
    /// The existing session. None if there is none.
    session: Option<u64>,
    /// True if a fault has cut the flow from the contender to the server.
    is_cut: Arc<AtomicBool>,
}

/// The effect of a request on the contender's sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// No change.
    Same,
    /// This session ends.
    Ends(u64),
    /// The contender has dropped its connection, and the lingering session of an earlier connection, if any, ends now.
    Dropped(Option<u64>),
}

impl Peer {
    pub(crate) fn new(database: &servers::Database, rewrite: Option<Rewrite>) -> Self {
        Self {
            ways: [(); 2].map(|()| Way::new(database, rewrite)),
            using: 0,
            waiting: None,
        }
    }

    /// Connects, unless there is a connection.
    pub(crate) fn connect(&mut self, contender: &Contender) {
        if self.current().is_none() {
            self.drop_connection();
            let (reply, _) = self.ask(contender, &Request::Get, None);
            reply.outcome.expect("the server responds");
        }
    }

    /// Sends a request, one packet of which meets `fault`.
    pub(crate) fn ask(
        &mut self,
        contender: &Contender,
        request: &Request,
        fault: Option<Fault>,
    ) -> (TimedResponse, After) {
        let way = &mut self.ways[self.using];
        let cases = fault.map_or_else(Vec::new, |fault| way.order(request, fault));
        let mut database = way.database.take().expect("no request is waiting");
        let reply = database.request(contender, request);
        way.database = Some(database);
        cases.iter().for_each(Case::lift);
        way.note();
        let is_cut = way.is_cut.swap(false, Ordering::SeqCst);
        let after = match &reply.outcome {
            Ok(_) => After::Same,
            Err(_) if is_cut => After::Dropped(self.swap()),
            Err(_) => {
                way.proxy.wait_ends();
                way.session.take().map_or(After::Same, After::Ends)
            }
        };
        (reply, after)
    }

    /// Sends a request that waits for the queue lock, in another thread.
    pub(crate) fn begin_to_wait(&mut self, contender: &Contender, request: &Request) {
        let way = &mut self.ways[self.using];
        let mut database = way.database.take().expect("no request is waiting");
        let (contender, request) = (contender.clone(), request.clone());
        self.waiting = Some(thread::spawn(move || {
            let reply = database.request(&contender, &request);
            (database, reply)
        }));
    }

    /// Returns the session that waits. None if it does not exist yet.
    pub(crate) fn waiting_session(&mut self) -> Option<u64> {
        let way = &mut self.ways[self.using];
        way.note();
        way.session
    }

    /// Returns the response to the request that waited. None if no request waited.
    pub(crate) fn waited(&mut self) -> Option<TimedResponse> {
        let (database, mut reply) = self
            .waiting
            .take()?
            .join()
            .expect("the waiting thread does not panic");
        let way = &mut self.ways[self.using];
        way.database = Some(database);
        if let Err(failure) = &mut reply.outcome {
            // The error for the end of a waiting session differs between servers.
            failure.kind = FailureKind::Unknown;
            way.session = None;
            way.proxy.wait_ends();
        }
        Some(reply)
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Drops the connection without notice to the server. Returns the lingering session of an earlier connection, which
    /// ends now.
    pub(crate) fn drop_connection(&mut self) -> Option<u64> {
        let way = &mut self.ways[self.using];
        let is_up = way.session.is_some();
        if is_up {
            way.proxy.requests(Flow::Lose);
        }
        way.database
            .as_mut()
            .expect("no request is waiting")
            .hang_up();
        match is_up {
            true => self.swap(),
            false => None,
        }
    }

    /// Switches to the other route; the flow to the server is cut on the old one. Returns the session that lingered on
    /// the new route.
    fn swap(&mut self) -> Option<u64> {
        self.using = 1 - self.using;
        self.let_go()
    }

    /// Lets the server notice that a connection was dropped. Returns its session.
    pub(crate) fn notice(&mut self) -> Option<u64> {
        self.using = 1 - self.using;
        let session = self.let_go();
        self.using = 1 - self.using;
        session
    }

    fn let_go(&mut self) -> Option<u64> {
        let way = &mut self.ways[self.using];
        way.proxy.requests(Flow::Pass);
        way.latest.store(0, Ordering::SeqCst);
        way.session.take()
    }

    /// Returns the session of the current connection. None if there is none.
    pub(crate) fn current(&self) -> Option<u64> {
        self.ways[self.using].session
    }

    /// Returns the session of a dropped connection. None if there is none.
    pub(crate) fn dropped(&self) -> Option<u64> {
        self.ways[1 - self.using].session
    }

    /// Records that a session has ended.
    pub(crate) fn ended(&mut self, session: u64) {
        for way in &mut self.ways {
            if way.session == Some(session) {
                way.session = None;
                way.latest.store(0, Ordering::SeqCst);
                way.proxy.requests(Flow::Pass);
            }
        }
    }
}

impl Way {
    fn new(database: &servers::Database, rewrite: Option<Rewrite>) -> Self {
        let latest = Arc::new(AtomicU64::new(0));
        let noted = Arc::clone(&latest);
        let proxy = Proxy::tampering(database.port, move |greeting| {
            noted.store(session_in(greeting), Ordering::SeqCst);
            greeting.to_vec()
        });
        proxy.forget_requests();
        if let Some((said, heard)) = rewrite {
            proxy.rewrite(said, heard);
        }
        let target = target(database, proxy.port());
        let database = Database::new(target, LIMIT, LIMIT);
        Self {
            interrupter: database.interrupter(),
            proxy,
            database: Some(database),
            latest,
            session: None,
            is_cut: Arc::default(),
        }
    }

    /// Records the session of a connection that was made since the last call.
    fn note(&mut self) {
        let latest = self.latest.swap(0, Ordering::SeqCst);
        if latest > 0 {
            self.session = Some(latest);
        }
    }

    /// Arranges the fault, and that the packets before it pass unchanged.
    fn order(&self, request: &Request, fault: Fault) -> Vec<Case> {
        let kinds = match request {
            Request::TryAcquire(_) => [Some(Kind::TryAcquire), None],
            Request::GetWithQueue(_) | Request::Get => [Some(Kind::Get), None],
            Request::Enqueue(_) => [Some(Kind::Enqueue), None],
            Request::WaitTurn(_) => [Some(Kind::WaitTurn), Some(Kind::TryAcquire)],
            Request::Renew(..) => [Some(Kind::Renew), None],
            Request::HandOff(_) => [Some(Kind::Handoff), None],
            Request::Release(_) => [Some(Kind::Release), Some(Kind::Release)],
        };
        let kind = kinds.get(fault.packet).copied().flatten();
        let before = kinds.into_iter().flatten().take(fault.packet);
        let pass = || crate::proxy::Fault::Alter(Arc::new(<[u8]>::to_vec));
        let mut cases: Vec<Case> = before.map(|kind| self.proxy.next(kind, pass())).collect();
        match kind {
            Some(kind) => cases.push(self.proxy.next(kind, self.fault(fault.kind))),
            // Without a packet for the fault, no case is needed.
            None => cases.drain(..).for_each(|case| case.lift()),
        }
        cases
    }

    fn fault(&self, kind: FaultKind) -> crate::proxy::Fault {
        let error = |code| error_packet(code, "an error of the test");
        let (proxy, interrupter) = (self.proxy.clone(), self.interrupter.clone());
        let is_cut = Arc::clone(&self.is_cut);
        // The contender drops the connection after this, and the server must not notice. Only once, because a server
        // may send another packet when it ends the session.
        let is_over = AtomicBool::new(false);
        let cut = move |interrupted: Option<&Interrupter>| {
            if !is_over.swap(true, Ordering::SeqCst) {
                proxy.requests(Flow::Lose);
                is_cut.store(true, Ordering::SeqCst);
                interrupted.inspect(|it| it.interrupt());
            }
        };
        match kind {
            FaultKind::Refused(code) => crate::proxy::Fault::Answer(error(code)),
            FaultKind::ErrorAfter(code) => crate::proxy::Fault::Alter(Arc::new(move |_| {
                cut(None);
                error(code)
            })),
            FaultKind::ReplyLost => crate::proxy::Fault::Alter(Arc::new(move |_| {
                cut(Some(&interrupter));
                Vec::new()
            })),
        }
    }
}

/// Returns the target for `database` through `port`.
pub(crate) fn target(database: &servers::Database, port: u16) -> Target {
    Target {
        address: Address::Tcp {
            host: "127.0.0.1".to_owned(),
            port,
        },
        user: database.user.clone(),
        password: Some(Secret::new(database.password.clone())),
        database: database.name.clone(),
        tls: Tls {
            mode: SslMode::Disabled,
            chosen: true,
            ca: None,
            identity: None,
        },
    }
}

/// Returns the session id in a server's greeting, which follows the header, the protocol and the version.
fn session_in(greeting: &[u8]) -> u64 {
    let text = &greeting[5..];
    let end = text.iter().position(|byte| *byte == 0).expect("a version");
    let number = &text[end + 1..end + 5];
    u64::from(u32::from_le_bytes(number.try_into().expect("four bytes")))
}
