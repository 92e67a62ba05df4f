//! Tests behind HAProxy and MySQL Router.

use std::time::{Duration, Instant};

use testkit::cli_runner::{Dlock, Running, eventually};
use testkit::holder::Holder;
use testkit::middle::Middle;
use testkit::servers::{Flavour, shared};

use crate::doctor::Findings;
use crate::faults::on_each;
use crate::queue::{Queue, expect_success};

/// Asserts that holders and waiters work at `url`, and that doctor finds no problem.
#[track_caller]
fn works(url: &str) {
    let dlock = || Dlock::new(["exec"]).env("DLOCK_URL", url);
    let holder = Holder::start(dlock(), &[]);
    let exec = |options: &[&str]| {
        let dlock = dlock().args(["-a", "init"]).args(options);
        dlock.args(["--", "echo", "ran"])
    };
    exec(&["-n"]).run().expect(75, "", "init is held by");
    let waiter = exec(&["-v"]).start();
    waiter.wait_for_output("init is held by");
    assert_eq!(holder.end().status, Some(3));
    let outcome = waiter.wait();
    outcome.expect(0, "ran\n", "init is held by");
    assert!(!outcome.stderr.contains("named locks"), "{outcome:#?}");
    Findings::at(url).are_good_except(&["proxy"]);
}

#[test]
fn dlock_works_behind_haproxy_and_mysql_router() {
    on_each(|flavour| {
        let server = shared(flavour);
        let middle = Middle::haproxy(server);
        works(&server.database("haproxy").url_through(middle.port()));
    });
    let server = shared(Flavour::MySql);
    let middle = Middle::router(server, false);
    works(&server.database("router").url_through(middle.port()));
}

#[test]
fn a_router_that_shares_connections_is_refused_with_advice() {
    let server = shared(Flavour::MySql);
    let middle = Middle::router(server, true);
    let url = server.database("shared").url_through(middle.port());
    let url = format!("{url}?ssl-mode=required");
    let started = Instant::now();
    let exec = Dlock::new(["exec", "-a", "init", "--", "true"]).env("DLOCK_URL", &url);
    let advice = "set connection_sharing=0 in the route that dlock uses";
    exec.run().expect(78, "", advice);
    // dlock does not retry. The default of --connect-timeout is much longer.
    assert!(started.elapsed() < Duration::from_secs(30));
    let findings = Findings::at(&url);
    let fix = findings.reports("proxy", "fail", "error 4501");
    assert!(fix.contains("connection_sharing=0"), "{fix}");
    assert_eq!(findings.status, 78, "{findings:#?}");
    assert_eq!(findings.status("server"), ["skip"]);
}

/// Text that dlock prints when it has found out the limit of HAProxy.
const SILENCE: &str = "ends connections that are silent for 2s";

#[test]
fn holders_and_waiters_keep_a_connection_behind_a_proxy_that_ends_silent_ones() {
    on_each(|flavour| {
        let server = shared(flavour);
        let middle = Middle::haproxy_with_timeout(server, "2s");
        // Until it knows the limit, the holder is silent for 5 seconds, and loses the queue lock at each end.
        let mut queue = Queue::with_ttl(server, "30s");
        let url = queue.database.url_through(middle.port());
        let holder = queue.holder_through(&url);
        let mut waiters = Vec::new();
        for name in ["a", "b", "c", "d"] {
            waiters.push(queue.contender(name, &[]).env("DLOCK_URL", &url).start());
            let entry = format!("dlock_waiter WHERE holder='{name}'");
            eventually("the waiter has its entry", || queue.count(&entry) == 1);
        }
        // A contender searches for dead entries only if the first entry is old enough.
        queue.spread_arrivals(2);
        let database = queue.database.clone();
        let entries = || -> Vec<(u64, String)> {
            database.rows("SELECT position,enqueued_at FROM dlock_waiter ORDER BY holder")
        };
        let before = entries();
        // A queue head reads the record every second.
        holder.wait_for_output(SILENCE);
        eventually("the other waiters know the limit", || {
            let know = |waiter: &&Running| waiter.stderr_so_far().contains(SILENCE);
            waiters.iter().filter(know).count() >= 3
        });
        // Each of them now starts a new wait every second on one connection.
        let now: String = database.value("SELECT UTC_TIMESTAMP(6)");
        let are_connected = format!("COUNT(*)=4 FROM dlock_waiter WHERE last_seen_at>'{now}'");
        database.wait_until(are_connected);
        assert_eq!(entries(), before, "{flavour}");
        // The first waiter is the queue head.
        database.wait_until(
            "holder='a' FROM dlock_waiter WHERE session_id=IS_USED_LOCK(\
             CONCAT('dlock:',LEFT(SHA2(CONCAT(CAST(DATABASE() AS BINARY),x'00','init'),256),40)))",
        );
        let read =
            || -> (u64, u64) { database.value("SELECT session_id,renewals FROM dlock_lock") };
        let (mut session, mut before) = read();
        eventually("the holder renews four times in one session", || {
            let (current, renewals) = read();
            if current != session {
                (session, before) = (current, renewals);
            }
            renewals >= before + 4
        });
        queue.let_go();
        holder.wait().expect(3, "", SILENCE);
        expect_success(waiters);
        assert_eq!(queue.served(), ["a", "b", "c", "d"], "{flavour}");
    });
}
