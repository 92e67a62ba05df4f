//! Runs the contract of a store on the model's server, whose clock only moves when a test moves it.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use dlock::lease::OwnerId;
use dlock::store::operator::OperatorAction;
use dlock::store::{Contender, FailureKind, Holder, Request, Store, TimedResponse};

use crate::contract::{CLAUSES, Scene};
use crate::mutation::Variant;
use crate::responses::{failure, interpret, timed_response};
use crate::server::{Rules, Server, Session, Stage, owner_id_of_number};
use crate::time::{TTL, Tick, ticks};

/// The present time. It is late enough that leases can end in the past.
const NOW: Tick = TTL;

/// A server that several connections share.
struct MemoryScene(Rc<RefCell<Server>>);

/// A connection to the server.
struct MemoryStore {
    server: Rc<RefCell<Server>>,
    session: Session,
}

impl Store for MemoryStore {
    /// Executes the request at once. A request that would wait for the queue lock fails.
    fn request(&mut self, contender: &Contender, request: &Request) -> TimedResponse {
        let mut server = self.server.borrow_mut();
        let mut stage = Stage::First;
        server.set_limit_of(request, contender.limit);
        loop {
            let raw = server.execute(NOW, self.session, request, stage, Rules::NONE);
            let Some(raw) = raw else {
                return timed_response(NOW, NOW, Err(failure(FailureKind::Unknown)));
            };
            match raw.next(request) {
                Some(next) => stage = next,
                None => return timed_response(NOW, NOW, interpret(request, raw, Variant::Sound)),
            }
        }
    }

    fn hang_up(&mut self) {
        self.server.borrow_mut().end(self.session);
    }
}

impl Scene for MemoryScene {
    fn connect(&self, number: u8) -> (Box<dyn Store>, Contender) {
        let action = "init".parse().expect("the name is valid");
        let contender = Contender::without_command(action, Holder::default(), ticks(TTL));
        let store = MemoryStore {
            server: Rc::clone(&self.0),
            session: Session::current(number.into()),
        };
        (Box::new(store), contender)
    }

    fn owner_id(&self, number: u8) -> OwnerId {
        owner_id_of_number(number)
    }

    fn expire(&self, ago: Duration) {
        let ago = (1..TTL)
            .find(|number| ticks(*number) >= ago)
            .expect("a short time");
        self.0.borrow_mut().row.expires = NOW.cast_signed() - ago.cast_signed();
    }

    fn revoke(&self) {
        let mut server = self.0.borrow_mut();
        let token = server.row.token;
        assert!(server.apply_operator_action(NOW, token, OperatorAction::Release));
    }

    fn lose_record(&self) {
        let mut server = self.0.borrow_mut();
        server.row.owner_id = None;
        server.prune(Rules::NONE);
        server.row.token = 0;
        server.slots.clear();
    }
}

#[test]
fn the_models_server_keeps_the_contract_of_a_store() {
    for clause in CLAUSES {
        clause(&MemoryScene(Rc::new(RefCell::new(Server::new()))));
    }
}
