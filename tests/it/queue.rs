//! Tests of the queue: the order of grants, the effects of a holder or a waiter that dies, freezes or loses its
//! connection, and polling on servers where the queue lock does not work.

mod order;
mod pool;

use std::fs;
use std::path::PathBuf;
use std::thread;

use mysql::Conn;
use mysql::prelude::Queryable;
use testkit::cli_runner::{Dlock, Running, eventually};
use testkit::command::{Stage, read_message, signal, write_message};
use testkit::on_each_series;
use testkit::proxy::Proxy;
use testkit::servers::{Database, SESSIONS, Series, Server, shared};

/// A set of contenders for `init`. Each command appends the contender's name to one log file.
pub(crate) struct Queue {
    pub(crate) database: Database,
    stage: Stage,
    pub(crate) admin: Conn,
    ttl: &'static str,
}

impl Queue {
    /// Creates a queue whose leases are short enough to expire during a test.
    pub(crate) fn on(server: &Server) -> Self {
        Self::with_ttl(server, "3s")
    }

    pub(crate) fn with_ttl(server: &Server, ttl: &'static str) -> Self {
        Self::of(server.database("queue"), ttl)
    }

    /// Creates a queue in `database`.
    pub(crate) fn of(database: Database, ttl: &'static str) -> Self {
        Dlock::on(&database, ["setup", "-q"])
            .run()
            .expect(0, "", "");
        Self {
            admin: database.admin_conn(),
            database,
            stage: Stage::new(),
            ttl,
        }
    }

    fn log(&self) -> PathBuf {
        self.stage.path("log")
    }

