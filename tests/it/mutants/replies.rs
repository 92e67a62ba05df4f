//! Scenarios in which a mutant misinterprets a response. One mutant measures the ttl from the response instead of from
//! the request. One mutant keeps a connection after an error. One mutant does not check to which request a response
//! belongs.
//!
//! Times in these comments are measured from the moment when dlock sends the renewal whose response is delayed. The ttl
//! is 6 s unless the test sets another ttl.

use std::time::{Duration, Instant};

use testkit::cli_runner::eventually;
use testkit::proxy::{Fault, Kind, Proxy};
use testkit::servers::Flavour;

use super::scene::ScenarioResult::{self, Clean, Killed, TwoAlive};
use super::scene::{compare, heard_or_exited};

/// The network is slow and then fails. The response arrives 2.3 s late and byte by byte, so no timeout expires. The
/// lease expires at 6 s, and the waiter takes it over at 6.9 s. If the ttl were measured from the response, the lease
/// would expire at 8.3 s.
#[test]
fn without_measuring_from_the_send_a_slow_response_extends_the_lease() {
    compare([Flavour::of_this_test()], [("send", TwoAlive)], |scene| {
        let proxy = Proxy::to(scene.database.port);
        let _holder = scene.holder(scene.exec(proxy.port()).args(["--ttl", "6s"]));
        let waiter = scene.waiter();
        let slow = proxy.next(Kind::Renew, Fault::Drip(Duration::from_millis(100)));
        proxy.every(Kind::Renew, Fault::LoseRequest);
        slow.wait();
        let late = Instant::now() + Duration::from_millis(2300);
        eventually("the response is late", || Instant::now() >= late);
        slow.let_go();
        ScenarioResult::of_next(&waiter.wait())
    });
}

/// The response to a request arrives after the request has timed out. If dlock keeps the connection, each later request
/// receives the response to the previous request.
#[test]
fn without_dropping_the_connection_a_late_response_kills_a_command() {
    compare(
        [Flavour::of_this_test()],
        [("connection", Killed)],
        |scene| {
            let proxy = Proxy::to(scene.database.port);
            let mut holder = scene.holder(scene.exec(proxy.port()).args(["--ttl", "6s"]));
            let late = proxy.next(Kind::Renew, Fault::HoldResponse);
            holder.wait_for_output("cannot renew init");
            late.let_go();
            heard_or_exited(&mut holder, "is renewed again");
            scene.let_go();
            ScenarioResult::of_healthy(&holder.wait())
        },
    );
}

/// The proxy holds the response to one renewal and drops all later renewals. Then the proxy delivers the held response
/// while the holder waits for the response to the second dropped renewal. The lease expires at 6 s. A holder that
/// accepts the held response calculates an expiry at 8.5 s.
#[test]
fn a_late_response_extends_the_lease_only_without_both_connection_and_number() {
    let mutants = [
        ("connection,number", TwoAlive),
        ("connection", Clean),
        ("number", Clean),
    ];
    compare([Flavour::of_this_test()], mutants, |scene| {
        let proxy = Proxy::to(scene.database.port);
        let options = ["--ttl", "6s", "--grace", "0"];
        let mut holder = scene.holder(scene.exec(proxy.port()).args(options));
        let waiter = scene.waiter();
        let late = proxy.next(Kind::Renew, Fault::HoldResponse);
        let lost = proxy.every(Kind::Renew, Fault::LoseRequest);
        eventually("two renewals are lost", || {
            lost.hits() > 1 || holder.is_over()
        });
        late.let_go();
        ScenarioResult::of_next(&waiter.wait())
    });
}
