//! A grant whose reply comes when its lease is over: it counts for nothing.

use crate::proxy::{Fault, Kind, Proxy};
use crate::servers::Flavour;
use crate::twins::scene::{Scene, Verdict};

#[test]
fn who_was_frozen_when_the_grant_came_and_thaws_when_it_is_over_stands_in_line() {
    for flavour in Flavour::ALL {
        let scene = Scene::new(flavour, "");
        let port = scene.database.port;
        let proxy = Proxy::to(port);
        let grant = proxy.next(Kind::Attempt, Fault::HoldReply);
        let dlock = scene.exec(proxy.port()).args(["--ttl", "2s"]);
        let frozen = scene.next(dlock);
        grant.wait();
        frozen.signal("STOP");
        grant.let_go();

        let other = scene.holder(scene.exec(port));
        frozen.signal("CONT");
        proxy.wait_asked(Kind::Stand, 1);
        scene.let_go();
        assert_eq!(Verdict::of_healthy(&other.wait()), Verdict::Clean);
        assert_eq!(Verdict::of_next(&frozen.wait()), Verdict::Clean);
    }
}
