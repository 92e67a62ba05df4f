//! The twins that take a reply for more than it is: without counting from the send, without dropping
//! a connection that has seen an error, without asking whose reply it is.
//!
//! Times are from the send of the renewal that all is about, for a ttl of 6 s.

use std::time::{Duration, Instant};

use super::scene::{Scene, Verdict, compare, heard_or_over};
use crate::dlock::eventually;
use crate::proxy::{Fault, Kind, Proxy};

/// A slow network and then none. The reply comes 2.3 s late, byte by byte, so that no limit strikes.
/// The lease ends at 6 s and is taken over at 6.9 s; counted from the reply it ended at 8.3 s.
#[test]
fn without_counting_from_the_send_a_slow_reply_makes_a_lease_too_long() {
    compare("send", Verdict::TwoAlive, 1, |scene| {
        let proxy = Proxy::to(scene.database.port);
        let _holder = scene.holder(scene.exec(proxy.port()).args(["--ttl", "6s"]));
        let waiter = scene.waiter();
        let slow = proxy.next(Kind::Renew, Fault::Drip(Duration::from_millis(100)));
        proxy.every(Kind::Renew, Fault::LoseRequest);
        slow.wait();
        let late = Instant::now() + Duration::from_millis(2300);
        eventually("the reply is late", || Instant::now() >= late);
        slow.let_go();
        Verdict::of_next(&waiter.wait())
    });
}

/// A reply that comes later than anybody waits for it. On a connection that is kept, every question
/// from then on gets the reply to the one before.
#[test]
fn without_dropping_the_connection_a_reply_that_comes_too_late_ends_in_a_killed_command() {
    compare("connection", Verdict::Killed, 1, |scene| {
        let proxy = Proxy::to(scene.database.port);
        let mut holder = scene.holder(scene.exec(proxy.port()).args(["--ttl", "3s"]));
        let late = proxy.next(Kind::Renew, Fault::HoldReply);
        holder.heard("cannot renew init");
        late.let_go();
        heard_or_over(&mut holder, "is renewed again");
        scene.let_go();
        Verdict::of_healthy(&holder.wait())
    });
}

#[test]
fn without_connection_and_number_a_late_reply_is_taken_for_another_and_makes_a_lease_too_long() {
    compare("connection,number", Verdict::TwoAlive, 1, a_late_reply);
}

#[test]
fn a_late_reply_is_not_taken_for_another_if_the_connection_is_dropped() {
    compare("number", Verdict::Clean, 1, a_late_reply);
}

#[test]
fn a_late_reply_is_not_taken_for_another_if_it_must_carry_a_number() {
    compare("connection", Verdict::Clean, 1, a_late_reply);
}

/// The reply to a renewal is held, and those after it never arrive. As if it were the reply to the
/// second of these, it is let go: the lease ends at 6 s, and for who took it for that at 8.5 s.
fn a_late_reply(scene: &Scene) -> Verdict {
    let proxy = Proxy::to(scene.database.port);
    let options = ["--ttl", "6s", "--grace", "0"];
    let mut holder = scene.holder(scene.exec(proxy.port()).args(options));
    let waiter = scene.waiter();
    let late = proxy.next(Kind::Renew, Fault::HoldReply);
    let lost = proxy.every(Kind::Renew, Fault::LoseRequest);
    eventually("two renewals are lost", || {
        lost.hits() > 1 || holder.is_over()
    });
    late.let_go();
    Verdict::of_next(&waiter.wait())
}
