//! Tests of several hosts: dlock uses the first host that accepts writes, and a holder or a waiter follows to the next
//! host.

use std::thread;

use testkit::cli_runner::{Dlock, Outcome, Running};
use testkit::clusters::{replicate, wait_replicated};
use testkit::each_server::set_up;
use testkit::holder::{Holder, wait_renewals};
use testkit::proxy::{AcceptMode, Fault, Flow, Kind, Proxy, error_packet};
use testkit::servers::{Database, Flavour, Server, shared};

use crate::doctor::Findings;
use crate::faults::on_each;
use crate::old_replica::{copy, read_only, second};

/// Returns `dlock` with `arguments`, for the database through the hosts on `ports`.
pub(crate) fn dlock(database: &Database, hosts: &[String], arguments: &[&str]) -> Dlock {
    Dlock::new(arguments).env("DLOCK_URL", url(database, hosts))
}

pub(crate) fn url(database: &Database, hosts: &[String]) -> String {
    database.url_at(&hosts.join(","))
}

pub(crate) fn host(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

/// Returns proxies to `server`, and their addresses.
fn proxies<const N: usize>(server: &Server) -> ([Proxy; N], [String; N]) {
    let proxies = [(); N].map(|()| Proxy::to(server.port()));
    let hosts = proxies.each_ref().map(|proxy| host(proxy.port()));
    (proxies, hosts)
}

/// Starts a holder with a ttl of 12 s.
#[track_caller]
pub(crate) fn hold(database: &Database, hosts: &[String]) -> Holder {
    let exec = dlock(database, hosts, &["exec"]);
    Holder::start(exec, &["-v", "--ttl", "12s"])
}

#[track_caller]
pub(crate) fn waiter(database: &Database, hosts: &[String]) -> Running {
    let arguments = ["exec", "-v", "-a", "init", "--", "echo", "ran"];
    let waiter = dlock(database, hosts, &arguments).start();
    waiter.wait_for_output("init is held by");
    waiter
}

/// Waits until `holder` has renewed its lease twice on `host`, as `there` shows. Then lets the command end, and asserts
/// that the lease was not lost.
#[track_caller]
pub(crate) fn survives(holder: Holder, host: &str, there: &Database) {
    let connected = format!("connected to {host} (");
    holder.running.wait_for_output(&connected);
    wait_renewals(there, 2);
    let outcome = holder.end();
    assert_eq!(outcome.status, Some(3), "{outcome:#?}");
    assert!(!outcome.stderr.contains("lost init"), "{outcome:#?}");
}

#[track_caller]
pub(crate) fn ran(waiter: Running) {
    waiter.wait().expect(0, "ran\n", "init is held by");
}

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
    let server = shared(Flavour::of_this_test());
    let database = server.database("hosts");
    let ([first, _second], both) = proxies(server);
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
    let both = ["nowhere.invalid:3306".to_owned(), host(database.port)];
    ran_on_the_last(&exec(&database, &both), &both, &["cannot resolve"]);
}

