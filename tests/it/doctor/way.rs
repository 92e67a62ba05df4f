//! What is between dlock and the database, and what is told where the way there ends early.

use super::{CHECKS, Findings, set_up};
use crate::dlock::Dlock;
use crate::network::{local, refusing};
use crate::proxy::{Door, Fault, Kind, Port, Proxy};
use crate::servers::{Flavour, shared};

#[test]
fn a_proxy_that_takes_part_is_recognised() {
    for flavour in Flavour::ALL {
        let database = set_up(shared(flavour));
        // Greets with an id of its own: the four bytes behind the version's end.
        let greeting = Proxy::tampering(database.port, |greeting| {
            let mut greeting = greeting.to_vec();
            let end = greeting.iter().skip(5).position(|byte| *byte == 0);
            greeting[5 + end.expect("a version") + 1] ^= 0x55;
            greeting
        });
        let findings = Findings::through(&greeting, &database);
        findings.tells("proxy", "note", "greets for the server");
        findings.are_good_except(&["proxy"]);
        assert_eq!(findings.status, 0);

        // Answers each question from another session.
        let moving = Proxy::rewriting(database.port, "CONNECTION_ID()", "UUID_SHORT()+00");
        let findings = Findings::through(&moving, &database);
        findings.tells("proxy", "note", "changing sessions");
        findings.are_good_except(&["proxy", "gate"]);

        // Drops what a session was set to.
        let setting = Proxy::rewriting(database.port, "autocommit=1", "autocommit=0");
        let findings = Findings::through(&setting, &database);
        findings.tells("session", "mend", "autocommit=OFF, not ON");
        assert_eq!(findings.status, 78);
    }
}

#[test]
fn a_way_that_ends_early_says_at_which_step_and_what_was_not_checked() {
    let nobody = Port::claim(local(0)).expect("127.0.0.1 has ports");
    let closed = nobody.number();
    let full = refusing(1040, "Too many connections");
    let run = |url: &str| Findings::of(Dlock::new([""; 0]).env("DLOCK_URL", url));
    let ends = |url: &str, check: &str, status: i32, fact: &str| {
        let findings = run(url);
        findings.tells(check, "mend", fact);
        assert_eq!(findings.status, status, "{findings:#?}");
        let at = CHECKS
            .iter()
            .position(|name| *name == check)
            .expect("one of them");
        for (place, name) in CHECKS.iter().enumerate() {
            let wanted = match place.cmp(&at) {
                std::cmp::Ordering::Less => "ok",
                std::cmp::Ordering::Equal => "mend",
                std::cmp::Ordering::Greater => "unchecked",
            };
            assert_eq!(findings.verdict(name), [wanted], "{name} in {findings:#?}");
        }
    };
    let unknown = "mysql://u@unknown.invalid/d?ssl-mode=disabled";
    ends(unknown, "address", 69, "cannot resolve");
    ends(
        &format!("mysql://u@127.0.0.1:{closed}/d"),
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
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("doctor");
        let url = database.url().replace(&database.password, "another");
        ends(&url, "login", 77, "Access denied");
    }
    let plain = shared(Flavour::MariaDb).database("doctor");
    let url = format!("{}?ssl-mode=required", plain.url());
    ends(&url, "tls", 78, "does not offer TLS");
    let encrypted = shared(Flavour::MySql).database("doctor");
    let url = format!("{}?ssl-mode=verify_ca", encrypted.url());
    ends(&url, "tls", 78, "failed");
    // Any certificate is better than none, and worse than one that is checked.
    let url = format!("{}?ssl-mode=required", encrypted.url());
    run(&url).tells("tls", "note", "with any certificate");
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let silent = Proxy::to(0);
    silent.door(Door::Silent);
    let url = format!("mysql://u@127.0.0.1:{}/d", silent.port());
    let findings = Findings::of(Dlock::new([""; 0]).env("DLOCK_URL", url));
    findings.tells("connect", "mend", "no answer in time");
    assert_eq!(findings.status, 69, "{findings:#?}");
}

#[test]
fn a_file_that_cannot_be_read_leaves_all_else_unchecked() {
    let url = "mysql://u@127.0.0.1/d?ssl-mode=verify_ca&ssl-ca=/no/such/file";
    let findings = Findings::of(Dlock::new([""; 0]).env("DLOCK_URL", url));
    findings.tells("tls", "mend", "cannot read /no/such/file");
    assert_eq!(findings.verdict("address"), ["unchecked"]);
    assert_eq!(findings.status, 78);
}

#[test]
fn without_its_database_a_server_is_looked_at_all_the_same() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("doctor");
        let socket = shared(flavour).socket().to_str().expect("UTF-8").to_owned();
        let as_root = ["--user", "root", "--socket", &socket, "--database", "none"];
        let findings = Findings::of(Dlock::new(as_root));
        let remedy = findings.tells("database", "mend", "Unknown database");
        assert!(remedy.contains("create it"), "{remedy}");
        assert_eq!(findings.status, 78);
        findings.are_good_except(&["database", "grants", "tables"]);
        assert_eq!(findings.verdict("tables"), ["unchecked"]);

        let other = Dlock::new(["--database", "mysql"]).env("DLOCK_URL", database.url());
        let findings = Findings::of(other);
        findings.tells("database", "mend", "Access denied");
        assert_eq!(findings.status, 77);
        assert_eq!(findings.verdict("gate"), ["ok"]);
    }
}

#[test]
fn a_session_that_is_cut_costs_one_check_and_a_server_that_goes_ends_it() {
    for flavour in Flavour::ALL {
        let database = set_up(shared(flavour));
        let proxy = Proxy::to(database.port);
        proxy.next(Kind::Stand, Fault::Reset);
        let findings = Findings::through(&proxy, &database);
        findings.tells("gate", "unchecked", "no answer");
        findings.are_good_except(&["gate"]);

        let case = proxy.next(Kind::Stand, Fault::HoldRequest);
        let url = database.url_through(proxy.port());
        let run = Dlock::new(["doctor"]).env("DLOCK_URL", url).start();
        case.wait();
        proxy.door(Door::Refused);
        proxy.reset();
        let outcome = run.wait();
        assert_eq!(outcome.status, Some(69), "{outcome:#?}");
        assert!(
            outcome.stdout.contains("mend  gate         no answer"),
            "{outcome:#?}"
        );
        assert!(outcome.stdout.contains("ok    tables"), "{outcome:#?}");
        assert!(
            outcome.stdout.contains("-     round-trip   not checked"),
            "{outcome:#?}"
        );
    }
}
