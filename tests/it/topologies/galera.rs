//! Tests on a Galera cluster of three nodes.

use std::thread;

use mysql::prelude::Queryable;
use testkit::cli_runner::{Dlock, Outcome, eventually};
use testkit::clusters::{Galera, galera, run, value};
use testkit::holder::{Holder, token};
use testkit::proxy::Proxy;
use testkit::servers::Database;

use crate::doctor::Findings;

fn exec(database: &Database, options: &[&str]) -> Outcome {
    Dlock::on(database, ["exec", "-q", "-a", "init"])
        .args(options)
        .args(["--", "echo", "ran"])
        .run()
}

fn doctor(database: &Database) -> Findings {
    Findings::of(Dlock::new([""; 0]).env("DLOCK_URL", database.url()))
}

#[test]
fn an_action_is_exclusive_over_all_nodes() {
    let cluster = galera();
    let [first, second, third] = &cluster.nodes[..] else {
        panic!("the cluster has three nodes");
    };
    let database = first.database("nodes");
    let there = second.same(&database);
    let holder = Holder::on(&database, &[]);
    exec(&there, &["-n"]).expect(75, "", "init is held by");
    let findings = doctor(&there);
    findings.reports("cluster", "warn", "a node of a Galera cluster of 3 nodes");
    assert_eq!(holder.end().status, Some(3));
    exec(&there, &[]).expect(0, "ran\n", "");

    run(third, "SET GLOBAL wsrep_desync=ON");
    let there = third.same(&database);
    exec(&there, &[]).expect(0, "ran\n", "");
    doctor(&there).reports("cluster", "warn", "a desynced node");
    run(third, "SET GLOBAL wsrep_desync=OFF");
}

#[test]
fn check_waits_until_a_node_that_lags_has_the_grant() {
    let cluster = galera();
    let second = &cluster.nodes[1];
    let database = cluster.nodes[0].database("lag");
    let there = second.same(&database);
    exec(&there, &[]).expect(0, "ran\n", "");

    let mut root = second.admin();
    root.query_drop("FLUSH TABLES WITH READ LOCK")
        .expect("root has the privilege");
    let holder = Holder::on(&database, &[]);
    let granted = token(&database);
    assert_ne!(token(&there), granted, "the node lags");
    let token = granted.to_string();
    let check = Dlock::on(&there, ["check", "init", "--token", &token]).start();
    let query = format!(
        "SELECT id FROM information_schema.processlist WHERE user='{}' AND info LIKE 'SELECT%'",
        there.user
    );
    eventually("the request of check waits", || {
        value(second, &query).is_some()
    });
    root.query_drop("UNLOCK TABLES")
        .expect("root has the privilege");
    check.wait().expect(0, "", "");
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
    run(
        first,
        &format!("CREATE TABLE {table} (n INT PRIMARY KEY) ENGINE=InnoDB"),
    );
    thread::scope(|scope| {
        // The node applies this transaction after all earlier ones.
        let mut reader = second.admin();
        eventually("the node has the table", || {
            reader.query_drop(format!("SELECT * FROM {table}")).is_ok()
        });
        reader.query_drop("BEGIN").expect("root may begin");
        reader
            .query_drop(format!("SELECT * FROM {table}"))
            .expect("the table exists");
        // With this method, the node applies no writes of the cluster until the ALTER has ended. The ALTER waits for the
        // transaction of the reader.
        scope.spawn(|| {
            let mut root = second.admin();
            for statement in [
                "SET SESSION wsrep_OSU_method='RSU'".to_owned(),
                format!("ALTER TABLE {table} COMMENT='x'"),
            ] {
                root.query_drop(statement).expect("root has the privilege");
            }
        });
        eventually("the node applies no writes", || {
            let waits = "SELECT id FROM information_schema.processlist WHERE state LIKE 'Waiting for table metadata%'";
            value(second, waits).is_some()
        });
        assert_eq!(earlier.end().status, Some(3));
        let proxy = Proxy::to(first.port());
        let url = database.url_through(proxy.port());
        let holder = Holder::start(Dlock::new(["exec"]).env("DLOCK_URL", url), &[]);
        let granted = token(&database);
        assert!(token(&there) < granted, "the node lags");
        proxy.retarget(second.port());
        proxy.reset();
        holder.running.wait_for_output("cannot renew init");
        reader.query_drop("COMMIT").expect("root may commit");
        holder
            .running
            .wait_for_output("init is renewed again after");
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
    let holder = Holder::on(&database, &[]);
    let token = token(&database).to_string();
    Galera::isolate(third);

    // With this setting, the node returns old rows instead of error 1047.
    run(third, "SET GLOBAL wsrep_dirty_reads=ON");
    let check = || Dlock::on(&there, ["check", "init", "--token", &token]).run();
    check().expect(69, "", "use another node");
    run(third, "SET GLOBAL wsrep_dirty_reads=OFF");
    check().expect(69, "", "use another node");
    assert_eq!(holder.end().status, Some(3));

    for options in [&["--connect-timeout", "2s"][..], &["-n"]] {
        exec(&there, options).expect(69, "", "use another node");
    }
    let findings = doctor(&there);
    findings.reports("cluster", "fail", "component: non-Primary");
    assert_eq!(findings.status, 78, "{findings:#?}");
    exec(&database, &[]).expect(0, "ran\n", "");

    // Both parts now accept writes. dlock cannot know this, but doctor reports that the part may not be the only one.
    run(third, "SET GLOBAL wsrep_provider_options='pc.bootstrap=1'");
    eventually("the node is primary", || {
        Galera::status(third, "wsrep_ready") == "ON"
    });
    let list = value(third, "SELECT @@wsrep_cluster_address").expect("a node has addresses");
    assert!(list.contains("127.0.0.1:"), "{list}");
    doctor(&there).reports("cluster", "warn", "1 of 2 configured nodes");
    cluster.rebuild();
}

/// Named locks belong to one node, so the follower cannot wait for a leader on another one.
#[test]
fn a_follower_sees_a_leader_on_another_node() {
    let cluster = galera();
    let database = cluster.nodes[0].database("follower");
    exec(&database, &[]).expect(0, "ran\n", "");
    let there = cluster.nodes[1].same(&database);
    let follower = Dlock::on(&there, ["leader", "init", "--follow"]).start();
    let holder = Holder::on(&database, &["--holder=A"]);
    let has_printed = |text: &str| follower.stdout_so_far().ends_with(text);
    eventually("the leader is printed", || has_printed("A\n"));
    assert_eq!(holder.end().status, Some(3));
    eventually("its end is printed", || has_printed("A\n\n"));
}
