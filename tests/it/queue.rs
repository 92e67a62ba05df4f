//! Tests of the queue: the order of grants, the effects of a holder or a waiter that dies, freezes or loses its
//! connection, and polling on servers where the queue lock does not work.

mod order;
mod pool;

use std::fs;
use std::path::PathBuf;

use mysql::Conn;
use serde_json::json;
use testkit::cli_runner::{Dlock, Running, eventually};
use testkit::command::{Stage, signal};
use testkit::holder::{status, wait_renewals};
use testkit::proxy::Proxy;
use testkit::servers::{Database, Flavour, SESSIONS, Series, Server, shared};
use testkit::sql::Sql;
use testkit::{on_each_flavour, on_each_series};

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

    pub(crate) fn of(database: Database, ttl: &'static str) -> Self {
        database.set_up();
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
        let exec = Dlock::typed(&self.database, "exec -a init --holder holder --ttl");
        let exec = exec.arg(self.ttl).env("DLOCK_URL", url);
        (self.stage).start(exec, r#"echo up > "$1"; read word < "$2"; exit 3"#)
    }

    pub(crate) fn let_go(&self) {
        self.stage.let_go("on");
    }

    /// Starts the contenders `names` in this order. Each contender starts when the previous contender waits for the
    /// queue lock.
    pub(crate) fn enqueue(&mut self, names: &[&str]) -> Vec<Running> {
        let mut running = Vec::new();
        for name in names {
            running.push(self.contender(name, &[]).start());
            self.wait_until_enqueued(name);
        }
        running
    }

    /// Waits until the waiter `name` waits for the queue lock.
    fn wait_until_enqueued(&mut self, name: &str) {
        eventually("the waiter waits for the queue lock", || {
            self.waiting_session(name).is_some()
        });
    }

    /// Changes the queue as if the waiters had entered it `seconds` after each other, a few minutes ago.
    pub(crate) fn spread_arrivals(&mut self, seconds: u64) {
        let change = format!(
            "UPDATE dlock_waiter SET enqueued_at=UTC_TIMESTAMP(6)-INTERVAL (1000-position)*{seconds} SECOND"
        );
        self.admin.run(change);
    }

    /// Returns the session of the waiter `name`, if it waits for the queue lock. The text of its packet would not show
    /// this: the server also shows it while it inserts the entry, and another waiter could then start its wait first.
    fn waiting_session(&mut self, name: &str) -> Option<u64> {
        self.admin.first(format!(
            "SELECT w.session_id FROM dlock_waiter w JOIN {SESSIONS} p ON p.id=w.session_id \
             WHERE w.holder='{name}' AND p.state='User lock'"
        ))
    }

    pub(crate) fn count(&mut self, what: &str) -> u64 {
        self.admin.value(format!("SELECT COUNT(*) FROM {what}"))
    }

    /// Kills the session that the row of `table` names. Returns the id of the session.
    fn kill_session_of(&mut self, table: &str) -> u64 {
        let session = self.admin.value(format!("SELECT session_id FROM {table}"));
        self.admin.run(format!("KILL {session}"));
        session
    }
}

/// The queue entries of the contenders that poll.
const POLLING: &str = "dlock_waiter WHERE polls=1";

pub(crate) fn expect_success(waiters: Vec<Running>) {
    for waiter in waiters {
        waiter.wait().expect(0, "", "init is held by");
    }
}