    pub(crate) fn served(&self) -> Vec<String> {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    /// Returns a contender whose command appends the contender's name to the log and exits.
    pub(crate) fn contender(&self, name: &str, options: &[&str]) -> Dlock {
        Dlock::on(
            &self.database,
            ["exec", "-a", "init", "--ttl", self.ttl, "--holder", name],
        )
        .args(options)
        .args(["--", "sh", "-c", r#"echo "$DLOCK_HOLDER" >> "$1""#, "sh"])
        .arg(self.log())
    }

    /// Starts a holder whose command runs until [`Self::let_go`] or a signal. Returns once the command runs.
    pub(crate) fn holder(&self) -> Running {
        self.holder_through(&self.database.url())
    }

    /// Does the same as [`holder`](Self::holder), but dlock connects to `url`.
    pub(crate) fn holder_through(&self, url: &str) -> Running {
        let (ready, go) = (self.stage.fifo("ready"), self.stage.fifo("go"));
        let running = Dlock::on(&self.database, ["exec", "-a", "init", "--ttl", self.ttl])
            .env("DLOCK_URL", url)
            .args(["--holder", "holder", "--", "sh", "-c"])
            .arg(r#"echo up > "$1"; read word < "$2"; exit 3"#)
            .arg("sh")
            .arg(&ready)
            .arg(&go)
            .start();
        read_message(&ready);
        running
    }

    pub(crate) fn let_go(&self) {
        write_message(&self.stage.path("go"), "on");
    }

    /// Starts the contenders `names` in this order. Each contender starts when the previous contender waits for the
    /// queue lock.
    pub(crate) fn enqueue(&mut self, names: &[&str]) -> Vec<Running> {
        let mut running = Vec::new();
        for name in names {
            running.push(self.contender(name, &[]).start());
            let admin = &mut self.admin;
            eventually("the waiter waits for the queue lock", || {
                let waiting: Option<u64> = admin
                    .query_first(format!(
                        "SELECT w.session_id FROM dlock_waiter w JOIN {SESSIONS} p ON p.id=w.session_id \
                         WHERE w.holder='{name}' AND p.info LIKE '%GET_LOCK%'"
                    ))
                    .expect("the waiters can be read");
                waiting.is_some()
            });
        }
        running
    }

    pub(crate) fn count(&mut self, what: &str) -> u64 {
        self.admin
            .query_first(format!("SELECT COUNT(*) FROM {what}"))
            .expect("the rows can be counted")
            .expect("the query returns one row")
    }
}

pub(crate) fn expect_success(waiters: Vec<Running>) {
    for waiter in waiters {
        waiter.wait().expect(0, "", "init is held by");
    }
}

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

#[test]
fn waiters_are_granted_in_order_of_arrival_and_leave_no_entries() {
    for series in Series::ALL {
        let mut queue = Queue::with_ttl(shared(series), "30s");
        let holder = queue.holder();
        let waiters = queue.enqueue(&NAMES);
        queue.let_go();
        assert_eq!(holder.wait().status, Some(3));
        expect_success(waiters);
        assert_eq!(queue.served(), NAMES, "{series}");
        assert_eq!(queue.count("dlock_waiter"), 0, "{series}");
    }
}

on_each_series!(new_contender_does_not_overtake_the_queue);
fn new_contender_does_not_overtake_the_queue(series: Series) {
    // The holder must not detect the loss before the newcomer has ended.
    let mut queue = Queue::with_ttl(shared(series), "1h");
    let holder = queue.holder();
    let waiters = queue.enqueue(&["a"]);
    // During a release, the row is free for a moment while the queue lock passes to the next waiter. This update
    // creates the same state.
    queue
        .admin
        .query_drop("UPDATE dlock_lock SET owner_id=NULL")
        .expect("the row can be changed");
    queue
        .contender("newcomer", &["-n"])
        .run()
        .expect(75, "", "init is");
    // The holder reconnects, detects the loss and stops its command.
    let session: Option<u64> = (queue.admin)
        .query_first("SELECT session_id FROM dlock_lock")
        .expect("the row exists");
    let session = session.expect("a number");
    let killed = queue.admin.query_drop(format!("KILL {session}"));
    killed.expect("root has the privilege");
    holder.wait().expect(76, "", "lost init");
    expect_success(waiters);
    assert_eq!(queue.served(), ["a"], "{series}");
}

on_each_series!(waiter_that_leaves_or_dies_is_skipped);
fn waiter_that_leaves_or_dies_is_skipped(series: Series) {
    let mut queue = Queue::with_ttl(shared(series), "30s");
    let holder = queue.holder();
    let mut waiters = queue.enqueue(&NAMES);
    waiters.remove(3).signal("KILL");
    let leaver = waiters.remove(1);
    leaver.signal("TERM");
    leaver.wait().expect(143, "", "while waiting for init");
    queue.let_go();
    assert_eq!(holder.wait().status, Some(3));
    expect_success(waiters);
    assert_eq!(queue.served(), ["a", "c", "e", "f"], "{series}");
}

on_each_series!(queue_entry_of_a_killed_waiter_is_removed_after_the_wait_of_a_later_contender);
fn queue_entry_of_a_killed_waiter_is_removed_after_the_wait_of_a_later_contender(series: Series) {
    let mut queue = Queue::with_ttl(shared(series), "30s");
    let holder = queue.holder();
    let [killed, other] = ["a", "b"].map(|name| queue.enqueue(&[name]).remove(0));
    killed.signal("KILL");
    let status = || Dlock::on(&queue.database, ["status", "init"]).run().stdout;
    eventually("status shows that the session is gone", || {
        status().contains("gone")
    });
    // A contender searches for dead entries only if the first entry is old enough.
    queue
        .database
        .admin_conn()
        .query_drop("UPDATE dlock_waiter SET enqueued_at=enqueued_at-INTERVAL 1 MINUTE")
        .expect("the rows can be changed");
    let last = queue.contender("c", &[]).start();
    eventually("the last contender waits", || {
        status().lines().any(|line| line.contains(" c "))
    });
    assert!(status().contains("gone"), "{series}");
    queue.let_go();
    assert_eq!(holder.wait().status, Some(3));
    expect_success(vec![other, last]);
    assert_eq!(queue.count("dlock_waiter"), 0, "{series}");
}

on_each_series!(holder_that_reconnects_keeps_the_lock_and_the_queue_order);
fn holder_that_reconnects_keeps_the_lock_and_the_queue_order(series: Series) {
    let mut queue = Queue::on(shared(series));
    let holder = queue.holder();
    let waiters = queue.enqueue(&NAMES);
    let session: u64 = queue
        .admin
        .query_first("SELECT session_id FROM dlock_lock")
        .expect("the table exists")
        .expect("the row exists");
    queue
        .admin
        .query_drop(format!("KILL {session}"))
        .expect("the session can be killed");
    // The first waiter now has the queue lock and is the queue head. Two ttls later, it has still not taken over
    // the lease.
    let mut admin = queue.database.admin_conn();
    eventually("the lease is renewed on the new session", || {
        let renewals: Option<(u64, u64, u8)> = admin
            .query_first("SELECT session_id,renewals,has_queue_lock FROM dlock_lock")
            .expect("the table exists");
        renewals.is_some_and(|(now, renewals, has_queue_lock)| {
            now != session && renewals > 12 && has_queue_lock == 0
        })
    });
    assert_eq!(queue.served(), Vec::<String>::new(), "{series}");
    queue.let_go();
    let outcome = holder.wait();
    outcome.expect(3, "", "is renewed again");
    expect_success(waiters);
    assert_eq!(queue.served(), NAMES, "{series}");
}

/// A server that starts again may have lost a grant, so the waiters first wait for a ttl.
#[test]
fn twenty_waiters_are_all_granted_after_a_server_restart() {
    thread::scope(|scope| {
        for series in Series::ALL {
            scope.spawn(move || grant_twenty_waiters_after_a_restart(series));
        }
    });
}

fn grant_twenty_waiters_after_a_restart(series: Series) {
    let mut server = Server::start(series, &[]);
    let mut queue = Queue::with_ttl(&server, "30s");
    let holder = queue.holder();
    let names: Vec<String> = (10..30).map(|number| number.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let waiters = queue.enqueue(&names);
    server.restart();
    queue.admin = queue.database.admin_conn();
    let renewals = "SELECT renewals FROM dlock_lock";
    let before: Option<u64> = queue.admin.query_first(renewals).expect("the table exists");
    eventually("the lease is renewed on the new server", || {
        let now: Option<u64> = queue.admin.query_first(renewals).expect("the table exists");
        now > before
    });
    queue.let_go();
    assert_eq!(holder.wait().status, Some(3), "{series}");
    for waiter in waiters {
        waiter.wait().expect(0, "", "init is held by");
    }
    let mut all = queue.served();
    all.sort();
    assert_eq!(all, names, "{series}");
}

on_each_series!(frozen_holder_is_taken_over_and_reports_the_loss_when_resumed);
fn frozen_holder_is_taken_over_and_reports_the_loss_when_resumed(series: Series) {
    let mut queue = Queue::on(shared(series));
    let holder = queue.holder();
    let waiters = queue.enqueue(&["a", "b"]);
    signal(holder.pid(), "STOP");
    expect_success(waiters);
    assert_eq!(queue.served(), ["a", "b"], "{series}");
    signal(holder.pid(), "CONT");
    let outcome = holder.wait();
    assert_eq!(outcome.status, Some(76), "{series}: {outcome:?}");
}

on_each_series!(frozen_waiter_delays_the_queue_only_while_its_session_lives);
fn frozen_waiter_delays_the_queue_only_while_its_session_lives(series: Series) {
    let mut queue = Queue::on(shared(series));
    let holder = queue.holder();
    let mut waiters = queue.enqueue(&["a", "b", "c", "d"]);
    // This waiter is stopped when the server grants the queue lock to it.
    let frozen = waiters.remove(1);
    signal(frozen.pid(), "STOP");
    queue.let_go();
    assert_eq!(holder.wait().status, Some(3));
    expect_success(waiters);
    assert_eq!(queue.served(), ["a", "c", "d"], "{series}");
    signal(frozen.pid(), "CONT");
    expect_success(vec![frozen]);
    assert_eq!(queue.served(), ["a", "c", "d", "b"], "{series}");
}

on_each_series!(frozen_queue_head_is_replaced);
fn frozen_queue_head_is_replaced(series: Series) {
    let mut queue = Queue::on(shared(series));
    let holder = queue.holder();
    let mut waiters = queue.enqueue(&["a", "b"]);
    // The holder is killed. The first waiter gets the queue lock and is then stopped until the lease expires.
    holder.crash();
    let mut admin = queue.database.admin_conn();
    eventually("the first waiter is the queue head", || {
        let waiting: Vec<String> = admin
            .query(format!(
                "SELECT CAST(w.holder AS CHAR) FROM dlock_waiter w \
                 JOIN {SESSIONS} p ON p.id=w.session_id WHERE p.info LIKE '%GET_LOCK%'"
            ))
            .expect("the waiters can be read");
        waiting == ["b"]
    });
    let head = waiters.remove(0);
    signal(head.pid(), "STOP");
    expect_success(waiters);
    assert_eq!(queue.served(), ["b"], "{series}");
    signal(head.pid(), "CONT");
    expect_success(vec![head]);
    assert_eq!(queue.served(), ["b", "a"], "{series}");
}

on_each_series!(queue_lock_that_a_foreign_session_keeps_is_used_again_later);
fn queue_lock_that_a_foreign_session_keeps_is_used_again_later(series: Series) {
    let mut queue = Queue::on(shared(series));
    let name: String = queue
        .admin
        .query_first("SELECT CONCAT('dlock:',LEFT(SHA2(CONCAT(CAST(DATABASE() AS BINARY),x'00','init'),256),40))")
        .expect("the name can be computed")
        .expect("the query returns one row");
    let mut foreign_session = queue.database.admin_conn();
    let taken: Option<u8> = foreign_session
        .query_first(format!("SELECT GET_LOCK('{name}',0)"))
        .expect("the queue lock can be requested");
    assert_eq!(taken, Some(1));
    let verbose = queue.contender("a", &["-v"]).run();
    verbose.expect(0, "", "the queue lock of init cannot be used for now");
    let holder = queue.holder();
    queue
        .contender("b", &["-n"])
        .run()
        .expect(75, "", "init is held by holder");
    let waiter = queue.contender("c", &[]).start();
    waiter.wait_for_output("init is held by holder");
    let polling = "dlock_waiter WHERE polls=1";
    eventually("the waiter polls", || queue.count(polling) == 1);
    drop(foreign_session);
    eventually("the waiter uses the queue lock again", || {
        queue.count(polling) == 0
    });
    queue.let_go();
    assert_eq!(holder.wait().status, Some(3), "{series}");
    expect_success(vec![waiter]);
    assert_eq!(queue.served(), ["a", "c"], "{series}");
}

#[test]
fn more_contenders_than_connections_are_all_granted() {
    const CONTENDERS: usize = 100;
    for series in Series::ALL {
        let server = Server::start(series, &["--max-connections=50"]);
        let queue = Queue::on(&server);
        let names: Vec<String> = (0..CONTENDERS)
            .map(|number| format!("{number:03}"))
            .collect();
        let running: Vec<Running> = names
            .iter()
            .map(|name| queue.contender(name, &[]).start())
            .collect();
        for running in running {
            assert_eq!(running.wait().status, Some(0), "{series}");
        }
        let mut all = queue.served();
        all.sort();
        assert_eq!(all, names, "{series}");
    }
}

on_each_series!(status_lists_the_queue_in_order_with_live_sessions);
fn status_lists_the_queue_in_order_with_live_sessions(series: Series) {
    let mut queue = Queue::with_ttl(shared(series), "30s");
    let holder = queue.holder();
    let waiters = queue.enqueue(&["web-2", "web-3"]);
    let text = Dlock::on(&queue.database, ["status", "--json"])
        .run()
        .stdout;
    let document: serde_json::Value = serde_json::from_str(&text).expect("the output is JSON");
    let lock = &document["locks"][0];
    assert_eq!(
        (&lock["action"], &lock["holder"]),
        (&"init".into(), &"holder".into())
    );
    let entries = lock["waiters"].as_array().expect("`waiters` is a list");
    let seen: Vec<_> = entries
        .iter()
        .map(|entry| {
            (
                entry["position"].as_u64(),
                entry["holder"].as_str(),
                entry["alive"].as_bool(),
            )
        })
        .collect();
    let expected = [
        (Some(1), Some("web-2"), Some(true)),
        (Some(2), Some("web-3"), Some(true)),
    ];
    assert_eq!(seen, expected, "{series}");
    assert_eq!(entries[1]["pid"].as_u64(), Some(waiters[1].pid().into()));
    let table = Dlock::on(&queue.database, ["status"]).run().stdout;
    assert!(
        table.contains("POSITION") && table.contains("alive"),
        "{table}"
    );
    queue.let_go();
    assert_eq!(holder.wait().status, Some(3));
    expect_success(waiters);
}

/// Cases in which named locks do not work. Each case contains the string that the server receives instead of
/// `GET_LOCK(`, and the body of a stored function with that name. None means that the function does not exist.
const BROKEN_NAMED_LOCKS: [(&str, Option<&str>); 3] = [
    ("NOT_LOCK(", None),
    ("NUL_LOCK(", Some("RETURN NULL")),
    ("LIE_LOCK(", Some("RETURN 1")),
];

on_each_series!(waiters_poll_without_named_locks_and_are_granted_one_at_a_time);
fn waiters_poll_without_named_locks_and_are_granted_one_at_a_time(series: Series) {
    for (function, body) in BROKEN_NAMED_LOCKS {
        let server = shared(series);
        let mut queue = Queue::on(server);
        if let Some(body) = body {
            let name = function.trim_end_matches('(');
            queue
                .admin
                .query_drop(format!(
                    "CREATE FUNCTION {name}(name VARCHAR(64), seconds BIGINT) RETURNS INT \
                     DETERMINISTIC NO SQL {body}"
                ))
                .expect("the function can be created");
        }
        let proxy = Proxy::rewriting(server.port(), "GET_LOCK(", function);
        let url = queue.database.url_through(proxy.port());
        let through = |dlock: Dlock| dlock.env("DLOCK_URL", &url);

        let verbose = through(queue.contender("a", &["-v"])).run();
        let messages = verbose.stderr.matches("named locks do not work").count();
        assert_eq!(
            (verbose.status, messages),
            (Some(0), 1),
            "{series} {function}: {verbose:?}"
        );

        let holder = queue.holder();
        let mut waiters = Vec::new();
        for name in ["b", "c", "d"] {
            waiters.push(through(queue.contender(name, &[])).start());
            let polling = "dlock_waiter WHERE polls=1";
            eventually("the waiter has its queue entry", || {
                queue.count(polling) >= waiters.len() as u64
            });
        }
        queue.let_go();
        assert_eq!(holder.wait().status, Some(3));
        expect_success(waiters);
        assert_eq!(queue.served(), ["a", "b", "c", "d"], "{series} {function}");
    }
}

#[test]
fn account_that_cannot_delete_queue_entries_is_refused_before_the_run() {
    for series in Series::ALL {
        let mut queue = Queue::on(shared(series));
        let holder = queue.holder();
        let Database { name, user, .. } = queue.database.clone();
        let pattern = name.replace('_', "\\_");
        queue
            .admin
            .query_drop(format!("REVOKE DELETE ON `{pattern}`.* FROM '{user}'@'%'"))
            .expect("grants can be changed");
        let refused = queue.contender("a", &[]).run();
        refused.expect(
            77,
            "",
            "dlock setup --print shows the tables and the grants",
        );
        queue.let_go();
        assert_eq!(holder.wait().status, Some(3), "{series}");
        assert_eq!(queue.served(), Vec::<String>::new(), "{series}");
    }
}

on_each_series!(waiter_that_leaves_removes_its_queue_entry);
fn waiter_that_leaves_removes_its_queue_entry(series: Series) {
    let mut queue = Queue::on(shared(series));
    let holder = queue.holder();
    for waiter in queue.enqueue(&NAMES) {
        waiter.signal("TERM");
        waiter.wait().expect(143, "", "while waiting for init");
    }
    // A waiter that leaves the queue waits only briefly for the server. If the server is too slow, the waiter's row
    // remains, and the next contender removes it.
    let left = queue.count("dlock_waiter");
    assert!(
        left < NAMES.len() as u64,
        "{series}: {left} entries are left"
    );
    queue.let_go();
    assert_eq!(holder.wait().status, Some(3));
}
