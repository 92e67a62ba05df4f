//! Tests of the order of waiters that the queue lock of the server does not order: waiters that have lost a connection,
//! and waiters that the queue lock of this server does not include.

use testkit::cli_runner::{Running, eventually};
use testkit::holder::status;
use testkit::on_each_flavour;
use testkit::proxy::{AcceptMode, Proxy};
use testkit::servers::{Flavour, SESSIONS, shared};
use testkit::sql::{Sql, connect};

use super::{Queue, expect_success};

/// Returns true if the session of the waiter `name` waits for the queue lock, and false if it does not. None if the
/// session has ended.
fn waits(queue: &mut Queue, name: &str) -> Option<bool> {
    queue.admin.first(format!(
        "SELECT COALESCE(p.state='User lock',0) FROM dlock_waiter w JOIN {SESSIONS} p ON p.id=w.session_id \
         WHERE w.holder='{name}'"
    ))
}

/// Starts the waiter `name` through `proxy`, and returns once it waits for the queue lock.
fn waiter_through(queue: &mut Queue, proxy: &Proxy, name: &str) -> Running {
    let url = queue.database.url_through(proxy.port());
    let waiter = queue.contender(name, &[]).env("DLOCK_URL", url).start();
    queue.wait_until_enqueued(name);
    waiter
}

/// Ends the connections through `proxy`, and waits until the waiter `name` waits for the queue lock on a new one.
fn waits_again_after_reset(queue: &mut Queue, proxy: &Proxy, name: &str) {
    let before = queue.waiting_session(name);
    proxy.reset();
    eventually("the waiter waits again", || {
        let session = queue.waiting_session(name);
        session.is_some() && session != before
    });
}

on_each_flavour!(waiters_that_lose_their_connections_keep_their_positions);
fn waiters_that_lose_their_connections_keep_their_positions(flavour: Flavour) {
    let mut queue = Queue::with_ttl(shared(flavour), "30s");
    let holder = queue.holder();
    let proxies = ["a", "b", "c"].map(|name| (name, Proxy::to(queue.database.port)));
    let mut waiters = Vec::new();
    for (name, proxy) in &proxies {
        waiters.push(waiter_through(&mut queue, proxy, name));
    }
    waiters.extend(queue.enqueue(&["d"]));
    queue.spread_arrivals(2);
    // The first waiter has then started its wait after all others, and the third one before the second one.
    for (name, proxy) in proxies.iter().rev() {
        waits_again_after_reset(&mut queue, proxy, name);
    }
    queue.let_go();
    assert_eq!(holder.wait().status, Some(3));
    expect_success(waiters);
    assert_eq!(queue.served(), ["a", "b", "c", "d"], "{flavour}");
}

on_each_flavour!(waiters_that_came_together_do_not_wait_for_each_other);
/// A waiter that loses its connection waits behind those that came together with it. If such waiters let each other pass, a
/// hundred of them would do it for a minute.
fn waiters_that_came_together_do_not_wait_for_each_other(flavour: Flavour) {
    let mut queue = Queue::with_ttl(shared(flavour), "30s");
    let holder = queue.holder();
    let proxy = Proxy::to(queue.database.port);
    let mut waiters = vec![waiter_through(&mut queue, &proxy, "a")];
    waiters.extend(queue.enqueue(&["b", "c"]));
    queue.spread_arrivals(0);
    waits_again_after_reset(&mut queue, &proxy, "a");
    queue.let_go();
    assert_eq!(holder.wait().status, Some(3));
    expect_success(waiters);
    assert_eq!(queue.served(), ["b", "c", "a"], "{flavour}");
}

