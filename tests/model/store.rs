//! Runs the contract of a store on the model's server.

use std::time::Duration;

use dlock::lease::OwnerId;
use dlock::store::operator::OperatorAction;
use dlock::store::{Contender, Holder, Store};

use crate::contract::{CLAUSES, Scene};
use crate::memory_store::MemoryServer;
use crate::mutation::Run;
use crate::server::owner_id_of_number;
use crate::time::{TTL, Tick, ticks};

/// A scene on the model's server. It starts late enough that leases can end in the past.
struct MemoryScene(MemoryServer);

impl Scene for MemoryScene {
    fn connect(&self, number: u8) -> (Box<dyn Store>, Contender) {
        let action = "init".parse().expect("the name is valid");
        let contender = Contender::without_command(action, Holder::default(), ticks(TTL));
        (Box::new(self.0.connect(number.into())), contender)
    }

    fn owner_id(&self, number: u8) -> OwnerId {
        owner_id_of_number(number)
    }

    fn expire(&self, ago: Duration) {
        let ago = (1..TTL)
            .find(|number| ticks(*number) >= ago)
            .expect("a short time");
        let mut server = self.0.server.borrow_mut();
        server.row.expires = self.0.now.get().cast_signed() - ago.cast_signed();
    }

    fn revoke(&self) {
        let mut server = self.0.server.borrow_mut();
        let token = server.row.token;
        let now: Tick = self.0.now.get();
        assert!(server.apply_operator_action(now, token, OperatorAction::Release));
    }

    fn lose_record(&self) {
        let mut server = self.0.server.borrow_mut();
        let rules = Run::sound().rules;
        server.free_row();
        server.prune(rules);
        server.row.token = 0;
        server.forget_slots();
    }
}

#[test]
fn the_models_server_keeps_the_contract_of_a_store() {
    for clause in CLAUSES {
        let server = MemoryServer::new();
        server.now.set(TTL);
        clause(&MemoryScene(server));
    }
}
