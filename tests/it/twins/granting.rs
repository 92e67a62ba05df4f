//! The twins that take what is another's: without reading back whose the row is, and without any
//! proof but the server's clock that the holder is gone.

use mysql::prelude::Queryable;

use super::scene::{Verdict, compare};

#[test]
fn without_reading_the_row_back_whoever_asks_is_granted_the_lease() {
    compare("claim", Verdict::TwoAlive, 1, |scene| {
        let port = scene.database.port;
        let _holder = scene.holder(scene.exec(port));
        Verdict::of_next(&scene.next(scene.exec(port).arg("-n")).wait())
    });
}

#[test]
fn without_the_own_clock_a_step_of_the_servers_makes_a_second_holder() {
    compare("clock", Verdict::TwoAlive, 1, |scene| {
        let port = scene.database.port;
        let _holder = scene.holder(scene.exec(port).args(["--ttl", "1m"]));
        // To this row it is all the same whether the clock goes forward or the row goes back; the
        // clock itself is set in `clocks`.
        scene
            .database
            .admin_conn()
            .query_drop("UPDATE dlock_lock SET expires_at=expires_at-INTERVAL 1 HOUR")
            .expect("the row can be changed");
        Verdict::of_next(&scene.next(scene.exec(port).arg("-n")).wait())
    });
}
