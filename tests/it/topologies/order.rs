//! Tests of the order of waiters on the nodes of a cluster, each of which has its own queue lock.

use crate::cli_runner::eventually;
use crate::clusters::galera;
use crate::queue::{Queue, expect_success};

#[test]
fn waiters_on_all_nodes_are_served_in_order() {
    let cluster = galera();
    let mut queue = Queue::on(&cluster.nodes[0]);
    let urls: Vec<String> = (cluster.nodes.iter())
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
    }
    queue.let_go();
    holder.wait().expect(3, "", "");
    expect_success(waiters);
    assert_eq!(queue.served(), ["a", "b", "c", "d", "e", "f"]);
}
