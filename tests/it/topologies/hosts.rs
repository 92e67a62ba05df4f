//! Tests of a list of hosts on real servers that switch: a holder and waiters follow to another server.

use std::thread;

use mysql::prelude::Queryable;
use testkit::cli_runner::{Dlock, Running, eventually};
use testkit::clusters::{Galera, galera, group, replicate, run, value, wait_replicated};
use testkit::holder::{Holder, renewals};
use testkit::servers::{Database, Flavour, Server};

use crate::doctor::Findings;
use crate::hosts::{host, url};

fn hosts(servers: &[Server]) -> Vec<String> {
    servers.iter().map(|server| host(server.port())).collect()
}

fn dlock(database: &Database, hosts: &[String], arguments: &[&str]) -> Dlock {
    Dlock::new(arguments).env("DLOCK_URL", url(database, hosts))
}

fn waiter(database: &Database, hosts: &[String]) -> Running {
    let arguments = ["exec", "-v", "-a", "init", "--", "echo", "ran"];
    let waiter = dlock(database, hosts, &arguments).start();
    waiter.wait_for_output("init is held by");
    waiter
}

/// Waits until `holder` has renewed its lease twice on `host`, as `there` shows. Then lets the command end, and asserts
/// that the lease was not lost.
#[track_caller]
fn survives(holder: Holder, host: &str, there: &Database) {
    let connected = format!("connected to {host} (");
    holder.running.wait_for_output(&connected);
    let before = renewals(there);
    eventually("the holder renews there", || renewals(there) >= before + 2);
    let outcome = holder.end();
    assert_eq!(outcome.status, Some(3), "{outcome:#?}");
    assert!(!outcome.stderr.contains("lost init"), "{outcome:#?}");
}

/// Waits until `waiter` has run its command.
#[track_caller]
fn ran(waiter: Running) {
    let outcome = waiter.wait();
    assert_eq!(outcome.status, Some(0), "{outcome:#?}");
    assert_eq!(outcome.stdout, "ran\n");
}

/// Starts a server whose changes a replica can copy.
fn replicable(flavour: Flavour, id: &str) -> Server {
    match flavour {
        Flavour::MariaDb => Server::start(flavour, &[id, "--log-bin", "--log-slave-updates"]),
        Flavour::MySql => Server::start(
            flavour,
            &[id, "--gtid-mode=ON", "--enforce-gtid-consistency=ON"],
        ),
    }
}

/// Starts a primary and a read-only replica, which copies all changes.
fn primary_and_replica(flavour: Flavour) -> [Server; 2] {
    let servers = ["--server-id=1", "--server-id=2"].map(|id| replicable(flavour, id));
    let [primary, replica] = &servers;
    replicate(primary, replica);
    servers
}

#[test]
fn a_holder_and_waiters_follow_to_a_replica_that_becomes_the_primary() {
    thread::scope(|scope| {
        for flavour in Flavour::ALL {
            scope.spawn(move || {
                let servers = primary_and_replica(flavour);
                let [primary, replica] = &servers;
                let database = primary.database("hosts");
                let all = hosts(&servers);
                // The first entry is the replica, which is skipped before the switch.
                let all = [all[1].clone(), all[0].clone()];
                wait_replicated(primary, replica);
                let exec = dlock(&database, &all, &["exec"]);
                let holder = Holder::start(exec, &["-v", "--ttl", "12s"]);
                let waiters = ["one", "two"].map(|name| {
                    let exec = dlock(&database, &all, &["exec", "-v", "-a", "init"]);
                    let exec = exec.args(["--holder", name, "--", "echo", "ran"]);
                    let waiter = exec.start();
                    let entry = format!(
                        "SELECT 1 FROM {}.dlock_waiter WHERE holder='{name}'",
                        database.name
                    );
                    eventually("the waiter has its entry", || {
                        value(primary, &entry).is_some()
                    });
                    waiter
                });
                run(primary, "SET GLOBAL read_only=ON");
                wait_replicated(primary, replica);
                run(
                    replica,
                    "STOP REPLICA; RESET REPLICA ALL; SET GLOBAL read_only=OFF",
                );
                let there = replica.same(&database);
                survives(holder, &all[0], &there);
                waiters.into_iter().for_each(ran);
                let runs =
                    "SELECT CAST(holder AS CHAR) FROM dlock_history ORDER BY token DESC LIMIT 2";
                let runs: Vec<String> =
                    (there.admin_conn().query(runs)).expect("runs are recorded");
                assert_eq!(runs, ["two", "one"], "{flavour}");
            });
        }
    });
}

#[test]
fn a_holder_and_a_waiter_follow_when_their_galera_node_loses_the_majority() {
    let cluster = galera();
    let [first, second, _] = &cluster.nodes[..] else {
        panic!("the cluster has three nodes");
    };
    let database = first.database("hosts");
    let all = hosts(&cluster.nodes);
    let exec = dlock(&database, &all, &["exec"]);
    let holder = Holder::start(exec, &["-v", "--ttl", "12s"]);
    let waiter = waiter(&database, &all);
    Galera::isolate(first);
    survives(holder, &all[1], &second.same(&database));
    ran(waiter);

    // New processes find the state of the first node at the check before their first request.
    let outcome = dlock(&database, &all, &["exec", "-v", "-a", "init", "--", "true"]).run();
    let skipped = format!(
        "host {} is not used: {} returned error 1047",
        all[0], all[0]
    );
    outcome.expect(0, "", &skipped);
    let findings = Findings::of(Dlock::new([""; 0]).env("DLOCK_URL", url(&database, &all)));
    assert_eq!(findings.status("hosts"), ["warn", "ok", "ok"]);
    findings.reports("hosts", "warn", "returned error 1047");
    let used = format!("{} accepts writes, and exec uses it", all[1]);
    findings.reports("hosts", "ok", &used);

    run(
        first,
        "SET GLOBAL wsrep_provider_options='gmcast.isolate=0'",
    );
    cluster.wait_healthy();
}

#[test]
fn a_holder_and_a_waiter_follow_when_the_primary_of_their_group_changes() {
    let group = group();
    let [first, second, _] = &group.members[..] else {
        panic!("the group has three members");
    };
    let database = first.database("hosts");
    let select = "GRANT SELECT ON performance_schema.replication_group_members TO";
    run(first, &format!("{select} '{}'@'%'", database.user));
    let all = hosts(&group.members);
    let exec = dlock(&database, &all, &["exec"]);
    let holder = Holder::start(exec, &["-v", "--ttl", "12s"]);
    let waiter = waiter(&database, &all);
    let switch_to = |member: &Server| {
        let uuid = value(member, "SELECT @@server_uuid").expect("a value");
        run(
            member,
            &format!("DO group_replication_set_as_primary('{uuid}')"),
        );
        group.wait_healthy();
    };
    switch_to(second);
    survives(holder, &all[1], &second.same(&database));
    ran(waiter);
    switch_to(first);
}
