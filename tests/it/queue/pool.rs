//! Tests of waiters on a server with fewer threads than waiters.

use testkit::holder::wait_renewals;
use testkit::servers::{Flavour, Server};

use super::{Queue, expect_success};

#[test]
fn a_holder_keeps_its_lease_beside_more_waiters_than_threads() {
    let pool = [
        "--thread-handling=pool-of-threads",
        "--thread-pool-size=2",
        "--thread-pool-max-threads=8",
    ];
    let server = Server::start(Flavour::MariaDb, &pool);
    let queue = Queue::with_ttl(&server, "12s");
    let holder = queue.holder();
    let names: Vec<String> = (10..20).map(|number| format!("waiter-{number}")).collect();
    let waiters = names.iter().map(|name| queue.contender(name, &[]).start());
    let waiters: Vec<_> = waiters.collect();
    // The lease is renewed for longer than its ttl.
    wait_renewals(&queue.database, 7);
    queue.let_go();
    // The holder may have retried a request, but has kept its lease.
    assert_eq!(holder.wait().status, Some(3));
    expect_success(waiters);
    let mut ran = queue.served();
    ran.sort();
    assert_eq!(ran, names);
}
