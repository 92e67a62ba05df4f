//! Tests of the order of waiters that the queue lock of the server does not order: waiters that have lost a connection,
//! and waiters that the queue lock of this server does not include.

use std::thread;

use mysql::prelude::Queryable;
use mysql::{Conn, Opts};
use testkit::cli_runner::{Dlock, Running, eventually};
use testkit::on_each_series;
use testkit::proxy::{AcceptMode, Proxy};
use testkit::servers::{SESSIONS, Series, shared};

use super::{Queue, expect_success};

/// Returns the session of the waiter `name`, if it waits for the queue lock.
fn waiting_session(queue: &mut Queue, name: &str) -> Option<u64> {
    queue
        .admin
        .query_first(format!(
            "SELECT w.session_id FROM dlock_waiter w JOIN {SESSIONS} p ON p.id=w.session_id \
             WHERE w.holder='{name}' AND p.info LIKE '%GET_LOCK%'"
        ))
        .expect("the waiters can be read")
}

/// Returns true if the session of the waiter `name` waits for the queue lock, and false if it does not. None if the
/// session has ended.
fn waits(queue: &mut Queue, name: &str) -> Option<bool> {
    queue
        .admin
        .query_first(format!(
            "SELECT COALESCE(p.info LIKE '%GET_LOCK%',0) FROM dlock_waiter w JOIN {SESSIONS} p ON p.id=w.session_id \
             WHERE w.holder='{name}'"
        ))
        .expect("the waiters can be read")
}

/// Starts the waiter `name` through `proxy`, and returns once it waits for the queue lock.
fn waiter_through(queue: &mut Queue, proxy: &Proxy, name: &str) -> Running {
    let url = queue.database.url_through(proxy.port());
    let waiter = queue.contender(name, &[]).env("DLOCK_URL", url).start();
    eventually("the waiter waits for the queue lock", || {
        waiting_session(queue, name).is_some()
    });
    waiter
}

/// Inserts the queue entry of a waiter on another node of a cluster, which has just shown that it is alive.
fn insert_waiter_elsewhere(queue: &mut Queue) {
    let entry = "INSERT INTO dlock_waiter SET action='init',owner_id='elsewhere',holder='elsewhere',host='',pid=1,\
                 user='',note='',polls=0,server='elsewhere',session_id=1,account='',enqueued_at=UTC_TIMESTAMP(6),\
                 last_seen_at=UTC_TIMESTAMP(6)";
    queue
        .admin
        .query_drop(entry)
        .expect("the row can be inserted");
}

on_each_series!(waiters_that_lose_their_connections_keep_their_positions);
fn waiters_that_lose_their_connections_keep_their_positions(series: Series) {
    let mut queue = Queue::with_ttl(shared(series), "30s");
    let holder = queue.holder();
    let proxies = ["a", "b", "c"].map(|name| (name, Proxy::to(queue.database.port)));
    let mut waiters = Vec::new();
    for (name, proxy) in &proxies {
        waiters.push(waiter_through(&mut queue, proxy, name));
    }
    waiters.extend(queue.enqueue(&["d"]));
    // The first waiter has then started its wait after all others, and the third one before the second one.
    for (name, proxy) in [&proxies[2], &proxies[1], &proxies[0]] {
        let before = waiting_session(&mut queue, name);
        proxy.reset();
        eventually("the waiter waits again", || {
            let session = waiting_session(&mut queue, name);
            session.is_some() && session != before
        });
    }
    queue.let_go();
    assert_eq!(holder.wait().status, Some(3));
    expect_success(waiters);
    assert_eq!(queue.served(), ["a", "b", "c", "d"], "{series}");
}

