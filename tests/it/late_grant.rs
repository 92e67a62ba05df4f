//! Tests that a contender discards a grant if the response arrives after the lease has expired.

use testkit::proxy::{Fault, Kind, Proxy};
use testkit::servers::Flavour;

use crate::mutants::scene::{ScenarioResult, Scene};

#[test]
fn grant_received_after_expiry_is_discarded_and_the_contender_queues() {
    for flavour in Flavour::ALL {
        let scene = Scene::new(flavour, "");
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
        assert_eq!(
            ScenarioResult::of_healthy(&other.wait()),
            ScenarioResult::Clean
        );
        assert_eq!(
            ScenarioResult::of_next(&frozen.wait()),
            ScenarioResult::Clean
        );
    }
}
