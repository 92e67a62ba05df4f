//! Scenarios in which a mutant acquires a lease that another contender holds. One mutant does not read back the owner
//! id of the record. The other mutant takes the lease over because it trusts the server's clock alone.

use testkit::proxy::{Fault, Kind, Proxy};
use testkit::servers::Flavour;

use super::scene::ScenarioResult::{self, Clean, TwoAlive};
use super::scene::{Scene, compare};

#[test]
fn without_the_read_back_every_attempt_counts_as_granted() {
    compare(Flavour::ALL, [("owner_id", TwoAlive)], |scene| {
        let port = scene.database.port;
        let _holder = scene.holder(scene.exec(port));
        ScenarioResult::of_next(&scene.next(scene.exec(port).arg("-n")).wait())
    });
}

#[test]
fn without_the_local_clock_a_server_clock_jump_creates_a_second_holder() {
    compare(Flavour::ALL, [("clock", TwoAlive)], |scene| {
        let port = scene.database.port;
        let _holder = scene.holder(scene.exec(port).args(["--ttl", "1m"]));
        // An earlier expiry time in the row has the same effect as a jump of the server's clock. The tests in `clocks`
        // change the clock.
        scene
            .database
            .run("UPDATE dlock_lock SET expires_at=expires_at-INTERVAL 1 HOUR");
        ScenarioResult::of_next(&scene.next(scene.exec(port).arg("-n")).wait())
    });
}

/// No mutant runs this scenario.
#[test]
fn grant_received_after_expiry_is_discarded_and_the_contender_queues() {
    let scene = Scene::new(Flavour::of_this_test(), "");
    let port = scene.database.port;
    let proxy = Proxy::to(port);
    let grant = proxy.next(Kind::TryAcquire, Fault::HoldResponse);
    let dlock = scene.exec(proxy.port()).args(["--ttl", "2s"]);
    let frozen = scene.next(dlock);
    grant.wait();
    frozen.signal("STOP");
    grant.let_go();

    let other = scene.holder(scene.exec(port));
    frozen.signal("CONT");
    proxy.wait_asked(Kind::WaitTurn, 1);
    scene.let_go();
    assert_eq!(ScenarioResult::of_healthy(&other.wait()), Clean);
    assert_eq!(ScenarioResult::of_next(&frozen.wait()), Clean);
}