#[test]
fn a_read_only_host_is_used_only_to_read_and_only_if_no_host_accepts_writes() {
    on_each(|flavour| {
        const READ_ONLY: &str = "is read-only, probably a replica";
        let replica = read_only(flavour);
        let database = set_up(flavour);
        copy(&database, replica);
        let both = [host(replica.port()), host(database.port)];
        let run = |arguments: &[&str]| dlock(&database, &both, arguments).run();
        ran_on_the_last(&exec(&database, &both), &both, &[READ_ONLY]);
        run(&["setup"]).exited(0);
        let outcome = run(&["status", "init"]);
        let from_writer = format!("the data is from {}", both[1]);
        outcome.expect(0, &outcome.stdout, &from_writer);
        outcome.expect(0, &outcome.stdout, READ_ONLY);
        run(&["status", "init", "--check"]).expect(0, "", "");
        let document = |hosts| dlock(&database, hosts, &["status", "--json"]).run().json();
        let from_second = document(&both);
        assert_eq!(from_second["server"], *both[1]);
        assert_eq!(from_second["skipped_hosts"][0]["address"], *both[0]);
        assert_eq!(from_second["read_only"], false);

        let findings = Findings::at(&url(&database, &both));
        findings.reports("hosts", "ok", &format!("{} is read-only", both[0]));
        let used = format!("{} accepts writes, and exec uses it", both[1]);
        findings.reports("hosts", "ok", &used);
        findings.reports("connect", "ok", &both[1]);

        // Both hosts lead to the replica now. The first one is the first that responds.
        let again = Proxy::to(replica.port());
        let both = [host(replica.port()), host(again.port())];
        let outcome = exec(&database, &both);
        outcome.expect(69, "", "no host accepts writes");
        for host in &both {
            let skipped = format!("host {host} is not used: {host} {READ_ONLY}");
            outcome.expect(69, "", &skipped);
        }
        let from_first = document(&both);
        assert_eq!(from_first["server"], *both[0]);
        assert_eq!(from_first["read_only"], true);
        let run = |arguments: &[&str]| dlock(&database, &both, arguments).run();
        let outcome = run(&["history", "init"]);
        outcome.expect(0, &outcome.stdout, READ_ONLY);
        let refusal = format!("{} {READ_ONLY}", both[0]);
        run(&["status", "init", "--check"]).expect(69, "", &refusal);
        run(&["check", "init", "--token", "1"]).expect(69, "", &refusal);
    });
}

#[test]
fn the_next_host_is_used_if_the_first_write_is_refused_but_not_if_the_login_is() {
    on_each(|flavour| {
        let (server, other) = (shared(flavour), second(flavour));
        let database = set_up(flavour);
        let proxy = Proxy::to(server.port());
        let both = [host(other.port()), host(proxy.port())];
        let (name, user, password) = (&database.name, &database.user, &database.password);
        other.run(format!("CREATE USER '{user}'@'%' IDENTIFIED BY 'another'"));
        exec(&database, &both).expect(77, "", "returned error 1045");
        other.run(format!(
            "ALTER USER '{user}'@'%' IDENTIFIED BY '{password}'"
        ));
        exec(&database, &both).expect(77, "", "returned error 1044");
        other.run(format!("GRANT ALL ON *.* TO '{user}'@'%'"));
        exec(&database, &both).expect(78, "", "returned error 1049");
        if flavour == Flavour::MariaDb {
            let exec = dlock(&database, &both, &["exec", "-a", "init", "--", "true"]);
            let outcome = exec.env("DLOCK_SSL_MODE", "required").run();
            outcome.expect(78, "", "does not offer TLS");
        }
        assert_eq!(proxy.connections(), 0, "the second host was tried");
        Findings::at(&url(&database, &both)).reports("hosts", "fail", "returned error 1049");

        other.run(format!("DROP USER '{user}'@'%'"));
        copy(&database, other);
        let again = Proxy::to(server.port());
        let all = [database.port, again.port(), other.port()].map(host);
        let findings = Findings::at(&url(&database, &all));
        assert_eq!(findings.status("hosts"), ["ok", "ok", "fail"]);
        let fact = format!("{} also accepts writes", all[2]);
        let fix = findings.reports("hosts", "fail", &fact);
        assert!(fix.contains("remove the host"), "{fix}");
        assert_eq!(findings.status, 78, "{findings:#?}");

        // The check before the first request does not find the reason of this error, which a read-only transaction has.
        let refuse = format!(
            "CREATE TRIGGER `{name}`.refuse BEFORE INSERT ON `{name}`.dlock_lock FOR EACH ROW \
             SIGNAL SQLSTATE '25006' SET MYSQL_ERRNO=1792,MESSAGE_TEXT='read-only transaction'"
        );
        other.run(&refuse);
        let outcome = exec(&database, &both);
        outcome.expect(0, "ran\n", "1792");
        let connected = format!("connected to {} (", both[1]);
        assert!(outcome.stderr.contains(&connected), "{outcome:#?}");
    });
}

#[test]
fn a_holder_follows_to_the_last_host_before_its_deadline() {
    let server = shared(Flavour::of_this_test());
    let database = server.database("hosts");
    let ([first, second, third, _last], all) = proxies(server);
    second.door(AcceptMode::Silent);
    third.door(AcceptMode::Silent);
    let holder = hold(&database, &all);
    // The network to the first host fails, and no packet arrives any more.
    first.both(Flow::Lose);
    first.door(AcceptMode::Silent);
    survives(holder, &all[3], &database);
}

