//! The network between dlock and the server fails for a shorter or longer time than the lease lasts.

use std::time::Duration;

use testkit::cli_runner::eventually;
use testkit::proxy::{AcceptMode, Fault, Flow, Kind, Proxy, packet};

use super::{Scene, on_each, on_each_case};

/// A name and a function that interrupts the network.
type Cut = (&'static str, fn(&Proxy));

const CUTS: [Cut; 10] = [
    ("cut both ways", |proxy| proxy.both(Flow::Hold)),
    ("requests are cut off", |proxy| proxy.requests(Flow::Hold)),
    ("responses are cut off", |proxy| proxy.responses(Flow::Hold)),
    ("requests are lost", |proxy| proxy.requests(Flow::Lose)),
    ("responses are lost", |proxy| proxy.responses(Flow::Lose)),
    (REQUESTS_DRIP, |proxy| proxy.requests(A_BYTE_A_SECOND)),
    ("responses drip", |proxy| proxy.responses(A_BYTE_A_SECOND)),
    ("reset, then silence after each accept", |proxy| {
        proxy.door(AcceptMode::Silent);
        proxy.reset();
    }),
    ("reset, and again on each connect", |proxy| {
        proxy.door(AcceptMode::Reset);
        proxy.reset();
    }),
    ("closed and refused", |proxy| {
        proxy.door(AcceptMode::Refused);
        proxy.close();
    }),
];

const REQUESTS_DRIP: &str = "requests drip";

const A_BYTE_A_SECOND: Flow = Flow::Drip(Duration::from_secs(1));

fn restore(proxy: &Proxy) {
    proxy.both(Flow::Pass);
    proxy.door(AcceptMode::Open);
}

/// Restores the network if `name` is [`REQUESTS_DRIP`]. While the bytes of a request drip, the server waits for the end
/// of the request and the session keeps the queue lock, so contenders could not acquire the lock.
fn stop_dripping(scene: &Scene, name: &str) {
    if name == REQUESTS_DRIP {
        restore(&scene.proxy);
    }
}

#[test]
fn a_short_cut_delays_the_start_or_returns_69_and_does_not_affect_the_command() {
    on_each_case(&CUTS, |scene, name, cut| {
        cut(&scene.proxy);
        let options = ["--connect-timeout", "1s"];
        let outcome = scene.faulty("nobody", &options, "").run();
        outcome.expect(69, "", "gave up after ");
        assert_eq!(scene.witness(), "", "{name}");

        let connections = scene.proxy.connections();
        // The ttl is long, so that a busy machine can renew the lease after the second cut.
        let holder = scene.start("holder", &["--ttl", "10s"], "");
        // If the login drips, the first attempt may time out later than `eventually` does, so the test then waits only
        // for a connection.
        eventually("the connection is cut off", || {
            let is_connected = scene.proxy.connections() > connections;
            is_connected || holder.running.stderr_so_far().contains("trying again")
        });
        restore(&scene.proxy);
        let holder = holder.up();

        cut(&scene.proxy);
        holder.running.wait_for_output("cannot renew init: ");
        restore(&scene.proxy);
        let renewed = "init is renewed again after ";
        holder.running.wait_for_output(renewed);
        holder.unharmed();
        scene.free();
        scene.over(&["holder"]);
    });
}

#[test]
fn a_cut_longer_than_the_lease_stops_the_command_before_the_next_runs() {
    on_each_case(&CUTS, |scene, name, cut| {
        let (contender, ()) = scene.stops_if(|| cut(&scene.proxy));
        stop_dripping(scene, name);
        assert_eq!(contender.wait().status, Some(0), "the contender");
        restore(&scene.proxy);

        // The next cut begins before the release.
        let holder = scene.holder(&[]);
        cut(&scene.proxy);
        holder.end().expect(4, "", "cannot release init: ");
        stop_dripping(scene, name);
        assert_eq!(scene.contender().wait().status, Some(0), "the contender");
        scene.over(&["holder", "contender", "holder", "contender"]);
    });
}

#[test]
fn unexpected_bytes_cost_only_the_connection() {
    on_each(|flavour| {
        let scene = Scene::new(flavour);
        let holder = scene.holder(&[]);
        let old = scene.proxy.next(Kind::Renew, Fault::Drip(Duration::ZERO));
        old.wait();
        for bytes in [
            old.response(),
            packet(1, &[0, 1, 0, 2, 0, 0, 0]),
            packet(1, b"\xff\x15\x04#28000Access denied"),
            b"HTTP/1.1 400\r\n".to_vec(),
        ] {
            let before = scene.proxy.connections();
            scene.proxy.inject(&bytes);
            scene.proxy.wait_connections(before + 1);
            // The proxy injects bytes only into a connection that is complete, so this connection must be in use.
            scene.proxy.wait_more(Kind::Renew, 1);
            scene.renewed();
        }
        holder.unharmed();
        scene.free();
    });
}
