//! Tests of a list of hosts on clusters: a holder and waiters follow to another node.

use crate::cli_runner::{Dlock, Running};
use crate::clusters::{Galera, galera, group, run, value};
use crate::doctor::Findings;
use crate::holder::{Holder, renewals};
use crate::hosts::{host, url};
use crate::servers::{Database, Server};

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
    crate::cli_runner::eventually("the holder renews there", || renewals(there) >= before + 2);
    let outcome = holder.end();
    assert_eq!(outcome.status, Some(3), "{outcome:#?}");
    assert!(!outcome.stderr.contains("lost init"), "{outcome:#?}");
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
    let outcome = waiter.wait();
    assert_eq!(outcome.status, Some(0), "{outcome:#?}");
    assert_eq!(outcome.stdout, "ran\n");

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
    let outcome = waiter.wait();
    assert_eq!(outcome.status, Some(0), "{outcome:#?}");
    assert_eq!(outcome.stdout, "ran\n");
    switch_to(first);
}
