//! Findings about proxies between dlock and the server, and about connect steps that fail.

use testkit::cli_runner::Dlock;
use testkit::network::{local, refusing};
use testkit::on_each_flavour;
use testkit::proxy::{AcceptMode, Fault, Kind, Port, Proxy};
use testkit::servers::{Flavour, shared};

use super::{CHECKS, Findings};

on_each_flavour!(a_proxy_or_server_that_changes_a_response_is_recognised);
fn a_proxy_or_server_that_changes_a_response_is_recognised(flavour: Flavour) {
    let database = shared(flavour).set_up("doctor");
    let through = |proxy: &Proxy| Findings::at(&database.url_through(proxy.port()));
    // This proxy changes the connection id in the greeting. The id is in the four bytes after the version.
    let findings = through(&Proxy::tampering(database.port, |greeting| {
        let mut greeting = greeting.to_vec();
        let end = greeting.iter().skip(5).position(|byte| *byte == 0);
        greeting[5 + end.expect("a version") + 1] ^= 0x55;
        greeting
    }));
    findings.reports("proxy", "warn", "sends its own greeting");
    findings.are_good_except(&["proxy"]);
    assert_eq!(findings.status, 0);
    let rewrites = |text, replacement| through(&Proxy::rewriting(database.port, text, replacement));
    let setting = rewrites("autocommit=1", "autocommit=0");
    setting.reports("session", "fail", "autocommit=OFF, not ON");
    assert_eq!(setting.status, 78);
    let slow = rewrites("1 AS round_trip", "SLEEP(.6) AS rt");
    slow.reports("round-trip", "fail", "median of 3 requests");
    assert_eq!(slow.status, 78);
    // If each request runs in another session, no session has a named lock. The function INTERVAL returns success to
    // every session, although no session holds the lock.
    let (session, named, time) = ("CONNECTION_ID()", "named-locks", "UTC_TIMESTAMP(6)");
    let refuses = "the server refuses named locks";
    let moves = "a named lock does not stay with its session";
    let behind = "behind this machine's";
    for (text, replacement, check, fact) in [
        (session, "UUID_SHORT()+00", "proxy", "changing sessions"),
        ("GET_LOCK(", "NO_LOCK1(", named, refuses),
        ("GET_LOCK(", "INTERVAL(", named, moves),
        (time, "'2020-01-01 0:0'", "clock", behind),
        ("VERSION()", "'5.5.62-'", "server", "5.5.62-"),
    ] {
        let findings = rewrites(text, replacement);
        findings.reports(check, "warn", fact);
        let except = if check == "proxy" { named } else { check };
        findings.are_good_except(&[check, except]);
        assert_eq!(findings.status, 0, "{findings:#?}");
    }
}

#[test]
fn a_failed_connect_step_is_reported_and_later_checks_are_skipped() {
    let closed = Port::reserve(local(0)).expect("127.0.0.1 has a free port");
    let at = |port: u16| format!("mysql://u@127.0.0.1:{port}/d");
    let silent = Proxy::to(0);
    silent.door(AcceptMode::Silent);
    let plain = shared(Flavour::MariaDb).database("doctor");
    let encrypted = shared(Flavour::MySql).database("doctor");
    let [plain_login, login] =
        [&plain, &encrypted].map(|login| login.url().replace(&login.password, "another"));
    let unknown = "mysql://u@unknown.invalid/d?ssl-mode=disabled";
    let full = at(refusing(1040, "Too many connections"));
    let no_tls = format!("{}?ssl-mode=required", plain.url());
    let wrong_ca = format!("{}?ssl-mode=verify_ca", encrypted.url());
    let socket = "mysql://u@h/d?socket=/no/such";
    for (url, check, status, fact) in [
        (unknown, "address", 69, "cannot resolve"),
        (&at(closed.number()), "connect", 69, "refused"),
        (&full, "connect", 69, "Too many"),
        (&at(silent.port()), "connect", 69, "no response in time"),
        (socket, "connect", 69, "No such file"),
        (&plain_login, "login", 77, "Access denied"),
        (&login, "login", 77, "Access denied"),
        (&no_tls, "tls", 78, "does not offer TLS"),
        (&wrong_ca, "tls", 78, "failed"),
    ] {
        let findings = Findings::at(url);
        findings.reports(check, "fail", fact);
        assert_eq!(findings.status, status, "{findings:#?}");
        let mut wanted = "ok";
        for name in CHECKS.split(' ') {
            let is_cause = name == check;
            let status = if is_cause { "fail" } else { wanted };
            assert_eq!(findings.status(name), [status], "{name} in {findings:#?}");
            wanted = if is_cause { "skip" } else { wanted };
        }
    }
    // TLS without verification of the certificate is a warning.
    let url = format!("{}?ssl-mode=required", encrypted.url());
    Findings::at(&url).reports("tls", "warn", "with any certificate");
    // An unreadable file skips the other checks.
    let findings = Findings::at("mysql://u@127.0.0.1/d?ssl-mode=verify_ca&ssl-ca=/no/such/file");
    findings.reports("tls", "fail", "cannot read /no/such/file");
    assert_eq!(findings.status("address"), ["skip"]);
    assert_eq!(findings.status, 78);
}

#[test]
fn the_server_is_checked_even_without_the_database() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("doctor");
        let socket = shared(flavour).socket().to_str().expect("UTF-8");
        let as_root = ["--user", "root", "--socket", socket, "--database", "none"];
        let findings = Findings::of(Dlock::new(as_root));
        let fix = findings.reports("database", "fail", "Unknown database");
        assert!(fix.contains("create the database"), "{fix}");
        assert_eq!(findings.status, 78);
        findings.are_good_except(&["database", "grants", "tables"]);
        assert_eq!(findings.status("tables"), ["skip"]);

        let other = Dlock::new(["--database", "mysql"]).env("DLOCK_URL", database.url());
        let findings = Findings::of(other);
        findings.reports("database", "fail", "Access denied");
        assert_eq!(findings.status, 77);
        assert_eq!(findings.status("named-locks"), ["ok"]);
    }
}

#[test]
fn a_lost_session_skips_one_check_and_a_lost_server_ends_the_run() {
    let database = shared(Flavour::of_this_test()).set_up("doctor");
    let proxy = Proxy::to(database.port);
    let url = database.url_through(proxy.port());
    proxy.next(Kind::WaitTurn, Fault::Reset);
    let findings = Findings::at(&url);
    findings.reports("named-locks", "skip", "no response");
    findings.are_good_except(&["named-locks"]);

    let case = proxy.next(Kind::WaitTurn, Fault::HoldRequest);
    let run = Dlock::new(["doctor"]).env("DLOCK_URL", url).start();
    case.wait();
    proxy.door(AcceptMode::Refused);
    proxy.reset();
    let outcome = run.wait();
    assert_eq!(outcome.status, Some(69), "{outcome:#?}");
    for line in [
        "fail  named-locks   no response",
        "ok    tables",
        "skip  round-trip    not checked",
    ] {
        assert!(outcome.stdout.contains(line), "{outcome:#?}");
    }
}
