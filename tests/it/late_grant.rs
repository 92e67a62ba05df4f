//! Tests that a contender discards a grant if the response arrives after the lease has expired.

use testkit::proxy::{Fault, Kind, Proxy};
use testkit::servers::Flavour;

use crate::mutants::scene::{ScenarioResult, Scene};

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
    let healthy = ScenarioResult::of_healthy(&other.wait());
    assert_eq!(healthy, ScenarioResult::Clean);
    let next = ScenarioResult::of_next(&frozen.wait());
    assert_eq!(next, ScenarioResult::Clean);
}
