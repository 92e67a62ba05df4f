//! Tests behind HAProxy and MySQL Router.

use std::time::{Duration, Instant};

use crate::cli_runner::Dlock;
use crate::doctor::Findings;
use crate::holder::Holder;
use crate::middle::Middle;
use crate::servers::{Flavour, shared};

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
    let findings = Findings::of(Dlock::new([""; 0]).env("DLOCK_URL", url));
    findings.are_good_except(&["proxy"]);
}

#[test]
fn dlock_works_behind_haproxy() {
    for flavour in Flavour::ALL {
        let server = shared(flavour);
        let middle = Middle::haproxy(server);
        works(&server.database("haproxy").url_through(middle.port()));
    }
}

#[test]
fn dlock_works_behind_mysql_router() {
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
    Dlock::new(["exec", "-a", "init", "--", "true"])
        .env("DLOCK_URL", &url)
        .run()
        .expect(
            78,
            "",
            "set connection_sharing=0 in the route that dlock uses",
        );
    // dlock does not retry. The default of --connect-timeout is much longer.
    assert!(started.elapsed() < Duration::from_secs(30));
    let findings = Findings::of(Dlock::new([""; 0]).env("DLOCK_URL", &url));
    let fix = findings.reports("proxy", "fail", "error 4501");
    assert!(fix.contains("connection_sharing=0"), "{fix}");
    assert_eq!(findings.status, 78, "{findings:#?}");
    assert_eq!(findings.status("server"), ["skip"]);
}
