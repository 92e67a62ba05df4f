//! One contender on a real server. Its connections pass through proxies, which read the id of each session.
//!
//! A contender has two routes to the server. While the session of a dropped connection lingers on one route, the
//! contender uses the other route.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use dlock::store::mysql::Database;
use dlock::store::{Contender, FailureKind, Request, Store, TimedResponse};
use dlock::sys::socket::Interrupter;
use testkit::proxy::{Case, Flow, Kind, Proxy, error_packet};
use testkit::servers;

use crate::step::{Fault, FaultKind};

/// Timeout of requests and idle sessions. It is longer than any sequence.
const LIMIT: Duration = Duration::from_mins(10);

/// A part of a query and its replacement, which has the same length.
pub(crate) type Rewrite = (&'static str, &'static str);

pub(crate) struct ServerContender {
    routes: [Route; 2],
    using: usize,
    /// The thread of a request that waits for the queue lock. None if no request waits.
    waiting: Option<JoinHandle<(Database, TimedResponse)>>,
}

struct Route {
    proxy: Proxy,
    database: Option<Database>,
    interrupter: Interrupter,
    /// Id of the session that was created since the last call of `record_session`. 0 if none was created.
    latest: Arc<AtomicU64>,
    /// Id of the session that exists on this route. None if no session exists.
    session: Option<u64>,
    /// True if a fault discards all bytes from the contender to the server.
    is_cut: Arc<AtomicBool>,
}

impl ServerContender {
    pub(crate) fn new(database: &servers::Database, rewrite: Option<Rewrite>) -> Self {
        Self {
            routes: [(); 2].map(|()| Route::new(database, rewrite)),
            using: 0,
            waiting: None,
        }
    }

    pub(crate) fn connect(&mut self, contender: &Contender) {
        if self.current().is_none() {
            self.drop_connection();
            let (response, _) = self.send(contender, &Request::Get, None);
            response.outcome.expect("the server responds");
        }
    }

    /// Sends a request, and injects `fault` into one of its packets. If the request fails, returns the id of the session
    /// that ends: its own one or, if the fault drops the connection, the one of an earlier dropped connection.
    pub(crate) fn send(
        &mut self,
        contender: &Contender,
        request: &Request,
        fault: Option<Fault>,
    ) -> (TimedResponse, Option<u64>) {
        let route = &mut self.routes[self.using];
        let cases = fault.map_or_else(Vec::new, |fault| route.inject(request, fault));
        let mut database = route.database.take().expect("no request is waiting");
        let response = database.request(contender, request);
        route.database = Some(database);
        cases.iter().for_each(Case::lift);
        route.record_session();
        let is_cut = route.is_cut.swap(false, Ordering::SeqCst);
        let ended = match &response.outcome {
            Ok(_) => None,
            Err(_) if is_cut => self.swap(),
            Err(_) => {
                route.proxy.wait_ends();
                route.session.take()
            }
        };
        (response, ended)
    }

    /// Sends a request that waits for the queue lock. Another thread waits for the response.
    pub(crate) fn start_waiting(&mut self, contender: &Contender, request: &Request) {
        let route = &mut self.routes[self.using];
        let mut database = route.database.take().expect("no request is waiting");
        let (contender, request) = (contender.clone(), request.clone());
        self.waiting = Some(thread::spawn(move || {
            let response = database.request(&contender, &request);
            (database, response)
        }));
    }

    /// Returns the id of the session that waits. None if the session does not exist yet.
    pub(crate) fn waiting_session(&mut self) -> Option<u64> {
        let route = &mut self.routes[self.using];
        route.record_session();
        route.session
    }

