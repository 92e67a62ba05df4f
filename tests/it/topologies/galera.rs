//! Tests on a Galera cluster of three nodes.

use crate::cli_runner::{Dlock, Outcome};
use crate::clusters::{Galera, galera, run, value};
use crate::doctor::Findings;
use crate::holder::Holder;
use crate::servers::Database;

fn exec(database: &Database, options: &[&str]) -> Outcome {
    let exec = ["exec", "-a", "init", "--connect-timeout", "2s"];
    Dlock::on(database, exec)
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
fn an_isolated_node_is_refused_and_a_forced_primary_is_reported() {
    let mut cluster = galera();
    let (first, third) = (&cluster.nodes[0], &cluster.nodes[2]);
    let database = first.database("isolated");
    exec(&database, &[]).expect(0, "ran\n", "");
    let there = third.same(&database);
    Galera::isolate(third);

    for options in [&[][..], &["-n"]] {
        exec(&there, options).expect(69, "", "use another node");
    }
    let findings = doctor(&there);
    findings.reports("cluster", "fail", "component: non-Primary");
    assert_eq!(findings.status, 78, "{findings:#?}");
    exec(&database, &[]).expect(0, "ran\n", "");

    // Both parts now accept writes. dlock cannot know this, but doctor reports that the part may not be the only one.
    run(third, "SET GLOBAL wsrep_provider_options='pc.bootstrap=1'");
    crate::cli_runner::eventually("the node is primary", || {
        Galera::status(third, "wsrep_ready") == "ON"
    });
    let list = value(third, "SELECT @@wsrep_cluster_address").expect("a node has addresses");
    assert!(list.contains("127.0.0.1:"), "{list}");
    doctor(&there).reports("cluster", "warn", "1 of 2 configured nodes");
    cluster.rebuild();
}
