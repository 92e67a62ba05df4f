//! Tests of the order of waiters on the nodes of a cluster, each of which has its own queue lock.

use testkit::cli_runner::eventually;
use testkit::clusters::{galera, group, run, value};
use testkit::servers::Server;

use super::group::database;
use crate::queue::{Queue, expect_success};

/// Starts six waiters on `nodes`, and asserts that they are served in the order of their arrival. A waiter has arrived
/// when `wait_applied` has returned.
fn are_served_in_order(mut queue: Queue, nodes: &[Server], wait_applied: impl Fn()) {
    let urls: Vec<String> = (nodes.iter())
        .map(|node| node.same(&queue.database).url())
        .collect();
    let holder = queue.holder();
    let mut waiters = Vec::new();
    // The first waiter is not on the node of the holder, and no two neighbours are on the same node.
    for (name, node) in [("a", 1), ("b", 0), ("c", 2), ("d", 0), ("e", 1), ("f", 2)] {
        let url = &urls[node];
        waiters.push(queue.contender(name, &[]).env("DLOCK_URL", url).start());
        let entry = format!("dlock_waiter WHERE holder='{name}'");
        eventually("the waiter has its entry", || queue.count(&entry) == 1);
        wait_applied();
    }
    queue.let_go();
    assert_eq!(holder.wait().status, Some(3));
    expect_success(waiters);
    assert_eq!(queue.served(), ["a", "b", "c", "d", "e", "f"]);
}

#[test]
fn waiters_on_all_nodes_are_served_in_order() {
    let cluster = galera();
    let queue = Queue::on(&cluster.nodes[0]);
    are_served_in_order(queue, &cluster.nodes, || {});
}

#[test]
fn waiters_on_all_members_of_a_multi_primary_group_are_served_in_order() {
    let group = group();
    let queue = Queue::of(database(&group), "3s");
    let first = &group.members[0];
    run(first, "DO group_replication_switch_to_multi_primary_mode()");
    are_served_in_order(queue, &group.members, || group.wait_applied());
    let uuid = value(first, "SELECT @@server_uuid").expect("a value");
    let back = format!("DO group_replication_switch_to_single_primary_mode('{uuid}')");
    run(first, &back);
    group.wait_healthy();
}