#[test]
fn a_holder_follows_when_its_server_refuses_a_renewal() {
    let server = shared(Flavour::MySql);
    let refusals = [1047, 1053, 1290, 1792, 1836, 3100];
    thread::scope(|scope| {
        for code in refusals {
            scope.spawn(move || {
                let database = server.database("hosts");
                let ([first, _second], both) = proxies(server);
                let holder = hold(&database, &both);
                let refusal = error_packet(code, "no");
                let case = first.every(Kind::Renew, Fault::Respond(refusal));
                // The first host accepts connections and the check, but is tried last.
                survives(holder, &both[1], &database);
                assert_eq!(case.hits(), 1, "{code}");
            });
        }
    });
}

#[test]
fn waiters_follow_to_the_next_host() {
    let server = shared(Flavour::of_this_test());
    let database = server.database("hosts");
    let ([first, _second], both) = proxies(server);
    let holder = hold(&database, &both);
    let waiter = waiter(&database, &both);
    first.door(AcceptMode::Refused);
    first.reset();
    let connected = format!("connected to {} (", both[1]);
    waiter.wait_for_output(&connected);
    assert_eq!(holder.end().status, Some(3));
    ran(waiter);
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
fn the_host_that_provides_the_data_is_named() {
    let database = set_up(Flavour::of_this_test());
    let run = |hosts: &str| Dlock::on(&database, ["list", "--host", hosts]);
    let malformed = "--host contains the same host and port twice";
    run("a:1,b,A:1").run().expect(64, "", malformed);
    let nothing = "nothing is held, and there are no waiters\n";
    let port = database.port.to_string();
    let source = format!("the data is from 127.0.0.1:{port}");
    let outcome = run(&format!("127.0.0.1:1,127.0.0.1:{port}")).run();
    outcome.expect(0, nothing, &source);
    // The port of the option applies to the entries without a port.
    run("127.0.0.1:1,127.0.0.1")
        .args(["--port", &port])
        .run()
        .expect(0, nothing, "host 127.0.0.1:1 is not used");
}

/// Starts a server whose changes a replica can copy.
fn replicable(flavour: Flavour, id: &str) -> Server {
    let options = match flavour {
        Flavour::MariaDb => ["--log-bin", "--log-slave-updates"],
        Flavour::MySql => ["--gtid-mode=ON", "--enforce-gtid-consistency=ON"],
    };
    Server::start(flavour, &[options[0], options[1], id])
}

#[test]
fn a_holder_and_waiters_follow_to_a_replica_that_becomes_the_primary() {
    on_each(|flavour| {
        let [primary, replica] =
            &["--server-id=1", "--server-id=2"].map(|id| replicable(flavour, id));
        replicate(primary, replica);
        let database = primary.database("hosts");
        // The first entry is the replica, which is skipped before the switch.
        let all = [replica.port(), primary.port()].map(host);
        wait_replicated(primary, replica);
        let holder = hold(&database, &all);
        let waiters = ["one", "two"].map(|name| {
            let exec = dlock(&database, &all, &["exec", "-v", "-a", "init"]);
            let exec = exec.args(["--holder", name, "--", "echo", "ran"]);
            let waiter = exec.start();
            database.wait_until(format!(
                "COUNT(*)=1 FROM dlock_waiter WHERE holder='{name}'"
            ));
            // The waiters came more than a second after each other.
            database.run("UPDATE dlock_waiter SET enqueued_at=enqueued_at-INTERVAL 2 SECOND");
            waiter
        });
        primary.run("SET GLOBAL read_only=ON");
        wait_replicated(primary, replica);
        replica.run("STOP REPLICA; RESET REPLICA ALL; SET GLOBAL read_only=OFF");
        let there = replica.same(&database);
        survives(holder, &all[0], &there);
        waiters.into_iter().for_each(ran);
        let runs = "SELECT CAST(holder AS CHAR) FROM dlock_history ORDER BY token DESC LIMIT 2";
        let runs: Vec<String> = there.rows(runs);
        assert_eq!(runs, ["two", "one"], "{flavour}");
    });
}
