//! Mutants that misinterpret a response: one counts the lease from the response instead of the send, one keeps a connection
//! that has seen an error, and one does not check which request a response belongs to.
//!
//! Times count from the send of the renewal in question, for a ttl of 6 s.

use std::time::{Duration, Instant};

use super::scene::{Scene, Verdict, compare, heard_or_exited};
use crate::cli_runner::eventually;
use crate::proxy::{Fault, Kind, Proxy};

/// The network is slow and then fails. The response arrives 2.3 s late, byte by byte, so that no timeout expires. The
/// lease expires at 6 s and is taken over at 6.9 s; counted from the response it would expire at 8.3 s.
#[test]
fn without_counting_from_the_send_a_slow_response_extends_the_lease() {
    compare("send", Verdict::TwoAlive, 1, |scene| {
        let proxy = Proxy::to(scene.database.port);
        let _holder = scene.holder(scene.exec(proxy.port()).args(["--ttl", "6s"]));
        let waiter = scene.waiter();
        let slow = proxy.next(Kind::Renew, Fault::Drip(Duration::from_millis(100)));
        proxy.every(Kind::Renew, Fault::LoseRequest);
        slow.wait();
        let late = Instant::now() + Duration::from_millis(2300);
        eventually("the response is late", || Instant::now() >= late);
        slow.let_go();
        Verdict::of_next(&waiter.wait())
    });
}

/// A response arrives after its request has timed out. On a connection that is kept, every later request gets the response to
/// the previous one.
#[test]
fn without_dropping_the_connection_a_late_response_kills_a_command() {
    compare("connection", Verdict::Killed, 1, |scene| {
        let proxy = Proxy::to(scene.database.port);
        let mut holder = scene.holder(scene.exec(proxy.port()).args(["--ttl", "3s"]));
        let late = proxy.next(Kind::Renew, Fault::HoldResponse);
        holder.heard("cannot renew init");
        late.let_go();
        heard_or_exited(&mut holder, "is renewed again");
        scene.let_go();
        Verdict::of_healthy(&holder.wait())
    });
}

#[test]
fn without_connection_and_number_a_late_response_extends_the_lease() {
    compare("connection,number", Verdict::TwoAlive, 1, a_late_response);
}

#[test]
fn late_response_is_not_mismatched_if_the_connection_is_dropped() {
    compare("number", Verdict::Clean, 1, a_late_response);
}

#[test]
fn late_response_is_not_mismatched_if_its_number_is_checked() {
    compare("connection", Verdict::Clean, 1, a_late_response);
}

/// The proxy holds the response to one renewal and loses the renewals after it. Then it delivers the held response, as if it
/// were the response to the second lost renewal. The lease expires at 6 s; for a holder that mismatches the response, at
/// 8.5 s.
fn a_late_response(scene: &Scene) -> Verdict {
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
    Verdict::of_next(&waiter.wait())
}