    /// Waits for the response to the request that waits for the queue lock. Returns None if no request waits.
    pub(crate) fn finish_waiting(&mut self) -> Option<TimedResponse> {
        let finished = self.waiting.take()?.join();
        let (database, mut response) = finished.expect("the waiting thread does not panic");
        let route = &mut self.routes[self.using];
        route.database = Some(database);
        if let Err(failure) = &mut response.outcome {
            // MariaDB and MySQL return different errors when a waiting session is ended.
            failure.kind = FailureKind::Unknown;
            route.session = None;
            route.proxy.wait_ends();
        }
        Some(response)
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Drops the connection in such a way that the server does not detect the drop. Returns the id of the session of
    /// an earlier dropped connection, which ends now. None if no such session existed.
    pub(crate) fn drop_connection(&mut self) -> Option<u64> {
        let route = &mut self.routes[self.using];
        let is_up = route.session.is_some();
        if is_up {
            route.proxy.requests(Flow::Lose);
        }
        let database = route.database.as_mut();
        database.expect("no request is waiting").hang_up();
        if is_up { self.swap() } else { None }
    }

    /// Switches to the other route, and ends the session that lingers there. The flow on the old route must already be
    /// cut. Returns the id of the ended session; None if no session lingered.
    fn swap(&mut self) -> Option<u64> {
        self.using = 1 - self.using;
        self.close_route()
    }

    /// Lets the server detect the dropped connection. Returns the id of its session; None if no session lingered.
    pub(crate) fn notice_drop(&mut self) -> Option<u64> {
        self.using = 1 - self.using;
        let session = self.close_route();
        self.using = 1 - self.using;
        session
    }

    fn close_route(&mut self) -> Option<u64> {
        let route = &mut self.routes[self.using];
        route.proxy.requests(Flow::Pass);
        route.latest.store(0, Ordering::SeqCst);
        route.session.take()
    }

    /// Returns the session id of the current connection. None if there is no connection.
    pub(crate) fn current(&self) -> Option<u64> {
        self.routes[self.using].session
    }

    /// Returns the session id of the dropped connection. None if no session lingers.
    pub(crate) fn dropped(&self) -> Option<u64> {
        self.routes[1 - self.using].session
    }

    pub(crate) fn ended(&mut self, session: u64) {
        for route in &mut self.routes {
            if route.session == Some(session) {
                route.session = None;
                route.latest.store(0, Ordering::SeqCst);
                route.proxy.requests(Flow::Pass);
            }
        }
    }
}

impl Route {
    fn new(database: &servers::Database, rewrite: Option<Rewrite>) -> Self {
        let latest = Arc::new(AtomicU64::new(0));
        let latest_session = Arc::clone(&latest);
        let proxy = Proxy::tampering(database.port, move |greeting| {
            latest_session.store(session_in(greeting), Ordering::SeqCst);
            greeting.to_vec()
        });
        proxy.forget_requests();
        if let Some((original, replacement)) = rewrite {
            proxy.rewrite(original, replacement);
        }
        let database = Database::new(database.target(proxy.port()), LIMIT, LIMIT);
        Self {
            interrupter: database.interrupter(),
            proxy,
            database: Some(database),
            latest,
            session: None,
            is_cut: Arc::default(),
        }
    }

    /// Records the session of a connection that was opened since the last call.
    fn record_session(&mut self) {
        let latest = self.latest.swap(0, Ordering::SeqCst);
        if latest > 0 {
            self.session = Some(latest);
        }
    }

    /// Injects `fault` into the packet of `request` that it affects. The earlier packets pass unchanged.
    fn inject(&self, request: &Request, fault: Fault) -> Vec<Case> {
        let kinds: &[Kind] = match request {
            Request::TryAcquire(_) => &[Kind::TryAcquire],
            Request::EndSessions(_) | Request::RemoveNote(_) => &[],
            Request::GetWithQueue(_) | Request::Get | Request::GetNote(_) => &[Kind::Get],
            Request::Enqueue(_) => &[Kind::Enqueue],
            Request::WaitTurn(turn) if turn.may_acquire => &[Kind::WaitTurn, Kind::TryAcquire],
            Request::WaitTurn(_) => &[Kind::WaitTurn, Kind::Get],
            Request::Renew(..) => &[Kind::Renew],
            Request::HandOff(_) => &[Kind::Handoff],
            Request::Release(_) => &[Kind::Release, Kind::Release],
        };
        // If the request has no packet with this index, there is no fault.
        let Some(kind) = kinds.get(fault.packet) else {
            return Vec::new();
        };
        let pass = || testkit::proxy::Fault::Alter(Arc::new(<[u8]>::to_vec));
        let before = kinds[..fault.packet].iter();
        let mut cases: Vec<Case> = before.map(|it| self.proxy.next(*it, pass())).collect();
        cases.push(self.proxy.next(*kind, self.fault(fault.kind)));
        cases
    }

    fn fault(&self, kind: FaultKind) -> testkit::proxy::Fault {
        let error = |code| error_packet(code, "an error injected by the test");
        let (proxy, interrupter) = (self.proxy.clone(), self.interrupter.clone());
        let is_cut = Arc::clone(&self.is_cut);
        // After this fault, the contender drops the connection, and the server must not detect the drop. The closure
        // acts only once, because a server may send another packet when it ends the session.
        let has_acted = AtomicBool::new(false);
        let cut_flow = move |interrupted: Option<&Interrupter>| {
            if !has_acted.swap(true, Ordering::SeqCst) {
                proxy.requests(Flow::Lose);
                is_cut.store(true, Ordering::SeqCst);
                interrupted.inspect(|interrupter| interrupter.interrupt());
            }
        };
        match kind {
            FaultKind::Refused(code) => testkit::proxy::Fault::Respond(error(code)),
            FaultKind::ErrorAfter(code) => testkit::proxy::Fault::Alter(Arc::new(move |_| {
                cut_flow(None);
                error(code)
            })),
            FaultKind::ResponseLost => testkit::proxy::Fault::Alter(Arc::new(move |_| {
                cut_flow(Some(&interrupter));
                Vec::new()
            })),
        }
    }
}

/// Returns a connection to `database` that passes through no proxy.
pub(crate) fn direct(database: &servers::Database) -> Database {
    Database::new(database.target(database.port), LIMIT, LIMIT)
}

/// Returns the session id in a server's greeting. The id follows the packet header, the protocol version and the server
/// version.
fn session_in(greeting: &[u8]) -> u64 {
    let text = &greeting[5..];
    let end = text.iter().position(|byte| *byte == 0).expect("a version");
    let number = &text[end + 1..end + 5];
    u64::from(u32::from_le_bytes(number.try_into().expect("four bytes")))
}
