//! Tests of several hosts: dlock uses the first host that accepts writes, and a holder or a waiter follows to the next
//! host.

use std::thread;

use ::mysql::prelude::Queryable;
use serde_json::Value;
use testkit::cli_runner::{Dlock, Outcome, eventually};
use testkit::holder::{Holder, renewals};
use testkit::on_each_flavour;
use testkit::proxy::{AcceptMode, Fault, Flow, Kind, Proxy, error_packet};
use testkit::servers::{Database, Flavour, Server, shared};

use crate::doctor::Findings;

/// Returns `dlock` with `arguments`, for the database through the hosts on `ports`.
fn dlock(database: &Database, hosts: &[String], arguments: &[&str]) -> Dlock {
    Dlock::new(arguments).env("DLOCK_URL", url(database, hosts))
}

pub(crate) fn url(database: &Database, hosts: &[String]) -> String {
    let Database {
        user,
        password,
        name,
        ..
    } = database;
    format!("mysql://{user}:{password}@{}/{name}", hosts.join(","))
}

pub(crate) fn host(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

fn hosts(proxies: &[&Proxy]) -> Vec<String> {
    proxies.iter().map(|proxy| host(proxy.port())).collect()
}

/// Runs `echo ran` under `init`.
fn exec(database: &Database, hosts: &[String]) -> Outcome {
    let arguments = ["exec", "-v", "-a", "init", "--connect-timeout", "10s"];
    let dlock = dlock(database, hosts, &arguments);
    dlock.args(["--", "echo", "ran"]).run()
}

/// Asserts that the run succeeded on the last of `hosts`, and that `-v` says why each of the others is not used.
#[track_caller]
fn ran_on_the_last(outcome: &Outcome, hosts: &[String], reasons: &[&str]) {
    assert_eq!(outcome.status, Some(0), "{outcome:#?}");
    let (last, others) = hosts.split_last().expect("at least one host");
    assert_eq!(others.len(), reasons.len());
    for (host, reason) in others.iter().zip(reasons) {
        let start = format!("host {host} is not used: ");
        let line = outcome.stderr.lines().find(|line| line.contains(&start));
        let line = line.unwrap_or_else(|| panic!("{start}: {outcome:#?}"));
        assert!(line.contains(reason), "{reason}: {line}");
    }
    let connected = format!("connected to {last} (");
    assert!(outcome.stderr.contains(&connected), "{outcome:#?}");
}

#[test]
fn the_next_host_is_used_if_a_host_does_not_respond() {
    for flavour in Flavour::ALL {
        let server = shared(flavour);
        let database = server.database("hosts");
        let (first, second) = (Proxy::to(server.port()), Proxy::to(server.port()));
        let both = hosts(&[&first, &second]);
        for (mode, reason) in [
            (AcceptMode::Refused, "Connection refused"),
            (AcceptMode::Silent, "no response in time"),
            (AcceptMode::Reset, "cannot reach"),
        ] {
            first.door(mode);
            ran_on_the_last(&exec(&database, &both), &both, &[reason]);
        }
        first.door(AcceptMode::Open);
        let outcome = exec(&database, &both);
        ran_on_the_last(&outcome, &both[..1], &[]);
        assert!(!outcome.stderr.contains("is not used"), "{outcome:#?}");
    }
    let database = shared(Flavour::MariaDb).database("hosts");
    let both = ["nowhere.invalid:3306".to_owned(), host(database.port)];
    ran_on_the_last(&exec(&database, &both), &both, &["cannot resolve"]);
}

/// Starts a server that has `database` with its account, and changes its settings with `statement`.
fn server_like(database: &Database, flavour: Flavour, statement: &str) -> Server {
    let server = Server::start(flavour, &[]);
    let there = server.same(database);
    there.create(&mut server.admin());
    let outcome = Dlock::on(&there, ["setup"]).run();
    assert_eq!(outcome.status, Some(0), "{outcome:#?}");
    let mut root = server.admin();
    root.query_drop(statement).expect("root has the privilege");
    server
}

on_each_flavour!(a_read_only_host_is_used_only_to_read_and_only_if_no_host_accepts_writes);
fn a_read_only_host_is_used_only_to_read_and_only_if_no_host_accepts_writes(flavour: Flavour) {
    const READ_ONLY: &str = "is read-only, probably a replica";
    let server = Server::start(flavour, &[]);
    let database = server.database("hosts");
    let replica = server_like(&database, flavour, "SET GLOBAL read_only=ON");
    let both = [host(replica.port()), host(server.port())];
    let run = |arguments: &[&str]| dlock(&database, &both, arguments).run();

    let outcome = run(&["setup"]);
    assert_eq!(outcome.status, Some(0), "{outcome:#?}");
    ran_on_the_last(&exec(&database, &both), &both, &[READ_ONLY]);
    let from_writer = format!("the data is from {}", both[1]);
    let outcome = run(&["status", "init"]);
    outcome.expect(0, &outcome.stdout, &from_writer);
    outcome.expect(0, &outcome.stdout, READ_ONLY);
    run(&["status", "init", "--check"]).expect(0, "", "");
    let document: Value = serde_json::from_str(&run(&["status", "init", "--json"]).stdout)
        .expect("the output is JSON");
    assert_eq!(document["server"], *both[1]);
    assert_eq!(document["skipped_hosts"][0]["address"], *both[0]);
    assert_eq!(document["read_only"], false);

    let findings = Findings::of(Dlock::new([""; 0]).env("DLOCK_URL", url(&database, &both)));
    findings.reports("hosts", "ok", &format!("{} is read-only", both[0]));
    let used = format!("{} accepts writes, and exec uses it", both[1]);
    findings.reports("hosts", "ok", &used);
    findings.reports("connect", "ok", &both[1]);

    let mut root = server.admin();
    root.query_drop("SET GLOBAL read_only=ON")
        .expect("root has the privilege");
    let outcome = exec(&database, &both);
    outcome.expect(69, "", "no host accepts writes");
    for host in &both {
        outcome.expect(
            69,
            "",
            &format!("host {host} is not used: {host} {READ_ONLY}"),
        );
    }
    // The replica is the first host that responds.
    let outcome = run(&["status", "--json"]);
    let document: Value = serde_json::from_str(&outcome.stdout).expect("the output is JSON");
    assert_eq!(document["server"], *both[0]);
    assert_eq!(document["read_only"], true);
    let outcome = run(&["history", "init"]);
    outcome.expect(0, &outcome.stdout, READ_ONLY);
    let refusal = format!("{} {READ_ONLY}", both[0]);
    run(&["status", "init", "--check"]).expect(69, "", &refusal);
    run(&["check", "init", "--token", "1"]).expect(69, "", &refusal);
}

on_each_flavour!(a_server_that_refuses_the_first_write_is_tried_last);
fn a_server_that_refuses_the_first_write_is_tried_last(flavour: Flavour) {
    let database = shared(flavour).database("hosts");
    // The check before the first request does not find the reason of this error, which a read-only transaction has.
    let name = &database.name;
    let refuse = format!(
        "CREATE TRIGGER `{name}`.refuse BEFORE INSERT ON `{name}`.dlock_lock FOR EACH ROW \
         SIGNAL SQLSTATE '25006' SET MYSQL_ERRNO=1792,MESSAGE_TEXT='read-only transaction'"
    );
    let refusing = server_like(&database, flavour, &refuse);
    let both = [host(refusing.port()), host(database.port)];
    let outcome = exec(&database, &both);
    outcome.expect(0, "ran\n", "1792");
    let connected = format!("connected to {} (", both[1]);
    assert!(outcome.stderr.contains(&connected), "{outcome:#?}");
}

on_each_flavour!(a_refused_login_on_the_first_host_is_reported);
fn a_refused_login_on_the_first_host_is_reported(flavour: Flavour) {
    let (server, other) = (shared(flavour), Server::start(flavour, &[]));
    let database = server.database("hosts");
    let second = Proxy::to(server.port());
    let both = [host(other.port()), host(second.port())];
    let Database { user, password, .. } = &database;
    let mut root = other.admin();
    let mut root = |statement: &str| {
        root.query_drop(statement).expect("root has the privilege");
    };
    root(&format!("CREATE USER '{user}'@'%' IDENTIFIED BY 'another'"));
    exec(&database, &both).expect(77, "", "returned error 1045");
    root(&format!(
        "ALTER USER '{user}'@'%' IDENTIFIED BY '{password}'"
    ));
    exec(&database, &both).expect(77, "", "returned error 1044");
    root(&format!("GRANT ALL ON *.* TO '{user}'@'%'"));
    exec(&database, &both).expect(78, "", "returned error 1049");
    if flavour == Flavour::MariaDb {
        let exec = dlock(&database, &both, &["exec", "-a", "init", "--", "true"]);
        let outcome = exec.env("DLOCK_SSL_MODE", "required").run();
        outcome.expect(78, "", "does not offer TLS");
    }
    assert_eq!(second.connections(), 0, "the second host was tried");
    let findings = Findings::of(Dlock::new([""; 0]).env("DLOCK_URL", url(&database, &both)));
    findings.reports("hosts", "fail", "returned error 1049");
}

on_each_flavour!(a_holder_follows_to_the_last_host_before_its_deadline);
fn a_holder_follows_to_the_last_host_before_its_deadline(flavour: Flavour) {
    let server = shared(flavour);
    let database = server.database("hosts");
    let [first, second, third, last] = [(); 4].map(|()| Proxy::to(server.port()));
    let all = hosts(&[&first, &second, &third, &last]);
    second.door(AcceptMode::Silent);
    third.door(AcceptMode::Silent);
    let holder = Holder::start(dlock(&database, &all, &["exec"]), &["-v", "--ttl", "12s"]);
    // The network to the first host fails, and no packet arrives any more.
    first.both(Flow::Lose);
    first.door(AcceptMode::Silent);
    let connected = format!("connected to {} (", all[3]);
    holder.running.wait_for_output(&connected);
    let before = renewals(&database);
    eventually("the holder renews on the last host", || {
        renewals(&database) >= before + 3
    });
    let outcome = holder.end();
    assert_eq!(outcome.status, Some(3), "{outcome:#?}");
    assert!(!outcome.stderr.contains("lost init"), "{outcome:#?}");
}

#[test]
fn a_holder_follows_when_its_server_refuses_a_renewal() {
    let server = shared(Flavour::MySql);
    let refusals = [1047, 1053, 1290, 1792, 1836, 3100];
    thread::scope(|scope| {
        for code in refusals {
            scope.spawn(move || {
                let database = server.database("hosts");
                let (first, second) = (Proxy::to(server.port()), Proxy::to(server.port()));
                let both = hosts(&[&first, &second]);
                let dlock = dlock(&database, &both, &["exec"]);
                let holder = Holder::start(dlock, &["-v", "--ttl", "12s"]);
                let refusal = error_packet(code, "no");
                let case = first.every(Kind::Renew, Fault::Respond(refusal));
                let connected = format!("connected to {} (", both[1]);
                holder.running.wait_for_output(&connected);
                case.lift();
                let before = renewals(&database);
                eventually("the holder renews", || renewals(&database) > before);
                // The first host accepts connections and the check, but is tried last.
                assert_eq!(case.hits(), 1, "{code}");
                let outcome = holder.end();
                assert_eq!(outcome.status, Some(3), "{outcome:#?}");
            });
        }
    });
}

on_each_flavour!(doctor_fails_if_two_servers_accept_writes);
fn doctor_fails_if_two_servers_accept_writes(flavour: Flavour) {
    let server = shared(flavour);
    let database = server.database("hosts");
    let other = server_like(&database, flavour, "DO 0");
    let again = Proxy::to(server.port());
    let all = [server.port(), again.port(), other.port()].map(host);
    let findings = Findings::of(Dlock::new([""; 0]).env("DLOCK_URL", url(&database, &all)));
    assert_eq!(findings.status("hosts"), ["ok", "ok", "fail"]);
    let fix = findings.reports("hosts", "fail", &format!("{} also accepts writes", all[2]));
    assert!(fix.contains("remove the host"), "{fix}");
    assert_eq!(findings.status, 78, "{findings:#?}");
}

#[test]
fn waiters_follow_to_the_next_host() {
    for flavour in Flavour::ALL {
        let server = shared(flavour);
        let database = server.database("hosts");
        let (first, second) = (Proxy::to(server.port()), Proxy::to(server.port()));
        let both = hosts(&[&first, &second]);
        let holder = Holder::start(dlock(&database, &both, &["exec"]), &["--ttl", "6s"]);
        let arguments = ["exec", "-v", "-a", "init", "--", "echo", "ran"];
        let waiter = dlock(&database, &both, &arguments).start();
        waiter.wait_for_output("init is held by");
        first.door(AcceptMode::Refused);
        first.reset();
        let connected = format!("connected to {} (", both[1]);
        waiter.wait_for_output(&connected);
        assert_eq!(holder.end().status, Some(3));
        waiter.wait().expect(0, "ran\n", &connected);
    }
}

#[test]
fn an_inner_exec_on_one_of_the_hosts_runs_under_the_outer_lease() {
    let server = shared(Flavour::MariaDb);
    let database = server.database("hosts");
    let first = Proxy::to(server.port());
    let both = [host(first.port()), host(server.port())];
    let inner = format!(
        "DLOCK_URL='{}' {} exec -v -a init -- echo inner",
        url(&database, &both[1..]),
        env!("CARGO_BIN_EXE_dlock")
    );
    let arguments = ["exec", "-a", "init", "--", "sh", "-c", &inner];
    let outcome = dlock(&database, &both, &arguments).run();
    outcome.expect(0, "inner\n", "running under its lease");
}

#[test]
fn malformed_lists_of_hosts_are_usage_errors() {
    let database = shared(Flavour::MariaDb).database("hosts");
    let run = |hosts: &str| {
        let dlock = Dlock::on(&database, ["status", "--host", hosts]);
        dlock.run()
    };
    Dlock::on(&database, ["setup", "-q"])
        .run()
        .expect(0, "", "");
    for (hosts, wanted) in [
        ("a,,b", "--host has an empty entry"),
        ("a:1,b,A:1", "--host contains the same host and port twice"),
        ("a,b:0", "--host is not a host name"),
        ("a,b,c,d,e,f,g,h,i", "--host has more than 8 hosts"),
    ] {
        run(hosts).expect(64, "", wanted);
    }
    let port = database.port.to_string();
    let list = format!("127.0.0.1:1,127.0.0.1:{port}");
    let outcome = run(&list);
    outcome.expect(
        0,
        &outcome.stdout,
        &format!("the data is from 127.0.0.1:{port}"),
    );
    // The port of the option applies to the entries without a port.
    let dlock = Dlock::on(&database, ["list", "--host", "127.0.0.1:1,127.0.0.1"]);
    let nothing = "nothing is held, and there are no waiters\n";
    dlock
        .args(["--port", &port])
        .run()
        .expect(0, nothing, "host 127.0.0.1:1 is not used");
}
