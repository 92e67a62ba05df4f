//! Tests on clusters and behind proxies: dlock works, or refuses the server and states the reason.

mod galera;
mod group;
mod lost_grants;
mod moved;
mod proxies;
mod tidb;

use testkit::cli_runner::{Dlock, Outcome, eventually};
use testkit::holder::{Holder, wait_renewals};
use testkit::servers::{Database, Server};

use crate::queue::{Queue, expect_success};

#[track_caller]
fn exec(database: &Database, options: &[&str]) -> Outcome {
    Dlock::on(database, ["exec", "-q", "-a", "init"])
        .args(options)
        .args(["--", "echo", "ran"])
        .run()
}

/// Asserts that `holder` stays on its server while it checks its address twice. `database` has its lease, with a ttl of 6 s.
#[track_caller]
fn stays(holder: &Holder, database: &Database) {
    wait_renewals(database, 8);
    let printed = holder.running.stderr_so_far();
    for text in [moved::MOVED, "cannot renew", "reconnecting"] {
        assert!(!printed.contains(text), "{printed}");
    }
}

/// Starts six waiters on `nodes`, and asserts that they are served in the order of their arrival. A waiter has arrived
/// when `wait_applied` has returned.
fn are_served_in_order(mut queue: Queue, nodes: &[Server], wait_applied: impl Fn()) {
    let holder = queue.holder();
    let mut waiters = Vec::new();
    // Each node has its own queue lock. The first waiter is not on the node of the holder, and no two neighbours are on the
    // same node.
    for (name, node) in [("a", 1), ("b", 0), ("c", 2), ("d", 0), ("e", 1), ("f", 2)] {
        let url = nodes[node].same(&queue.database).url();
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
