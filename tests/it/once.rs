//! Tests of `--once`: dlock records a success, the other replicas then exit with 0 and do not run the command, and a
//! holder that has lost its lease cannot record a success.

use std::fs;
use std::path::PathBuf;

use testkit::cli_runner::{Dlock, Running};
use testkit::command::Stage;
use testkit::holder::wait_renewals;
use testkit::on_each_flavour;
use testkit::proxy::Proxy;
use testkit::servers::{Database, Flavour, SESSIONS, shared};

use crate::faults::on_each;

/// A set of replicas whose commands append words to one log file.
struct Replicas {
    database: Database,
    stage: Stage,
}

impl Replicas {
    fn on(flavour: Flavour) -> Self {
        Self {
            database: shared(flavour).set_up("once"),
            stage: Stage::new(),
        }
    }

    fn log(&self) -> PathBuf {
        self.stage.path("log")
    }

    fn ran(&self) -> Vec<String> {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    /// Returns a replica whose command appends `word` to the log and exits with `status`.
    fn replica(&self, options: &[&str], word: &str, status: i32) -> Dlock {
        Dlock::on(&self.database, ["exec", "-a", "init"])
            .args(options)
            .args(["--", "sh", "-c", r#"echo "$2" >> "$1"; exit "$3""#, "sh"])
            .arg(self.log())
            .args([word, &status.to_string()])
    }

    /// Starts a replica whose command waits for [`Stage::let_go`] and exits with the status from that call. Returns once
    /// the command is running.
    fn holder(&self, options: &[&str]) -> Running {
        let exec = Dlock::on(&self.database, ["exec", "-a", "init"]).args(options);
        let script = r#"echo up > "$1"; read status < "$2"; echo holder >> "$log"; exit "$status""#;
        self.stage.start(exec.env("log", self.log()), script)
    }

    /// Waits until `count` sessions wait for the queue lock.
    fn wait_for_waiters(&self, count: u64) {
        self.database.wait_until(format!(
            "COUNT(*)={count} FROM dlock_waiter w JOIN {SESSIONS} p ON p.id=w.session_id \
             WHERE p.state='User lock'"
        ));
    }

    fn done(&self) -> Vec<String> {
        let query = "SELECT once_key FROM dlock_success WHERE action='init' ORDER BY once_key";
        self.database.rows(query)
    }

    /// Revokes all privileges of the test account except `grants`. Each element of `grants` contains the privileges on
    /// one table.
    fn restrict(&self, grants: &[(&str, &str)]) {
        let Database { name, user, .. } = &self.database;
        (self.database).run(format!(
            "REVOKE ALL PRIVILEGES, GRANT OPTION FROM '{user}'@'%'"
        ));
        for (rights, table) in grants {
            self.database
                .grant(&format!("{rights} ON `{name}`.{table}"));
        }
    }
}

/// Runs `test` on each kind of server, with replicas on a new database.
fn everywhere(test: impl Fn(Replicas)) {
    for flavour in Flavour::ALL {
        test(Replicas::on(flavour));
    }
}

#[test]
fn recorded_success_is_found_with_one_request_and_not_run_again_and_its_holder_is_named() {
    everywhere(|replicas| {
        (replicas.replica(&["--once", "--holder=web-1/1"], "one", 0)).expect(0, "", "");
        let outcome = replicas.replica(&["--once"], "two", 3).run();
        let success = "SELECT token,done_at FROM dlock_success WHERE once_key=''";
        let (token, at): (u64, String) = replicas.database.value(success);
        let at = at.replace(' ', "T");
        outcome.expect(0, "", "dlock: init was done by web-1/1 ");
        let when = format!(" ago (token {token}, {at}Z); not run again");
        outcome.expect(0, "", &when);
        (replicas.replica(&["--once", "-q"], "three", 3)).expect(0, "", "");
        assert_eq!(replicas.ran(), ["one"]);

        // Each key runs once, also after a rollback to an older key.
        for (key, message) in [
            ("--once=v1", ""),
            ("--once=v2", ""),
            ("--once=v1", "init (v1) was done by "),
            ("--once=V1", ""),
        ] {
            replicas.replica(&[key], key, 0).expect(0, "", message);
        }
        let ran = ["one", "--once=v1", "--once=v2", "--once=V1"];
        assert_eq!(replicas.ran(), ran);
        assert_eq!(replicas.done(), ["", "V1", "v1", "v2"]);
        // Without --once, the command runs even if a success is recorded.
        replicas.replica(&[], "plain", 0).run().expect(0, "", "");

        // A success is found with one request. After this restriction, every write by the account would fail.
        let tables = ["dlock_schema", "dlock_lock", "dlock_success"];
        replicas.restrict(&tables.map(|table| ("SELECT", table)));
        let proxy = Proxy::to(replicas.database.port);
        let url = replicas.database.url_through(proxy.port());
        let again = replicas
            .replica(&["--once=v1"], "again", 0)
            .env("DLOCK_URL", url);
        again.expect(0, "", "init (v1) was done by ");
        assert_eq!(replicas.ran().len(), 5);
        // dlock does not request the queue lock.
        let text = proxy.only_query();
        assert!(!text.contains("GET_LOCK"), "{text}");
    });
}

#[test]
fn failed_run_is_not_recorded_and_the_next_waiter_runs() {
    everywhere(|replicas| {
        let holder = replicas.holder(&["--once=v1"]);
        let waiters = [("failed", 7, 1), ("done", 0, 2), ("late", 0, 3)];
        let waiters = waiters.map(|(word, status, count)| {
            let waiter = replicas.replica(&["--once=v1"], word, status).start();
            replicas.wait_for_waiters(count);
            waiter
        });
        replicas.stage.let_go("5");
        assert_eq!(holder.wait().status, Some(5));
        let statuses = waiters.map(|one| one.wait().status);
        assert_eq!(statuses, [Some(7), Some(0), Some(0)]);
        assert_eq!(replicas.ran(), ["holder", "failed", "done"]);
    });
}

#[test]
fn once_waiters_exit_0_when_the_holder_succeeds() {
    everywhere(|replicas| {
        let holder = replicas.holder(&["--once=v1"]);
        let mut waiters: Vec<Running> = (0..4)
            .map(|_| replicas.replica(&["--once=v1"], "waiter", 3).start())
            .collect();
        replicas.wait_for_waiters(4);
        // A waiter without named locks polls.
        let no_locks = Proxy::rewriting(replicas.database.port, "GET_LOCK", "GET_LOCX");
        let url = replicas.database.url_through(no_locks.port());
        let poller = replicas.replica(&["--once=v1", "-v"], "waiter", 3);
        let poller = poller.env("DLOCK_URL", &url).start_until("by polling");
        waiters.push(poller);
        replicas.stage.let_go("0");
        holder.wait().expect(0, "", "");
        for waiter in waiters {
            waiter.wait().expect(0, "", "init (v1) was done by ");
        }
        assert_eq!(replicas.ran(), ["holder"]);
        let left: u64 = replicas.database.value("SELECT COUNT(*) FROM dlock_waiter");
        assert_eq!(left, 0);
    });
}

#[test]
fn success_is_recorded_although_named_locks_stop_working_during_the_run() {
    on_each(|flavour| {
        // Either a renewal is refused first, or the release.
        for renews in [true, false] {
            let database = shared(flavour).database("once");
            let proxy = Proxy::to(database.port);
            let ttl = if renews { "--ttl=6s" } else { "--ttl=1m" };
            let stage = Stage::new();
            let exec = Dlock::through(&database, proxy.port(), ["exec", "init", "--once", ttl]);
            let holder = stage.start(exec, r#"echo up > "$1"; read word < "$2""#);
            // The server then answers that there are no such functions.
            proxy.rewrite("_LOCK(", "_LOXX(");
            if renews {
                wait_renewals(&database, 2);
            }
            stage.let_go("go");
            holder.wait().exited(0);
            Dlock::typed(&database, "exec init --once -- false").expect(0, "", "init was done by ");
        }
    });
}

on_each_flavour!(killed_once_holder_is_replaced_by_a_waiter_that_runs);
fn killed_once_holder_is_replaced_by_a_waiter_that_runs(flavour: Flavour) {
    let replicas = Replicas::on(flavour);
    // The lease is short because it has to expire during the test.
    let short = ["--once=v1", "--ttl=6s"];
    let holder = replicas.holder(&short);
    let mut waiters: Vec<Running> = (0..6)
        .map(|_| replicas.replica(&short, "done", 0).start())
        .collect();
    replicas.wait_for_waiters(6);
    holder.crash();
    for waiter in waiters.drain(2..4) {
        assert_eq!(waiter.wait_after("TERM").status, Some(143));
    }
    for waiter in waiters {
        assert_eq!(waiter.wait().status, Some(0));
    }
    assert_eq!(replicas.ran(), ["done"]);
    assert_eq!(replicas.done(), ["v1"]);
}

#[test]
fn holder_that_lost_its_lease_cannot_record_a_success() {
    everywhere(|mut replicas| {
        for (way, taken) in [
            ("taken over", "owner_id=REPEAT('x',16),token=token+1"),
            ("freed", "owner_id=NULL"),
        ] {
            // The ttl is long, so the release detects the loss before a renewal does.
            let holder = replicas.holder(&["--once", "--ttl=5m"]);
            let database = replicas.database.clone();
            database.run(format!("UPDATE dlock_lock SET {taken}"));
            replicas.stage.let_go("0");
            holder.wait().expect(76, "", "does not count as done");
            assert!(replicas.done().is_empty(), "{way}");
            database.run("UPDATE dlock_lock SET owner_id=NULL");
            replicas.stage = Stage::new();
        }
    });
}

#[test]
fn account_that_cannot_record_a_success_runs_no_command() {
    everywhere(|replicas| {
        replicas.replica(&[], "first", 0).run().expect(0, "", "");
        replicas.restrict(&[
            ("SELECT", "dlock_schema"),
            ("SELECT, INSERT, UPDATE", "dlock_lock"),
            ("SELECT, INSERT, UPDATE, DELETE", "dlock_waiter"),
            ("SELECT, INSERT, UPDATE", "dlock_history"),
            ("SELECT", "dlock_success"),
        ]);
        let second = replicas.replica(&["--once"], "second", 0).run();
        second.expect(77, "", "dlock_success");
        replicas.restrict(&[
            ("SELECT", "dlock_schema"),
            ("SELECT, INSERT, UPDATE", "dlock_lock"),
        ]);
        let third = replicas.replica(&["--once"], "third", 0).run();
        third.expect(77, "", "dlock setup --print");
        assert_eq!(replicas.ran(), ["first"]);
        let held = "SELECT COUNT(*) FROM dlock_lock WHERE owner_id IS NOT NULL";
        assert_eq!(replicas.database.value::<u64>(held), 0);
    });
}