on_each_series!(waiters_are_granted_in_order_and_those_that_left_or_died_are_skipped);
fn waiters_are_granted_in_order_and_those_that_left_or_died_are_skipped(series: Series) {
    let mut queue = Queue::with_ttl(shared(series), "30s");
    let holder = queue.holder();
    let mut waiters = queue.enqueue(&["a", "dead", "b"]);

    let lock = status(&queue.database);
    assert_eq!([&lock["action"], &lock["holder"]], ["init", "holder"]);
    let fields = ["position", "holder", "alive", "pid"];
    let shown = lock["waiters"].as_array().expect("`waiters` is a list");
    let shown: Vec<_> = (shown.iter())
        .map(|entry| fields.map(|field| entry[field].clone()))
        .collect();
    let entry = |position: usize, name: &str| {
        let pid = waiters[position - 1].pid();
        [json!(position), json!(name), json!(true), json!(pid)]
    };
    let expected = [entry(1, "a"), entry(2, "dead"), entry(3, "b")];
    assert_eq!(shown, expected, "{series}");
    let database = queue.database.clone();
    let table = || Dlock::on(&database, ["status"]).run().stdout;
    let text = table();
    let is_shown = text.contains("POSITION") && text.contains("alive");
    assert!(is_shown, "{text}");

    // A waiter that leaves the queue waits only briefly for the server. If the server is too slow, its entry remains.
    let is_removed = (0..10).any(|number| {
        let name = format!("leaver-{number}");
        let leaver = queue.enqueue(&[&name]).remove(0);
        (leaver.wait_after("TERM")).expect(143, "", "while waiting for init");
        queue.count(&format!("dlock_waiter WHERE holder='{name}'")) == 0
    });
    assert!(is_removed, "{series}: a waiter that leaves keeps its entry");
    waiters.remove(1).signal("KILL");
    eventually("status shows that the session is gone", || {
        table().contains("gone")
    });
    // A contender searches for dead entries only if the first entry is old enough.
    (queue.admin).run("UPDATE dlock_waiter SET enqueued_at=enqueued_at-INTERVAL 1 MINUTE");
    waiters.push(queue.contender("c", &[]).start());
    (queue.admin).wait_until("COUNT(*)=1 FROM dlock_waiter WHERE holder='c'");
    assert!(table().contains("gone"), "{series}");

    queue.let_go();
    assert_eq!(holder.wait().status, Some(3));
    expect_success(waiters);
    assert_eq!(queue.served(), ["a", "b", "c"], "{series}");
    let left = "SELECT holder FROM dlock_waiter WHERE holder NOT LIKE 'leaver-%'";
    let left: Vec<String> = queue.admin.rows(left);
    assert_eq!(left, [""; 0], "{series}");
}

on_each_flavour!(new_contender_does_not_overtake_the_queue);
fn new_contender_does_not_overtake_the_queue(flavour: Flavour) {
    // The holder must not detect the loss before the newcomer has ended.
    let mut queue = Queue::with_ttl(shared(flavour), "1h");
    let holder = queue.holder();
    let waiters = queue.enqueue(&["a"]);
    // During a release, the row is free for a moment while the queue lock passes to the next waiter. This update
    // creates the same state.
    queue.admin.run("UPDATE dlock_lock SET owner_id=NULL");
    (queue.contender("newcomer", &["-n"])).expect(75, "", "init is");
    // The holder reconnects, detects the loss and stops its command.
    queue.kill_session_of("dlock_lock");
    holder.wait().expect(76, "", "lost init");
    expect_success(waiters);
    assert_eq!(queue.served(), ["a"], "{flavour}");
}

on_each_flavour!(holder_that_reconnects_keeps_the_lock_and_the_queue_order);
fn holder_that_reconnects_keeps_the_lock_and_the_queue_order(flavour: Flavour) {
    let mut queue = Queue::with_ttl(shared(flavour), "6s");
    let holder = queue.holder();
    let waiters = queue.enqueue(&["a", "b", "c"]);
    let session = queue.kill_session_of("dlock_lock");
    // The first waiter now has the queue lock and is the queue head. Two ttls later, it has still not taken over
    // the lease.
    (queue.admin).wait_until(format!(
        "COUNT(*)=1 FROM dlock_lock WHERE session_id<>{session} AND renewals>12 AND has_queue_lock=0"
    ));
    assert_eq!(queue.served(), [""; 0], "{flavour}");
    queue.let_go();
    holder.wait().expect(3, "", "is renewed again");
    expect_success(waiters);
    assert_eq!(queue.served(), ["a", "b", "c"], "{flavour}");
}