/// The holder and the first waiter lose their connections, so the second waiter gets the queue lock before the first one
/// waits again.
#[test]
fn queue_head_lets_an_earlier_waiter_pass_that_waits_again() {
    thread::scope(|scope| {
        for series in Series::ALL {
            scope.spawn(move || {
                // The lease outlives the test, and its renewals are rare.
                let mut queue = Queue::with_ttl(shared(series), "1h");
                let holder = queue.holder();
                let proxy = Proxy::to(queue.database.port);
                let first = waiter_through(&mut queue, &proxy, "a");
                let second = queue.enqueue(&["b"]).remove(0);
                proxy.door(AcceptMode::Refused);
                for table in ["dlock_waiter WHERE holder='a'", "dlock_lock"] {
                    let session = format!("SELECT session_id FROM {table}");
                    let session: Option<u64> = queue.admin.query_first(session).expect("a row");
                    let kill = format!("KILL {}", session.expect("one row"));
                    queue.admin.query_drop(kill).expect("root may kill");
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
                assert_eq!(queue.served(), ["a", "b"], "{series}");
            });
        }
    });
}

/// Kills the first waiter of the queue a, b, c, and writes the id of another session of the same account into its entry,
/// as if the entry was last updated `age` ago. Then all others must be served, and the session must not have to end.
fn serve_beside_the_entry_of_a_dead_waiter(series: Series, age: &str, is_alive: bool) {
    let mut queue = Queue::on(shared(series));
    let holder = queue.holder();
    let mut waiters = queue.enqueue(&["a", "b", "c"]);
    let first = waiters.remove(0);
    first.signal("KILL");
    first.wait();
    let url = queue.database.url();
    let mut pool = Conn::new(Opts::from_url(&url).expect("a URL")).expect("the server accepts");
    let session: Option<u64> = pool.query_first("SELECT CONNECTION_ID()").expect("an id");
    let session = session.expect("an id");
    let change = format!(
        "UPDATE dlock_waiter SET session_id={session},waits_again=1,last_seen_at=last_seen_at-INTERVAL {age} \
         WHERE holder='a'"
    );
    queue.admin.query_drop(change).expect("the row is changed");
    let status = Dlock::on(&queue.database, ["status", "init", "--json"]).run();
    let status: serde_json::Value = serde_json::from_str(&status.stdout).expect("JSON");
    assert_eq!(status["locks"][0]["waiters"][0]["alive"], is_alive);
    queue.let_go();
    assert_eq!(holder.wait().status, Some(3));
    expect_success(waiters);
    let mut served = queue.served();
    if is_alive {
        // Both waiters let the entry pass at nearly the same time, so either can be first.
        served.sort_unstable();
    }
    assert_eq!(served, ["b", "c"], "{series}");
    drop(pool);
}

/// A server numbers its sessions from its start, so after a restart, another session may have the id of a dead waiter.
#[test]
fn entry_from_before_the_servers_start_does_not_delay_the_queue() {
    for series in Series::ALL {
        serve_beside_the_entry_of_a_dead_waiter(series, "1 DAY", false);
    }
}

#[test]
fn earlier_waiter_that_does_not_wait_delays_the_queue_only_for_a_moment() {
    for series in Series::ALL {
        serve_beside_the_entry_of_a_dead_waiter(series, "0 DAY", true);
    }
}

on_each_series!(a_free_action_is_left_to_an_earlier_waiter_on_another_node);
fn a_free_action_is_left_to_an_earlier_waiter_on_another_node(series: Series) {
    let mut queue = Queue::on(shared(series));
    queue.contender("first", &[]).run().expect(0, "", "");
    insert_waiter_elsewhere(&mut queue);
    queue
        .contender("newcomer", &["-n"])
        .run()
        .expect(75, "", "init is");
    let waiter = queue.contender("a", &[]).start();
    let entry = "dlock_waiter WHERE holder='a'";
    eventually("the waiter has an entry", || queue.count(entry) == 1);
    // The other waiter has its turn. A waiter that dies instead is passed, although its entry still counts as live.
    waiter.wait().expect(0, "", "");
    let silent = "dlock_waiter WHERE last_seen_at<UTC_TIMESTAMP(6)-INTERVAL 30 SECOND";
    assert_eq!(queue.count(silent), 0, "the entry is old: {series}");
    assert_eq!(queue.served(), ["first", "a"], "{series}");
}

#[test]
fn a_poller_keeps_its_position_among_waiters_for_the_queue_lock() {
    for series in Series::ALL {
        let mut queue = Queue::on(shared(series));
        let holder = queue.holder();
        let proxy = Proxy::rewriting(queue.database.port, "GET_LOCK(", "NOT_LOCK(");
        let url = queue.database.url_through(proxy.port());
        let poller = queue.contender("a", &[]).env("DLOCK_URL", url).start();
        let polling = "dlock_waiter WHERE polls=1";
        eventually("the poller has an entry", || queue.count(polling) == 1);
        let mut waiters = queue.enqueue(&["b", "c"]);
        waiters.push(poller);
        queue.let_go();
        assert_eq!(holder.wait().status, Some(3));
        expect_success(waiters);
        assert_eq!(queue.served(), ["a", "b", "c"], "{series}");
    }
}
