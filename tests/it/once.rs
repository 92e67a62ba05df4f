//! Tests of `--once`: dlock records a success, the other replicas then exit with 0 and do not run the command, and a
//! holder that has lost its lease cannot record a success.

use std::fs;
use std::path::PathBuf;

use mysql::Conn;
use mysql::prelude::Queryable;
use testkit::cli_runner::{Dlock, Running, eventually};
use testkit::command::{Stage, read_message, write_message};
use testkit::holder::renewals;
use testkit::on_each_flavour;
use testkit::proxy::{Proxy, Request};
use testkit::servers::{Database, Flavour, SESSIONS, shared};

use crate::faults::on_each;

/// A set of replicas whose commands append words to one log file.
struct Replicas {
    database: Database,
    stage: Stage,
    admin: Conn,
}

impl Replicas {
    fn on(flavour: Flavour) -> Self {
        let database = shared(flavour).database("once");
        Dlock::on(&database, ["setup", "-q"])
            .run()
            .expect(0, "", "");
        Self {
            admin: database.admin_conn(),
            database,
            stage: Stage::new(),
        }
    }

    fn log(&self) -> PathBuf {
        self.stage.path("log")
    }

    /// Returns the words that the commands have written, one for each run.
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

    /// Starts a replica whose command waits for [`Self::let_go`] and exits with the status from that call. Returns once
    /// the command is running.
    fn holder(&self, options: &[&str]) -> Running {
        let (ready, go) = (self.stage.fifo("ready"), self.stage.fifo("go"));
        let running = Dlock::on(&self.database, ["exec", "-a", "init"])
            .args(options)
            .args(["--", "sh", "-c"])
            .arg(r#"echo up > "$1"; read status < "$2"; echo holder >> "$3"; exit "$status""#)
            .arg("sh")
            .arg(&ready)
            .arg(&go)
            .arg(self.log())
            .start();
        read_message(&ready);
        running
    }

    fn let_go(&self, status: &str) {
        write_message(&self.stage.path("go"), status);
    }

    /// Waits until `count` sessions wait for the queue lock.
    fn wait_for_waiters(&mut self, count: u64) {
        let admin = &mut self.admin;
        eventually("the waiters wait for the queue lock", || {
            let waiting: Option<u64> = admin
                .query_first(format!(
                    "SELECT COUNT(*) FROM dlock_waiter w JOIN {SESSIONS} p ON p.id=w.session_id \
                     WHERE p.info LIKE '%GET_LOCK%'"
                ))
                .expect("the waiters can be read");
            waiting == Some(count)
        });
    }

    fn done(&mut self) -> Vec<String> {
        self.admin
            .query("SELECT once_key FROM dlock_success WHERE action='init' ORDER BY once_key")
            .expect("the successes can be read")
    }

    /// Revokes all privileges of the test account except `grants`. Each element of `grants` contains the privileges on
    /// one table.
    fn restrict(&mut self, grants: &[(&str, &str)]) {
        let Database { name, user, .. } = &self.database;
        let revoke = format!("REVOKE ALL PRIVILEGES, GRANT OPTION FROM '{user}'@'%'");
        self.admin
            .query_drop(revoke)
            .expect("the privileges can be revoked");
        for (rights, table) in grants {
            let grant = format!("GRANT {rights} ON `{name}`.{table} TO '{user}'@'%'");
            self.admin
                .query_drop(grant)
                .expect("the privileges can be granted");
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
fn recorded_success_is_not_run_again_and_its_holder_is_named() {
    everywhere(|mut replicas| {
        replicas
            .replica(&["--once", "--holder=web-1/1"], "one", 0)
            .run()
            .expect(0, "", "");
        let outcome = replicas.replica(&["--once"], "two", 3).run();
        let (token, at): (u64, String) = replicas
            .admin
            .query_first("SELECT token,done_at FROM dlock_success WHERE once_key=''")
            .expect("the success can be read")
            .expect("the success is recorded");
        let at = at.replace(' ', "T");
        outcome.expect(0, "", "dlock: init was done by web-1/1 ");
        outcome.expect(
            0,
            "",
            &format!(" ago (token {token}, {at}Z); not run again"),
        );
        replicas
            .replica(&["--once", "-q"], "three", 3)
            .run()
            .expect(0, "", "");
        assert_eq!(replicas.ran(), ["one"]);
    });
}

#[test]
fn each_once_key_runs_once_also_after_a_rollback_to_an_older_key() {
    everywhere(|mut replicas| {
        for (key, message) in [
            ("--once=v1", ""),
            ("--once=v2", ""),
            ("--once", ""),
            ("--once=v1", "init (v1) was done by "),
            ("--once=V1", ""),
        ] {
            replicas
                .replica(&[key], key, 0)
                .run()
                .expect(0, "", message);
        }
        assert_eq!(
            replicas.ran(),
            ["--once=v1", "--once=v2", "--once", "--once=V1"]
        );
        assert_eq!(replicas.done(), ["", "V1", "v1", "v2"]);
        // Without --once, the command runs even if a success is recorded.
        replicas.replica(&[], "plain", 0).run().expect(0, "", "");
        assert_eq!(replicas.ran().len(), 5);
    });
}

#[test]
fn failed_run_is_not_recorded_and_the_next_waiter_runs() {
    everywhere(|mut replicas| {
        let holder = replicas.holder(&["--once=v1"]);
        let waiters: Vec<Running> = [("failed", 7), ("done", 0), ("late", 0)]
            .iter()
            .zip(1..)
            .map(|((word, status), count)| {
                let waiter = replicas.replica(&["--once=v1"], word, *status).start();
                replicas.wait_for_waiters(count);
                waiter
            })
            .collect();
        replicas.let_go("5");
        assert_eq!(holder.wait().status, Some(5));
        let statuses: Vec<_> = waiters.into_iter().map(|one| one.wait().status).collect();
        assert_eq!(statuses, [Some(7), Some(0), Some(0)]);
        assert_eq!(replicas.ran(), ["holder", "failed", "done"]);
    });
}

#[test]
fn once_waiters_exit_0_when_the_holder_succeeds() {
    everywhere(|mut replicas| {
        let holder = replicas.holder(&["--once=v1"]);
        let waiters: Vec<Running> = (0..8)
            .map(|_| replicas.replica(&["--once=v1"], "waiter", 3).start())
            .collect();
        replicas.wait_for_waiters(8);
        replicas.let_go("0");
        holder.wait().expect(0, "", "");
        for waiter in waiters {
            waiter.wait().expect(0, "", "init (v1) was done by ");
        }
        assert_eq!(replicas.ran(), ["holder"]);
        let entries: Vec<u64> = replicas
            .admin
            .query("SELECT position FROM dlock_waiter")
            .expect("the queue can be read");
        assert!(entries.is_empty(), "{entries:?}");
    });
}

#[test]
fn success_is_recorded_although_named_locks_stop_working_during_the_run() {
    on_each(|flavour| {
        // Either a renewal is refused first, or the release.
        for renews in [true, false] {
            let database = shared(flavour).database("once");
            let proxy = Proxy::to(database.port);
            let stage = Stage::new();
            let (ready, go) = (stage.fifo("ready"), stage.fifo("go"));
            let ttl = if renews { "6s" } else { "1m" };
            let holder = Dlock::on(&database, ["exec", "init", "--once", "--ttl", ttl])
                .env("DLOCK_URL", database.url_through(proxy.port()))
                .args([
                    "--",
                    "sh",
                    "-c",
                    r#"echo up > "$1"; read word < "$2""#,
                    "sh",
                ])
                .args([&ready, &go])
                .start();
            assert_eq!(read_message(&ready), "up");
            // The server then answers that there are no such functions.
            proxy.rewrite("_LOCK(", "_LOXX(");
            let before = renewals(&database);
            if renews {
                eventually("the lease is renewed without named locks", || {
                    renewals(&database) > before + 1
                });
            }
            write_message(&go, "go");
            let outcome = holder.wait();
            assert_eq!(outcome.status, Some(0), "{outcome:#?}");
            let again = Dlock::on(&database, ["exec", "init", "--once", "--", "false"]);
            again.run().expect(0, "", "init was done by ");
        }
    });
}

#[test]
fn once_waiters_without_named_locks_exit_0_too() {
    everywhere(|replicas| {
        let no_locks = Proxy::rewriting(replicas.database.port, "GET_LOCK", "GET_LOCX");
        let url = replicas.database.url_through(no_locks.port());
        let holder = replicas.holder(&["--once"]);
        let waiters: Vec<Running> = (0..3)
            .map(|_| {
                let waiter = replicas.replica(&["--once", "-v"], "waiter", 3);
                let waiter = waiter.env("DLOCK_URL", &url).start();
                waiter.wait_for_output("by polling");
                waiter
            })
            .collect();
        replicas.let_go("0");
        holder.wait().expect(0, "", "");
        for waiter in waiters {
            waiter.wait().expect(0, "", "init was done by ");
        }
        assert_eq!(replicas.ran(), ["holder"]);
    });
}

on_each_flavour!(killed_once_holder_is_replaced_by_a_waiter_that_runs);
fn killed_once_holder_is_replaced_by_a_waiter_that_runs(flavour: Flavour) {
    let mut replicas = Replicas::on(flavour);
    // The lease is short because it has to expire during the test.
    let short = ["--once=v1", "--ttl=3s"];
    let holder = replicas.holder(&short);
    let mut waiters: Vec<Running> = (0..12)
        .map(|_| replicas.replica(&short, "done", 0).start())
        .collect();
    replicas.wait_for_waiters(12);
    holder.crash();
    for waiter in waiters.drain(2..7) {
        waiter.signal("TERM");
        assert_eq!(waiter.wait().status, Some(143));
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
            let take = format!("UPDATE dlock_lock SET {taken} WHERE action='init'");
            replicas
                .admin
                .query_drop(take)
                .expect("the row can be changed");
            replicas.let_go("0");
            let outcome = holder.wait();
            assert_eq!(outcome.status, Some(76), "{way}: {outcome:#?}");
            outcome.expect(76, "", "does not count as done");
            assert!(replicas.done().is_empty(), "{way}");
            let free = "UPDATE dlock_lock SET owner_id=NULL WHERE action='init'";
            replicas
                .admin
                .query_drop(free)
                .expect("the row can be changed");
            fs::remove_file(replicas.stage.path("ready")).expect("the file can be removed");
            fs::remove_file(replicas.stage.path("go")).expect("the file can be removed");
        }
    });
}

#[test]
fn recorded_success_is_found_with_one_request_and_no_write() {
    everywhere(|mut replicas| {
        replicas
            .replica(&["--once=v1"], "one", 0)
            .run()
            .expect(0, "", "");
        // After this restriction, every write by the account would fail.
        replicas.restrict(&[
            ("SELECT", "dlock_schema"),
            ("SELECT", "dlock_lock"),
            ("SELECT", "dlock_success"),
        ]);
        let proxy = Proxy::to(replicas.database.port);
        let url = replicas.database.url_through(proxy.port());
        replicas
            .replica(&["--once=v1"], "two", 0)
            .env("DLOCK_URL", url)
            .run()
            .expect(0, "", "init (v1) was done by ");
        let sessions = proxy.sessions();
        let [session] = sessions.as_slice() else {
            panic!("expected one connection: {sessions:?}");
        };
        let [Request::Query(text), Request::Quit] = session.requests.as_slice() else {
            panic!("expected one query: {session:?}");
        };
        assert!(
            !text.contains("GET_LOCK"),
            "dlock requested the queue lock: {text}"
        );
    });
}

#[test]
fn account_that_cannot_record_a_success_runs_no_command() {
    everywhere(|mut replicas| {
        replicas.replica(&[], "first", 0).run().expect(0, "", "");
        replicas.restrict(&[
            ("SELECT", "dlock_schema"),
            ("SELECT, INSERT, UPDATE", "dlock_lock"),
            ("SELECT, INSERT, UPDATE, DELETE", "dlock_waiter"),
            ("SELECT, INSERT, UPDATE", "dlock_history"),
            ("SELECT", "dlock_success"),
        ]);
        replicas
            .replica(&["--once"], "second", 0)
            .run()
            .expect(77, "", "dlock_success");
        replicas.restrict(&[
            ("SELECT", "dlock_schema"),
            ("SELECT, INSERT, UPDATE", "dlock_lock"),
        ]);
        replicas
            .replica(&["--once"], "third", 0)
            .run()
            .expect(77, "", "dlock setup --print");
        assert_eq!(replicas.ran(), ["first"]);
        let held: Option<u64> = replicas
            .admin
            .query_first("SELECT COUNT(*) FROM dlock_lock WHERE owner_id IS NOT NULL")
            .expect("the rows can be counted");
        assert_eq!(held, Some(0));
    });
}

#[test]
fn invalid_once_key_is_refused_without_a_server() {
    let long = "x".repeat(256);
    for (key, why) in [
        ("", "the key is empty"),
        (
            long.as_str(),
            "the key has 256 bytes; at most 255 are allowed",
        ),
        ("a\nb", "the key contains a control character"),
    ] {
        let exec = ["exec", "-a", "init", &format!("--once={key}"), "--", "true"];
        Dlock::new(exec).run().expect(64, "", why);
        // An empty variable counts as not set.
        if !key.is_empty() {
            Dlock::new(["exec", "-a", "init", "--", "true"])
                .env("DLOCK_OPT_ONCE", key)
                .run()
                .expect(64, "", why);
        }
    }
}