on_each_flavour!(waiters_are_all_granted_after_a_server_restart_and_a_contender_waits_for_a_server);
/// A server that starts again may have lost a grant, so the waiters first wait for a ttl.
fn waiters_are_all_granted_after_a_server_restart_and_a_contender_waits_for_a_server(
    flavour: Flavour,
) {
    let mut server = Server::start(flavour, &[]);
    let mut queue = Queue::with_ttl(&server, "30s");
    let holder = queue.holder();
    let names: Vec<String> = (10..22).map(|number| number.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let waiters = queue.enqueue(&names);
    server.restart();
    wait_renewals(&queue.database, 1);
    queue.let_go();
    assert_eq!(holder.wait().status, Some(3), "{flavour}");
    expect_success(waiters);
    let mut all = queue.served();
    all.sort();
    assert_eq!(all, names, "{flavour}");

    signal(server.pid(), "KILL");
    let early = queue.contender("early", &[]).start_until("trying again");
    server.restart();
    early.wait().expect(0, "", "trying again");
}

on_each_flavour!(frozen_holder_and_waiter_are_passed_and_report_it_when_resumed);
fn frozen_holder_and_waiter_are_passed_and_report_it_when_resumed(flavour: Flavour) {
    let mut queue = Queue::on(shared(flavour));
    let holder = queue.holder();
    let mut waiters = queue.enqueue(&["a", "b", "c", "d"]);
    // This waiter is stopped when the server grants the queue lock to it.
    let frozen = waiters.remove(1);
    frozen.signal("STOP");
    holder.signal("STOP");
    expect_success(waiters);
    assert_eq!(queue.served(), ["a", "c", "d"], "{flavour}");
    holder.wait_after("CONT").exited(76);
    frozen.signal("CONT");
    expect_success(vec![frozen]);
    assert_eq!(queue.served(), ["a", "c", "d", "b"], "{flavour}");
}

on_each_flavour!(frozen_queue_head_is_replaced);
fn frozen_queue_head_is_replaced(flavour: Flavour) {
    let mut queue = Queue::on(shared(flavour));
    let holder = queue.holder();
    let mut waiters = queue.enqueue(&["a", "b"]);
    // The holder is killed. The first waiter gets the queue lock and is then stopped until the lease expires.
    holder.crash();
    let waits =
        format!("dlock_waiter w JOIN {SESSIONS} p ON p.id=w.session_id WHERE p.state='User lock'");
    eventually("the first waiter is the queue head", || {
        queue.count(&waits) == 1 && queue.count(&format!("{waits} AND w.holder='b'")) == 1
    });
    let head = waiters.remove(0);
    head.signal("STOP");
    expect_success(waiters);
    assert_eq!(queue.served(), ["b"], "{flavour}");
    head.signal("CONT");
    expect_success(vec![head]);
    assert_eq!(queue.served(), ["b", "a"], "{flavour}");
}

on_each_flavour!(queue_lock_that_a_foreign_session_keeps_is_used_again_later);
fn queue_lock_that_a_foreign_session_keeps_is_used_again_later(flavour: Flavour) {
    let mut queue = Queue::with_ttl(shared(flavour), "6s");
    let mut foreign_session = queue.database.admin_conn();
    let take = "SELECT GET_LOCK(CONCAT('dlock:',LEFT(SHA2(CONCAT(CAST(DATABASE() AS BINARY),x'00','init'),256),40)),0)";
    assert_eq!(foreign_session.value::<u8>(take), 1);
    let verbose = queue.contender("a", &["-v"]).run();
    verbose.expect(0, "", "the queue lock of init cannot be used for now");
    let holder = queue.holder();
    queue
        .contender("b", &["-n"])
        .expect(75, "", "init is held by holder");
    let waiter = queue.contender("c", &[]).start();
    waiter.wait_for_output("init is held by holder");
    eventually("the waiter polls", || queue.count(POLLING) == 1);
    drop(foreign_session);
    // The waiter uses the queue lock again.
    (queue.admin).wait_until(format!("COUNT(*)=0 FROM {POLLING}"));
    queue.let_go();
    assert_eq!(holder.wait().status, Some(3), "{flavour}");
    expect_success(vec![waiter]);
    assert_eq!(queue.served(), ["a", "c"], "{flavour}");
}

on_each_flavour!(more_contenders_than_connections_are_all_granted);
fn more_contenders_than_connections_are_all_granted(flavour: Flavour) {
    let server = Server::start(flavour, &["--max-connections=15"]);
    let queue = Queue::on(&server);
    let names: Vec<String> = (10..40).map(|number| number.to_string()).collect();
    let start = |name: &String| queue.contender(name, &[]).start();
    let running: Vec<Running> = names.iter().map(start).collect();
    for running in running {
        assert_eq!(running.wait().status, Some(0), "{flavour}");
    }
    let mut all = queue.served();
    all.sort();
    assert_eq!(all, names, "{flavour}");
}

/// Cases in which named locks do not work. Each case contains the string that the server receives instead of
/// `GET_LOCK(`, and the body of a stored function with that name. None means that the function does not exist.
const BROKEN_NAMED_LOCKS: [(&str, Option<&str>); 3] = [
    ("NOT_LOCK(", None),
    ("NUL_LOCK(", Some("RETURN NULL")),
    ("LIE_LOCK(", Some("RETURN 1")),
];

on_each_series!(waiters_poll_without_named_locks_and_are_granted_one_at_a_time);
/// Two waiters poll, and a later one waits for the queue lock.
fn waiters_poll_without_named_locks_and_are_granted_one_at_a_time(series: Series) {
    for (function, body) in BROKEN_NAMED_LOCKS {
        let server = shared(series);
        let mut queue = Queue::with_ttl(server, "6s");
        if let Some(body) = body {
            let create = format!(
                "CREATE FUNCTION {}(name VARCHAR(64), seconds BIGINT) RETURNS INT DETERMINISTIC NO SQL {body}",
                function.trim_end_matches('(')
            );
            queue.admin.run(create);
        }
        let proxy = Proxy::rewriting(server.port(), "GET_LOCK(", function);
        let url = queue.database.url_through(proxy.port());
        let through = |dlock: Dlock| dlock.env("DLOCK_URL", &url);

        let verbose =
            through(queue.contender("a", &["-v"])).expect(0, "", "named locks do not work");
        let messages = verbose.stderr.matches("named locks do not work").count();
        assert_eq!(messages, 1, "{series} {function}: {verbose:?}");

        let holder = queue.holder();
        let mut waiters = Vec::new();
        for name in ["b", "c"] {
            waiters.push(through(queue.contender(name, &[])).start());
            let polling = waiters.len() as u64;
            eventually("the waiter polls", || queue.count(POLLING) == polling);
        }
        waiters.extend(queue.enqueue(&["d"]));
        queue.let_go();
        assert_eq!(holder.wait().status, Some(3));
        expect_success(waiters);
        assert_eq!(queue.served(), ["a", "b", "c", "d"], "{series} {function}");
    }
}

#[test]
fn account_that_cannot_delete_queue_entries_is_refused_before_the_run() {
    for flavour in Flavour::ALL {
        let mut queue = Queue::with_ttl(shared(flavour), "6s");
        let holder = queue.holder();
        let Database { name, user, .. } = &queue.database;
        let pattern = name.replace('_', "\\_");
        let revoke = format!("REVOKE DELETE ON `{pattern}`.* FROM '{user}'@'%'");
        queue.admin.run(revoke);
        let grants = "dlock setup --print shows the tables and the grants";
        queue.contender("a", &[]).run().expect(77, "", grants);
        queue.let_go();
        assert_eq!(holder.wait().status, Some(3), "{flavour}");
        assert_eq!(queue.served(), [""; 0], "{flavour}");
    }
}