on_each_flavour!(queue_head_lets_an_earlier_waiter_pass_that_waits_again);
/// The holder and the first waiter lose their connections, so the second waiter gets the queue lock before the first one
/// waits again.
fn queue_head_lets_an_earlier_waiter_pass_that_waits_again(flavour: Flavour) {
    // The lease outlives the test, and its renewals are rare.
    let mut queue = Queue::with_ttl(shared(flavour), "1h");
    let holder = queue.holder();
    let proxy = Proxy::to(queue.database.port);
    let first = waiter_through(&mut queue, &proxy, "a");
    let second = queue.enqueue(&["b"]).remove(0);
    queue.spread_arrivals(2);
    proxy.door(AcceptMode::Refused);
    for table in ["dlock_waiter WHERE holder='a'", "dlock_lock"] {
        queue.kill_session_of(table);
        eventually("the first waiter's session has ended", || {
            waits(&mut queue, "a").is_none()
        });
    }
    eventually("the second waiter is the queue head", || {
        waits(&mut queue, "b") == Some(false)
    });
    proxy.door(AcceptMode::Open);
    eventually("the first waiter is the queue head", || {
        waits(&mut queue, "a") == Some(false) && waits(&mut queue, "b") == Some(true)
    });
    queue.let_go();
    holder.wait().expect(3, "", "reconnecting");
    expect_success(vec![first, second]);
    assert_eq!(queue.served(), ["a", "b"], "{flavour}");
}

/// The entry of a dead waiter contains the id of another session of the same account. A server numbers its sessions from
/// its start, so after a restart, another session may have the id of a dead waiter. The session does not have to end.
#[test]
fn entry_of_a_dead_waiter_delays_the_queue_for_a_moment_unless_it_is_older_than_the_server() {
    for flavour in Flavour::ALL {
        for (age, is_alive) in [("1 DAY", false), ("0 DAY", true)] {
            let mut queue = Queue::with_ttl(shared(flavour), "6s");
            let holder = queue.holder();
            let mut waiters = queue.enqueue(&["a", "b", "c"]);
            let first = waiters.remove(0);
            first.wait_after("KILL");
            let session = connect(&queue.database.url()).expect("the server accepts");
            let change = format!(
                "UPDATE dlock_waiter SET session_id={},waits_again=1,last_seen_at=last_seen_at-INTERVAL {age} \
                 WHERE holder='a'",
                session.connection_id()
            );
            queue.admin.run(change);
            queue.spread_arrivals(2);
            let shown = status(&queue.database)["waiters"][0]["alive"].clone();
            assert_eq!(shown, is_alive, "{flavour}, {age}");
            queue.let_go();
            assert_eq!(holder.wait().status, Some(3));
            expect_success(waiters);
            let mut served = queue.served();
            if is_alive {
                // Both waiters let the entry pass at nearly the same time, so either can be first.
                served.sort_unstable();
            }
            assert_eq!(served, ["b", "c"], "{flavour}, {age}");
        }
    }
}

on_each_flavour!(a_free_action_is_left_to_an_earlier_waiter_on_another_node);
fn a_free_action_is_left_to_an_earlier_waiter_on_another_node(flavour: Flavour) {
    let mut queue = Queue::on(shared(flavour));
    queue.contender("first", &[]).run().expect(0, "", "");
    // The entry of a waiter on another node of a cluster, which has just shown that it is alive.
    let entry = "INSERT INTO dlock_waiter SET action='init',owner_id='elsewhere',holder='elsewhere',host='',pid=1,\
                 user='',note='',polls=0,server='elsewhere',session_id=1,account='',enqueued_at=UTC_TIMESTAMP(6),\
                 last_seen_at=UTC_TIMESTAMP(6)";
    queue.admin.run(entry);
    (queue.contender("newcomer", &["-n"])).expect(75, "", "init is");
    let waiter = queue.contender("a", &[]).start();
    (queue.admin).wait_until("COUNT(*)=1 FROM dlock_waiter WHERE holder='a'");
    // The other waiter has its turn. A waiter that dies instead is passed, although its entry still counts as live.
    waiter.wait().expect(0, "", "");
    let silent = "dlock_waiter WHERE last_seen_at<UTC_TIMESTAMP(6)-INTERVAL 30 SECOND";
    assert_eq!(queue.count(silent), 0, "the entry is old: {flavour}");
    assert_eq!(queue.served(), ["first", "a"], "{flavour}");
}
