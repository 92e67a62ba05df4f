//! Scenarios in which a mutant acquires a lease that another contender holds. One mutant does not read back the owner
//! id of the record. The other mutant takes the lease over because it trusts the server's clock alone.

use testkit::servers::Flavour;

use super::scene::ScenarioResult::{self, TwoAlive};
use super::scene::compare;

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
