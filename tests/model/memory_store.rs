//! A store in memory: the model's server with a clock that only moves when a test moves it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use dlock::store::{Contender, FailureKind, Request, Store, TimedResponse};

use crate::mutation::{Run, Variant};
use crate::responses::{failure, interpret, timed_response};
use crate::server::{Server, Session, Stage};
use crate::time::Tick;

/// A server that several connections share.
#[derive(Clone)]
pub(crate) struct MemoryServer {
    pub(crate) server: Rc<RefCell<Server>>,
    pub(crate) now: Rc<Cell<Tick>>,
}

impl MemoryServer {
    pub(crate) fn new() -> Self {
        Self {
            server: Rc::new(RefCell::new(Server::new())),
            now: Rc::new(Cell::new(0)),
        }
    }

    /// Returns a connection of client `client`.
    pub(crate) fn connect(&self, client: usize) -> MemoryStore {
        MemoryStore {
            server: self.clone(),
            session: Session::current(client),
        }
    }
}

/// A connection to the server.
pub(crate) struct MemoryStore {
    server: MemoryServer,
    session: Session,
}

impl Store for MemoryStore {
    /// Executes the request at once. A request that would wait for the queue lock fails.
    fn request(&mut self, contender: &Contender, request: &Request) -> TimedResponse {
        let now = self.server.now.get();
        let mut server = self.server.server.borrow_mut();
        let mut stage = Stage::First;
        server.set_limit_of(request, contender.limit);
        loop {
            let raw = server.execute(now, self.session, request, stage, Run::sound().rules);
            let outcome = match raw {
                Some(raw) => match raw.next(request) {
                    Some(next) => {
                        stage = next;
                        continue;
                    }
                    None => interpret(request, raw, Variant::Sound),
                },
                None => Err(failure(FailureKind::Unknown)),
            };
            return timed_response(now, now, outcome);
        }
    }

    fn hang_up(&mut self) {
        self.server.server.borrow_mut().end(self.session);
    }
}
