//! Findings about proxies between dlock and the server, and about connect steps that fail.

use testkit::cli_runner::Dlock;
use testkit::network::{local, refusing};
use testkit::proxy::{AcceptMode, Fault, Kind, Port, Proxy};
use testkit::servers::{Flavour, Series, shared};

use super::{CHECKS, Findings, set_up};

#[test]
fn a_proxy_that_changes_the_protocol_is_recognised() {
    for series in Series::ALL {
        let database = set_up(shared(series));
        // This proxy changes the connection id in the greeting. The id is in the four bytes after the version.
        let greeting = Proxy::tampering(database.port, |greeting| {
            let mut greeting = greeting.to_vec();
            let end = greeting.iter().skip(5).position(|byte| *byte == 0);
            greeting[5 + end.expect("a version") + 1] ^= 0x55;
            greeting
        });
        let findings = Findings::through(&greeting, &database);
        findings.reports("proxy", "warn", "sends its own greeting");
        findings.are_good_except(&["proxy"]);
        assert_eq!(findings.status, 0);

        // This proxy simulates that each request runs in another session.
        let moving = Proxy::rewriting(database.port, "CONNECTION_ID()", "UUID_SHORT()+00");
        let findings = Findings::through(&moving, &database);
        findings.reports("proxy", "warn", "changing sessions");
        findings.are_good_except(&["proxy", "named-locks"]);

        // This proxy changes a session setting.
        let setting = Proxy::rewriting(database.port, "autocommit=1", "autocommit=0");
        let findings = Findings::through(&setting, &database);
        findings.reports("session", "fail", "autocommit=OFF, not ON");
        assert_eq!(findings.status, 78);
    }
}

#[test]
fn a_failed_connect_step_is_reported_and_later_checks_are_skipped() {
    let closed = Port::reserve(local(0)).expect("127.0.0.1 has a free port");
    let closed_port = closed.number();
    let full = refusing(1040, "Too many connections");
    let run = |url: &str| Findings::of(Dlock::new([""; 0]).env("DLOCK_URL", url));
    let ends = |url: &str, check: &str, status: i32, fact: &str| {
        let findings = run(url);
        findings.reports(check, "fail", fact);
        assert_eq!(findings.status, status, "{findings:#?}");
        let at = CHECKS
            .iter()
            .position(|name| *name == check)
            .expect("the check exists");
        for (position, name) in CHECKS.iter().enumerate() {
            let wanted = match position.cmp(&at) {
                std::cmp::Ordering::Less => "ok",
                std::cmp::Ordering::Equal => "fail",
                std::cmp::Ordering::Greater => "skip",
            };
            assert_eq!(findings.status(name), [wanted], "{name} in {findings:#?}");
        }
    };
    let unknown = "mysql://u@unknown.invalid/d?ssl-mode=disabled";
    ends(unknown, "address", 69, "cannot resolve");
    ends(
        &format!("mysql://u@127.0.0.1:{closed_port}/d"),
        "connect",
        69,
        "refused",
    );
    ends(
        &format!("mysql://u@127.0.0.1:{full}/d"),
        "connect",
        69,
        "Too many",
    );
    ends(
        "mysql://u@h/d?socket=/no/such",
        "connect",
        69,
        "No such file",
    );
    for series in Series::ALL {
        let database = shared(series).database("doctor");
        let url = database.url().replace(&database.password, "another");
        ends(&url, "login", 77, "Access denied");
    }
    let plain = shared(Flavour::MariaDb).database("doctor");
    let url = format!("{}?ssl-mode=required", plain.url());
    ends(&url, "tls", 78, "does not offer TLS");
    let encrypted = shared(Flavour::MySql).database("doctor");
    let url = format!("{}?ssl-mode=verify_ca", encrypted.url());
    ends(&url, "tls", 78, "failed");
    // TLS without verification of the certificate is a warning.
    let url = format!("{}?ssl-mode=required", encrypted.url());
    run(&url).reports("tls", "warn", "with any certificate");
}

#[test]
fn a_silent_server_times_out() {
    let silent = Proxy::to(0);
    silent.door(AcceptMode::Silent);
    let url = format!("mysql://u@127.0.0.1:{}/d", silent.port());
    let findings = Findings::of(Dlock::new([""; 0]).env("DLOCK_URL", url));
    findings.reports("connect", "fail", "no response in time");
    assert_eq!(findings.status, 69, "{findings:#?}");
}

#[test]
fn an_unreadable_file_skips_the_other_checks() {
    let url = "mysql://u@127.0.0.1/d?ssl-mode=verify_ca&ssl-ca=/no/such/file";
    let findings = Findings::of(Dlock::new([""; 0]).env("DLOCK_URL", url));
    findings.reports("tls", "fail", "cannot read /no/such/file");
    assert_eq!(findings.status("address"), ["skip"]);
    assert_eq!(findings.status, 78);
}

#[test]
fn the_server_is_checked_even_without_the_database() {
    for series in Series::ALL {
        let database = shared(series).database("doctor");
        let socket = shared(series).socket().to_str().expect("UTF-8").to_owned();
        let as_root = ["--user", "root", "--socket", &socket, "--database", "none"];
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
    for series in Series::ALL {
        let database = set_up(shared(series));
        let proxy = Proxy::to(database.port);
        proxy.next(Kind::WaitTurn, Fault::Reset);
        let findings = Findings::through(&proxy, &database);
        findings.reports("named-locks", "skip", "no response");
        findings.are_good_except(&["named-locks"]);

        let case = proxy.next(Kind::WaitTurn, Fault::HoldRequest);
        let url = database.url_through(proxy.port());
        let run = Dlock::new(["doctor"]).env("DLOCK_URL", url).start();
        case.wait();
        proxy.door(AcceptMode::Refused);
        proxy.reset();
        let outcome = run.wait();
        assert_eq!(outcome.status, Some(69), "{outcome:#?}");
        assert!(
            outcome.stdout.contains("fail  named-locks   no response"),
            "{outcome:#?}"
        );
        assert!(outcome.stdout.contains("ok    tables"), "{outcome:#?}");
        assert!(
            outcome.stdout.contains("skip  round-trip    not checked"),
            "{outcome:#?}"
        );
    }
}
