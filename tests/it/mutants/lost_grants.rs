//! A scenario in which a fail-over loses a grant. A mutant does not wait until the lost lease has ended.

use std::sync::OnceLock;

use super::scene::{ScenarioResult, Scene, compare};
use crate::cli_runner::Dlock;
use crate::command::read_message;
use crate::holder::Holder;
use crate::old_replica::copy;
use crate::proxy::{AcceptMode, Fault, Kind, Proxy};
use crate::servers::{Flavour, Server, shared};

#[test]
fn without_waiting_for_a_lost_lease_a_waiter_starts_after_a_fail_over() {
    compare("lostgrant", ScenarioResult::TwoAlive, 1, |scene| {
        let is_of_scene = |flavour: &Flavour| shared(*flavour).port() == scene.database.port;
        let flavour = Flavour::ALL.into_iter().find(is_of_scene);
        kill_right_after_a_grant(scene, replica(flavour.expect("a shared server")))
    });
}

/// Returns the server of this flavour that replaces the shared server.
fn replica(flavour: Flavour) -> &'static Server {
    static MARIADB: OnceLock<Server> = OnceLock::new();
    static MYSQL: OnceLock<Server> = OnceLock::new();
    let server = match flavour {
        Flavour::MariaDb => &MARIADB,
        Flavour::MySql => &MYSQL,
    };
    server.get_or_init(|| Server::start(flavour, &[]))
}

/// A holder is granted the lease while a waiter waits for the queue lock. The server dies immediately, and a replica
/// without this grant replaces it. The record of the replica is as the waiter has read it, except that it is free. The
/// holder does not reach the replica before its lease ends.
fn kill_right_after_a_grant(scene: &Scene, replica: &Server) -> ScenarioResult {
    const TTL: [&str; 2] = ["--ttl", "3s"];
    let (proxy, holders) = (
        Proxy::to(scene.database.port),
        Proxy::to(scene.database.port),
    );
    let url = scene.database.url_through(proxy.port());
    let first = Holder::start(Dlock::new(["exec"]).env("DLOCK_URL", url), &TTL);

    let ready = scene.stage.fifo("ready");
    let _holder = scene.start_command(scene.exec(holders.port()).args(TTL), &ready);
    holders.wait_asked(Kind::WaitTurn, 1);
    let next = scene.next(scene.exec(proxy.port()).args(TTL));
    proxy.wait_asked(Kind::WaitTurn, 1);

    let grant = holders.next(Kind::TryAcquire, Fault::HoldRequest);
    first.end();
    grant.wait();
    let replica = copy(&scene.database, replica);
    grant.let_go();
    assert_eq!(read_message(&ready), "up");
    proxy.retarget(replica.port);
    holders.door(AcceptMode::Refused);
    holders.reset();
    proxy.reset();
    ScenarioResult::of_next(&next.wait())
}
