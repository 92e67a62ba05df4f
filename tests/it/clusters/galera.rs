//! Tests on a Galera cluster of three nodes.

use std::thread;

use mysql::prelude::Queryable;
use testkit::cli_runner::{Dlock, eventually};
use testkit::clusters::{Galera, galera};
use testkit::holder::{Holder, token};
use testkit::proxy::Proxy;
use testkit::sql::Sql;

use super::{are_served_in_order, exec, stays};
use crate::doctor::Findings;
use crate::hosts::{dlock, hold, host, ran, survives, url, waiter};
use crate::queue::Queue;

#[test]
fn an_action_is_exclusive_over_all_nodes() {
    let cluster = galera();
    let [first, second, third] = &cluster.nodes[..] else {
        panic!("the cluster has three nodes");
    };
    let database = first.database("nodes");
    exec(&database, &[]).expect(0, "ran\n", "");
    let there = second.same(&database);
    // Named locks belong to one node, so the follower cannot wait for a leader on another one.
    let follower = Dlock::on(&there, ["leader", "init", "--follow"]).start();
    let holder = Holder::on(&database, &["--holder=A"]);
    let has_printed = |text: &str| follower.stdout_so_far().ends_with(text);
    eventually("the leader is printed", || has_printed("A\n"));
    exec(&there, &["-n"]).expect(75, "", "init is held by");
    Findings::at(&there.url()).reports("cluster", "warn", "a node of a Galera cluster of 3 nodes");
    assert_eq!(holder.end().status, Some(3));
    eventually("its end is printed", || has_printed("A\n\n"));
    exec(&there, &[]).expect(0, "ran\n", "");

    third.run("SET GLOBAL wsrep_desync=ON");
    let there = third.same(&database);
    exec(&there, &[]).expect(0, "ran\n", "");
    Findings::at(&there.url()).reports("cluster", "warn", "a desynced node");
    third.run("SET GLOBAL wsrep_desync=OFF");
}

#[test]
fn waiters_on_all_nodes_are_served_in_order() {
    let cluster = galera();
    let queue = Queue::with_ttl(&cluster.nodes[0], "12s");
    are_served_in_order(queue, &cluster.nodes, || {});
}

#[test]
fn a_holder_stays_and_check_waits_if_the_address_leads_to_a_node_that_applies_no_writes() {
    let cluster = galera();
    let second = &cluster.nodes[1];
    let database = cluster.nodes[0].database("lag");
    let there = second.same(&database);
    exec(&there, &[]).expect(0, "ran\n", "");
    let proxy = Proxy::to(database.port);
    let mut root = second.admin();
    root.run("FLUSH TABLES WITH READ LOCK");
    let holder = Holder::through(&database, proxy.port(), &["-v", "--ttl", "6s"]);
    let granted = token(&database);
    assert_ne!(token(&there), granted, "the node lags");
    let token = granted.to_string();
    let check = Dlock::on(&there, ["check", "init", "--token", &token]).start();
    // The request of check waits.
    second.wait_until(format!(
        "COUNT(*)>0 FROM information_schema.processlist WHERE user='{}' AND info LIKE 'SELECT%'",
        there.user
    ));
    root.run("UNLOCK TABLES");
    check.wait().expect(0, "", "");

    // Neither a node that lags nor a node that applies all writes is a server to which the address has moved.
    root.run("FLUSH TABLES WITH READ LOCK");
    let before = proxy.connections();
    proxy.retarget(second.port());
    stays(&holder, &database);
    assert!(proxy.connections() > before, "the address was checked");
    root.run("UNLOCK TABLES");
    stays(&holder, &database);
    assert_eq!(holder.end().status, Some(3));
}

