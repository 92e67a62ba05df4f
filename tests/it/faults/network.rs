//! Everything between dlock and its server fails: for less than a lease, and for longer.

use std::time::Duration;

use super::{Scene, on_each, on_each_case};
use crate::dlock::eventually;
use crate::proxy::{Door, Fault, Flow, Kind, Port, Proxy, packet};
use crate::servers::{Flavour, shared};

/// A way in which the network fails.
type Cut = (&'static str, fn(&Proxy));

const CUTS: [Cut; 10] = [
    ("cut both ways", |proxy| proxy.both(Flow::Hold)),
    ("requests are cut off", |proxy| proxy.requests(Flow::Hold)),
    ("replies are cut off", |proxy| proxy.replies(Flow::Hold)),
    ("requests are lost", |proxy| proxy.requests(Flow::Lose)),
    ("replies are lost", |proxy| proxy.replies(Flow::Lose)),
    (REQUESTS_DRIP, |proxy| proxy.requests(A_BYTE_A_SECOND)),
    ("replies drip", |proxy| proxy.replies(A_BYTE_A_SECOND)),
    ("reset and silence after accept", |proxy| {
        proxy.door(Door::Silent);
        proxy.reset();
    }),
    ("reset, and again on each connect", |proxy| {
        proxy.door(Door::Reset);
        proxy.reset();
    }),
    ("closed and refused", |proxy| {
        proxy.door(Door::Refused);
        proxy.close();
    }),
];

const REQUESTS_DRIP: &str = "requests drip";

const A_BYTE_A_SECOND: Flow = Flow::Drip(Duration::from_secs(1));

fn mend(proxy: &Proxy) {
    proxy.both(Flow::Pass);
    proxy.door(Door::Open);
}

/// The server waits for the rest of a request that has begun to arrive, with the gate in its hand. So here those who
/// wait are held up for as long as somebody feeds it.
fn stop_feeding(scene: &Scene, name: &str) {
    if name == REQUESTS_DRIP {
        mend(&scene.proxy);
    }
}

#[test]
fn a_cut_shorter_than_the_lease_never_touches_the_command() {
    on_each_case(&CUTS, |scene, _, cut| {
        let holder = scene.holder(&[]);
        cut(&scene.proxy);
        holder.running.heard("cannot renew init: ");
        mend(&scene.proxy);
        holder.running.heard("init is renewed again after ");
        holder.unharmed();
        scene.free();
        scene.over(&["holder"]);
    });
}

#[test]
fn a_cut_longer_than_the_lease_stops_the_command_before_anybody_else_runs() {
    on_each_case(&CUTS, |scene, name, cut| {
        let holder = scene.stubborn_holder("3s");
        let contender = scene.contender();
        scene.queued();
        cut(&scene.proxy);
        let outcome = holder.running.wait();
        outcome.expect(76, "term\n", "cannot keep init: ");
        stop_feeding(scene, name);
        assert_eq!(contender.wait().status, Some(0), "the contender");
        scene.over(&["holder", "contender"]);
    });
}

#[test]
fn a_cut_during_the_release_changes_nothing_but_a_message() {
    on_each_case(&CUTS, |scene, name, cut| {
        let holder = scene.holder(&["--ttl", "3s"]);
        cut(&scene.proxy);
        let outcome = holder.end();
        outcome.expect(4, "", "cannot release init: ");
        stop_feeding(scene, name);
        assert_eq!(scene.contender().wait().status, Some(0), "the contender");
        scene.over(&["holder", "contender"]);
    });
}

#[test]
fn a_server_that_cannot_be_reached_in_time_gives_69_and_runs_nothing() {
    on_each_case(&CUTS, |scene, name, cut| {
        cut(&scene.proxy);
        let options = ["--db-wait", "1s"];
        let outcome = scene.faulty("nobody", &options, "").run();
        outcome.expect(69, "", "gave up after ");
        assert_eq!(scene.witness(), "", "{name}");
    });
}

#[test]
fn a_server_that_comes_back_within_db_wait_runs_the_command() {
    on_each_case(&CUTS, |scene, _, cut| {
        cut(&scene.proxy);
        let running = scene.faulty("late", &[], "exit 4").start();
        // A login that drips may take longer than anybody waits before it is given up.
        eventually("it is cut off", || {
            scene.proxy.connections() > 0 || running.said().contains("trying again")
        });
        mend(&scene.proxy);
        assert_eq!(running.wait().status, Some(4));
        scene.over(&["late"]);
    });
}

#[test]
fn bytes_out_of_the_blue_cost_the_connection_and_no_more() {
    on_each(|flavour| {
        let scene = Scene::new(flavour);
        let holder = scene.holder(&[]);
        let old = scene.proxy.next(Kind::Renew, Fault::Drip(Duration::ZERO));
        old.wait();
        let changed = packet(1, &[0, 1, 0, 2, 0, 0, 0]);
        let refused = packet(1, b"\xff\x15\x04#28000Access denied");
        for bytes in [
            &old.reply(),
            &changed,
            &refused,
            &b"HTTP/1.1 400\r\n".to_vec(),
        ] {
            let before = scene.proxy.connections();
            scene.proxy.inject(bytes);
            scene.proxy.wait_connections(before + 1);
            scene.renewed();
        }
        holder.unharmed();
        scene.free();
    });
}

#[test]
fn a_fail_over_to_the_same_rows_is_a_blip_and_to_others_a_lost_lease() {
    on_each(|flavour| {
        let scene = Scene::new(flavour);
        let other = match flavour {
            Flavour::MariaDb => Flavour::MySql,
            Flavour::MySql => Flavour::MariaDb,
        };
        // The same account and database there, and nobody has the lock.
        scene.database.create(&mut shared(other).admin());
        let there = Proxy::to(shared(other).port());
        let url = scene.database.url_through(there.port());
        let dlock = crate::dlock::Dlock::new(["exec", "-a", "init", "--", "true"]);
        dlock.env("DLOCK_URL", url).run().expect(0, "", "");

        let holder = scene.stubborn_holder("6s");
        let same = Proxy::to(scene.database.port);
        scene.proxy.retarget(same.port());
        scene.proxy.reset();
        holder.running.heard("init is renewed again after ");
        assert!(same.asked(Kind::Renew) > 0, "{flavour}: by the other way");

        let nobody = Port::claim(crate::network::local(0)).expect("127.0.0.1 has a port");
        let port = nobody.number();
        scene.proxy.retarget(port);
        scene.proxy.reset();
        scene.proxy.retarget(there.port());
        let outcome = holder.running.wait();
        outcome.expect(76, "term\n", "its row was freed by somebody else");
    });
}
