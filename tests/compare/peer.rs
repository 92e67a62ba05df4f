//! One contender on a real server: its connections, by way of proxies that know which session is whose.
//!
//! It has two ways to the server, so that a session of a connection that it has dropped can linger on the one
//! while it uses the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use dlock::store::mysql::Database;
use dlock::store::target::{Address, Secret, SslMode, Target, Tls};
use dlock::store::{Contender, FailureKind, Question, Reply};
use dlock::sys::socket::Interrupter;

use crate::proxy::{Case, Flow, Kind, Proxy, error_packet};
use crate::servers;
use crate::step::{Fault, FaultKind};

/// No question takes as long, and no session is idle as long.
const LIMIT: Duration = Duration::from_mins(10);

/// A text of a query, and what the server gets instead: of the same length.
pub(crate) type Rewrite = (&'static str, &'static str);

/// A contender.
pub(crate) struct Peer {
    ways: [Way; 2],
    /// The way that it uses.
    using: usize,
    /// A question that waits at the gate.
    waiting: Option<JoinHandle<(Database, Reply)>>,
}

/// A way to the server.
struct Way {
    proxy: Proxy,
    database: Option<Database>,
    interrupter: Interrupter,
    /// The session that was made last.
    latest: Arc<AtomicU64>,
    /// The session that is there.
    session: Option<u64>,
    /// Whether a fault has cut the server off from what the contender sends.
    is_cut: Arc<AtomicBool>,
}

/// What has become of the sessions of a contender that asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// Nothing.
    Same,
    /// This one ends.
    Ends(u64),
    /// It has dropped its connection; this session of one before ends now.
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

    /// Makes a connection, unless there is one.
    pub(crate) fn connect(&mut self, contender: &Contender) {
        if self.current().is_none() {
            self.drop_connection();
            let (reply, _) = self.ask(contender, &Question::Look, None);
            reply.outcome.expect("the server answers");
        }
    }

    /// Asks, and lets a packet meet `fault`.
    pub(crate) fn ask(
        &mut self,
        contender: &Contender,
        question: &Question,
        fault: Option<Fault>,
    ) -> (Reply, After) {
        let way = &mut self.ways[self.using];
        let cases = fault.map_or_else(Vec::new, |fault| way.order(question, fault));
        let mut database = way.database.take().expect("it waits for nothing");
        let reply = database.ask(contender, question);
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

    /// Asks a question that waits at the gate.
    pub(crate) fn begin_to_wait(&mut self, contender: &Contender, question: &Question) {
        let way = &mut self.ways[self.using];
        let mut database = way.database.take().expect("it waits for nothing");
        let (contender, question) = (contender.clone(), question.clone());
        self.waiting = Some(thread::spawn(move || {
            let reply = database.ask(&contender, &question);
            (database, reply)
        }));
    }

    /// The session that waits, as soon as there is one.
    pub(crate) fn waiting_session(&mut self) -> Option<u64> {
        let way = &mut self.ways[self.using];
        way.note();
        way.session
    }

    /// The reply to the question that waited.
    pub(crate) fn waited(&mut self) -> Option<Reply> {
        let (database, mut reply) = self.waiting.take()?.join().expect("no panic");
        let way = &mut self.ways[self.using];
        way.database = Some(database);
        if let Err(failure) = &mut reply.outcome {
            // How a server says that it ends a session that waits is its own affair.
            failure.kind = FailureKind::Unknown;
            way.session = None;
            way.proxy.wait_ends();
        }
        Some(reply)
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Drops its connection without a word to the server. Answers the session of one before, which ends now.
    pub(crate) fn drop_connection(&mut self) -> Option<u64> {
        let way = &mut self.ways[self.using];
        let is_up = way.session.is_some();
        if is_up {
            way.proxy.requests(Flow::Lose);
        }
        way.database
            .as_mut()
            .expect("it waits for nothing")
            .hang_up();
        match is_up {
            true => self.swap(),
            false => None,
        }
    }

    /// Changes the way, with the flow to the server being cut on the old one. Answers the session that
    /// lingered on the new one.
    fn swap(&mut self) -> Option<u64> {
        self.using = 1 - self.using;
        self.let_go()
    }

    /// Lets the server notice that a connection was dropped.
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

    /// The session of its present connection.
    pub(crate) fn current(&self) -> Option<u64> {
        self.ways[self.using].session
    }

    /// The session of a connection that it has dropped.
    pub(crate) fn dropped(&self) -> Option<u64> {
        self.ways[1 - self.using].session
    }

    /// Notes that a session is over.
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

    /// Notes the session of a connection that was made meanwhile.
    fn note(&mut self) {
        let latest = self.latest.swap(0, Ordering::SeqCst);
        if latest > 0 {
            self.session = Some(latest);
        }
    }

    /// Orders the fault, and that the packets before it are left alone.
    fn order(&self, question: &Question, fault: Fault) -> Vec<Case> {
        let kinds = match question {
            Question::Attempt(_) => [Some(Kind::Attempt), None],
            Question::Inspect(_) | Question::Look => [Some(Kind::Look), None],
            Question::Queue(_) => [Some(Kind::Queue), None],
            Question::Stand(_) => [Some(Kind::Stand), Some(Kind::Attempt)],
            Question::Renew(..) => [Some(Kind::Renew), None],
            Question::HandOff(_) => [Some(Kind::Notice), None],
            Question::Release(_) => [Some(Kind::Release), Some(Kind::Release)],
        };
        let kind = kinds.get(fault.packet).copied().flatten();
        let before = kinds.into_iter().flatten().take(fault.packet);
        let pass = || crate::proxy::Fault::Alter(Arc::new(<[u8]>::to_vec));
        let mut cases: Vec<Case> = before.map(|kind| self.proxy.next(kind, pass())).collect();
        match kind {
            Some(kind) => cases.push(self.proxy.next(kind, self.fault(fault.kind))),
            // The one before is not the fault.
            None => cases.drain(..).for_each(|case| case.lift()),
        }
        cases
    }

    fn fault(&self, kind: FaultKind) -> crate::proxy::Fault {
        let error = |code| error_packet(code, "an error of the test");
        let (proxy, interrupter) = (self.proxy.clone(), self.interrupter.clone());
        let is_cut = Arc::clone(&self.is_cut);
        // The contender drops the connection when it gets this, and the server is not to notice.
        // Once: a server may have a last word when it ends the session.
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

/// How to reach `database` through `port`.
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

/// The number of the session in a server's greeting: behind the header, the protocol and the version.
fn session_in(greeting: &[u8]) -> u64 {
    let text = &greeting[5..];
    let end = text.iter().position(|byte| *byte == 0).expect("a version");
    let number = &text[end + 1..end + 5];
    u64::from(u32::from_le_bytes(number.try_into().expect("four bytes")))
}