/// An earlier holder has the lease in the rows of the node that lags.
#[test]
fn a_holder_that_moves_to_a_node_that_lags_keeps_its_lease() {
    let cluster = galera();
    let (first, second) = (&cluster.nodes[0], &cluster.nodes[1]);
    let database = first.database("lag");
    let there = second.same(&database);
    let earlier = Holder::on(&database, &[]);
    let table = format!("{}.paused", database.name);
    first.run(format!(
        "CREATE TABLE {table} (n INT PRIMARY KEY) ENGINE=InnoDB"
    ));
    thread::scope(|scope| {
        // The node applies this transaction after all earlier ones.
        let mut reader = second.admin();
        let read = format!("SELECT * FROM {table}");
        eventually("the node has the table", || {
            reader.query_drop(&read).is_ok()
        });
        reader.run(format!("BEGIN; {read}"));
        // With this method, the node applies no writes of the cluster until the ALTER has ended. The ALTER waits for the
        // transaction of the reader.
        scope.spawn(|| {
            second.run(format!(
                "SET SESSION wsrep_OSU_method='RSU'; ALTER TABLE {table} COMMENT='x'"
            ));
        });
        second.wait_until(
            "COUNT(*)>0 FROM information_schema.processlist WHERE state LIKE 'Waiting for table metadata%'",
        );
        assert_eq!(earlier.end().status, Some(3));
        let proxy = Proxy::to(first.port());
        let holder = Holder::through(&database, proxy.port(), &["-v", "--ttl", "6s"]);
        let granted = token(&database);
        assert!(token(&there) < granted, "the node lags");
        proxy.retarget(second.port());
        proxy.reset();
        holder.running.wait_for_output("cannot renew init");
        reader.run("COMMIT");
        let again = "init is renewed again after";
        holder.running.wait_for_output(again);
        assert_eq!(token(&there), granted);
        assert_eq!(holder.end().status, Some(3));
    });
}

#[test]
fn an_isolated_node_is_refused_and_a_forced_primary_is_reported() {
    let mut cluster = galera();
    let (first, third) = (&cluster.nodes[0], &cluster.nodes[2]);
    let database = first.database("isolated");
    exec(&database, &[]).expect(0, "ran\n", "");
    let there = third.same(&database);
    let hosts = [third.port(), first.port()].map(host);
    let holder = hold(&database, &hosts);
    let waiter = waiter(&database, &hosts);
    let token = token(&database).to_string();
    Galera::isolate(third);

    // With this setting, the node returns old rows instead of error 1047.
    third.run("SET GLOBAL wsrep_dirty_reads=ON");
    let check = || Dlock::on(&there, ["check", "init", "--token", &token]).run();
    check().expect(69, "", "use another node");
    third.run("SET GLOBAL wsrep_dirty_reads=OFF");
    check().expect(69, "", "use another node");
    for options in [
        &["--connect-timeout=2s"][..],
        &["--connect-timeout=2s", "-n"],
    ] {
        exec(&there, options).expect(69, "", "use another node");
    }
    let findings = Findings::at(&there.url());
    findings.reports("cluster", "fail", "component: non-Primary");
    assert_eq!(findings.status, 78, "{findings:#?}");

    // The holder and the waiter use the next host.
    survives(holder, &hosts[1], &database);
    ran(waiter);
    let outcome = dlock(
        &database,
        &hosts,
        &["exec", "-v", "-a", "init", "--", "true"],
    )
    .run();
    let refused = format!("{} returned error 1047", hosts[0]);
    let skipped = format!("host {} is not used: {refused}", hosts[0]);
    outcome.expect(0, "", &skipped);
    let findings = Findings::at(&url(&database, &hosts));
    assert_eq!(findings.status("hosts"), ["warn", "ok"]);
    findings.reports("hosts", "warn", &refused);
    let used = format!("{} accepts writes, and exec uses it", hosts[1]);
    findings.reports("hosts", "ok", &used);

    // Both parts now accept writes. dlock cannot know this, but doctor reports that the part may not be the only one.
    third.run("SET GLOBAL wsrep_provider_options='pc.bootstrap=1'");
    eventually("the node is primary", || {
        Galera::status(third, "wsrep_ready") == "ON"
    });
    let list: String = third.value("SELECT @@wsrep_cluster_address");
    assert!(list.contains("127.0.0.1:"), "{list}");
    Findings::at(&there.url()).reports("cluster", "warn", "1 of 2 configured nodes");
    cluster.rebuild();
}
