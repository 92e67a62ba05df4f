//! Tests of `dlock status`.

use mysql::prelude::Queryable;
use serde_json::Value;
use testkit::cli_runner::{Dlock, Running};
use testkit::command::{Stage, read_message, write_message};
use testkit::proxy::{Proxy, Request};
use testkit::servers::{Database, Flavour, Server, shared};

/// A database with three actions: `busy` is held, `done` is free, and the lease of `dead` has expired.
struct Scene {
    database: Database,
    stage: Stage,
    holder: Running,
}

impl Scene {
    fn start(flavour: Flavour) -> Self {
        let database = shared(flavour).database("status");
        for action in ["done", "dead"] {
            Dlock::on(&database, ["exec", "-a", action, "--", "true"])
                .run()
                .expect(0, "", "");
        }
        database
            .admin_conn()
            .query_drop(
                "UPDATE dlock_lock SET owner_id=REPEAT('x',16),holder='ghost/1',\
                 expires_at=UTC_TIMESTAMP(6)-INTERVAL 90 SECOND WHERE action='dead'",
            )
            .expect("the row can be updated");
        let stage = Stage::new();
        let (ready, go) = (stage.fifo("ready"), stage.fifo("go"));
        let holder = Dlock::on(&database, ["exec", "-a", "busy", "--holder", "web-1/4711"])
            .env("USER", "deploy")
            .args(["--note", "release 42", "--", "sh", "-c"])
            .arg(r#"echo up > "$1"; read word < "$2""#)
            .arg("sh")
            .arg(&ready)
            .arg(&go)
            .start();
        read_message(&ready);
        Self {
            database,
            stage,
            holder,
        }
    }

    fn status(&self, arguments: &[&str]) -> Dlock {
        Dlock::on(&self.database, ["status"]).args(arguments)
    }

    fn end(self) {
        write_message(&self.stage.path("go"), "on");
        self.holder.wait().expect(0, "", "");
    }
}

/// Returns the first two words of each line, the action and the state, without the heading.
fn states(table: &str) -> Vec<(&str, &str)> {
    let lines = table.lines().skip(1);
    lines
        .map(|line| {
            let mut words = line.split_whitespace();
            (words.next().unwrap_or(""), words.next().unwrap_or(""))
        })
        .collect()
}

#[test]
fn table_lists_held_and_expired_actions_and_other_actions_on_request() {
    for flavour in Flavour::ALL {
        let scene = Scene::start(flavour);
        let outcome = scene.status(&[]).run();
        assert_eq!(
            states(&outcome.stdout),
            [("dead", "expired"), ("busy", "held")]
        );
        for fact in [
            "web-1/4711",
            "deploy",
            "release 42",
            "ghost/1",
            "1m 30s ago",
        ] {
            assert!(outcome.stdout.contains(fact), "{fact}: {}", outcome.stdout);
        }
        let all = scene.status(&["--all"]).run().stdout;
        let every = [("dead", "expired"), ("busy", "held"), ("done", "free")];
        assert_eq!(states(&all), every);
        let some = scene.status(&["never", "-a", "done"]).run().stdout;
        assert_eq!(states(&some), [("done", "free"), ("never", "unknown")]);
        scene.end();
    }
}

#[test]
fn json_has_the_documented_fields() {
    for flavour in Flavour::ALL {
        let scene = Scene::start(flavour);
        let outcome = scene.status(&["--json", "busy", "dead", "done"]).run();
        let document: serde_json::Value =
            serde_json::from_str(&outcome.stdout).expect("stdout is JSON");
        let locks = document["locks"].as_array().expect("an array");
        let [busy, dead, done] = locks.as_slice() else {
            panic!("not three locks: {document}");
        };
        assert_eq!(busy["action"], "busy");
        assert_eq!(busy["state"], "held");
        assert_eq!(busy["holder"], "web-1/4711");
        assert_eq!(busy["user"], "deploy");
        assert_eq!(busy["note"], "release 42");
        assert_eq!(busy["pid"], scene.holder.pid());
        assert_eq!(busy["ttl_ms"], 30_000);
        let left = busy["expires_in_ms"].as_i64().expect("a number");
        assert!((1..=30_000).contains(&left), "{left}");
        assert!(busy["token"].as_u64() > Some(0));
        let since = busy["acquired_at"].as_str().expect("a string");
        assert!(since.starts_with("20") && since.ends_with('Z'), "{since}");
        assert_eq!(dead["state"], "expired");
        assert!(dead["expires_in_ms"].as_i64() <= Some(-90_000), "{dead}");
        assert_eq!(done["state"], "free");
        for field in [
            "holder",
            "host",
            "pid",
            "user",
            "note",
            "acquired_at",
            "expires_in_ms",
        ] {
            assert!(done[field].is_null(), "{field}: {done}");
        }
        scene.end();
    }
}

#[test]
fn check_prints_nothing_and_sets_the_exit_status() {
    for flavour in Flavour::ALL {
        let scene = Scene::start(flavour);
        for (arguments, status) in [
            (&["busy"][..], 75),
            (&["done"], 0),
            (&["dead"], 0),
            (&["never"], 0),
            (&["done", "busy"], 75),
            (&[], 75),
        ] {
            scene
                .status(arguments)
                .arg("--check")
                .run()
                .expect(status, "", "");
        }
        scene.end();
    }
}

#[test]
fn database_without_tables_exits_78_and_is_not_changed() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("status");
        Dlock::on(&database, ["status"])
            .run()
            .expect(78, "", "dlock setup");
        let tables: Vec<String> = database
            .admin_conn()
            .query("SHOW TABLES")
            .expect("the tables can be listed");
        assert!(tables.is_empty(), "{tables:?}");
    }
}

#[test]
fn status_needs_only_the_select_privilege() {
    for flavour in Flavour::ALL {
        let scene = Scene::start(flavour);
        let Database { name, user, .. } = &scene.database;
        let mut admin = scene.database.admin_conn();
        let pattern = name.replace('_', "\\_");
        for statement in [
            format!("REVOKE ALL ON `{pattern}`.* FROM '{user}'@'%'"),
            format!("GRANT SELECT ON `{pattern}`.* TO '{user}'@'%'"),
        ] {
            admin
                .query_drop(&statement)
                .expect("the privileges can be changed");
        }
        let outcome = scene.status(&["busy"]).run();
        outcome.expect(0, &outcome.stdout, "");
        assert!(outcome.stdout.starts_with("busy: held\n"), "{outcome:?}");
        let grant = format!("GRANT UPDATE ON `{pattern}`.* TO '{user}'@'%'");
        admin
            .query_drop(&grant)
            .expect("the privileges can be changed");
        scene.end();
    }
}

#[test]
fn status_sends_one_request_after_login() {
    for flavour in Flavour::ALL {
        let scene = Scene::start(flavour);
        for arguments in [
            &["busy"][..],
            &["never"],
            &["busy", "dead", "done"],
            &[],
            &["--all"],
            &["--json"],
            &["--check", "done"],
        ] {
            let proxy = Proxy::to(scene.database.port);
            let url = scene.database.url_through(proxy.port());
            let status = scene.status(arguments).env("DLOCK_URL", url).run();
            assert_eq!(status.status, Some(0), "{flavour}, {arguments:?}");
            let sessions = proxy.sessions();
            let [session] = sessions.as_slice() else {
                panic!("{flavour}, {arguments:?}: not one connection: {sessions:?}");
            };
            let [Request::Query(_), Request::Quit] = session.requests.as_slice() else {
                panic!("{flavour}, {arguments:?}: not one request: {session:?}");
            };
        }
        scene.end();
    }
}

#[test]
fn status_does_not_read_free_actions() {
    /// Number of free actions, far above [`MAX_ROWS_READ`].
    const ACTIONS: u32 = 20_000;
    /// Maximum number of rows that `status` may read, including rows of the server's system tables.
    const MAX_ROWS_READ: u64 = 5_000;
    for flavour in Flavour::ALL {
        // The test needs its own server, because the counters include the work of all sessions.
        let server = Server::start(flavour, &[]);
        let database = server.database("status");
        Dlock::on(&database, ["setup"])
            .run()
            .expect(0, "", "the tables are in place");
        let mut admin = database.admin_conn();
        for statement in [
            format!(
                "INSERT INTO dlock_lock (action,token) WITH RECURSIVE digit AS \
                 (SELECT 0 AS n UNION ALL SELECT n+1 FROM digit WHERE n<199) \
                 SELECT CONCAT('job-',a.n*200+b.n),1 FROM digit a,digit b WHERE a.n*200<{ACTIONS}"
            ),
            "UPDATE dlock_lock SET owner_id=REPEAT('x',16),expires_at=UTC_TIMESTAMP(6) \
             WHERE action='job-7'"
                .to_owned(),
            "UPDATE dlock_lock SET paused_until=UTC_TIMESTAMP(6)+INTERVAL 1 DAY \
             WHERE action='job-8'"
                .to_owned(),
        ] {
            admin
                .query_drop(&statement)
                .expect("the rows can be inserted or updated");
        }
        let mut read = || -> u64 {
            let counts = admin.query("SHOW GLOBAL STATUS LIKE 'Handler_read%'");
            let counts: Vec<(String, u64)> = counts.expect("root can read the status variables");
            counts.iter().map(|(_, count)| count).sum()
        };
        let before = read();
        let outcome = Dlock::on(&database, ["status"]).run();
        let rows = read() - before;
        let expected = [("job-7", "expired"), ("job-8", "paused")];
        assert_eq!(states(&outcome.stdout), expected, "{flavour}");
        assert!(rows < MAX_ROWS_READ, "{flavour}: {rows} rows were read");
    }
}

#[test]
fn a_row_that_dlock_did_not_write_is_shown_as_odd_and_hides_no_other_row() {
    for flavour in Flavour::ALL {
        let database = &shared(flavour).database("odd");
        let names = ["good", "flag", "owner", "fence"];
        for name in names {
            Dlock::on(database, ["exec", name, "--", "true"])
                .run()
                .expect(0, "", "");
        }
        for (name, change) in [
            ("flag", "min_hold=-1"),
            ("owner", "owner_id=x'01'"),
            ("fence", "fenced=-1"),
        ] {
            let update = format!("UPDATE dlock_lock SET {change} WHERE action='{name}'");
            let changed = database.admin_conn().query_drop(update);
            changed.unwrap_or_else(|error| panic!("{change}: {error}"));
        }
        let status = Dlock::on(database, ["status", "--json"]).args(names).run();
        let document: Value = serde_json::from_str(&status.stdout).expect("the output is JSON");
        let locks = document["locks"].as_array().expect("an array");
        let shown: Vec<(&str, &str)> = locks
            .iter()
            .map(|lock| (text(&lock["action"]), text(&lock["diagnosis"])))
            .collect();
        let odd = |name| (name, "odd");
        let expected = [odd("fence"), odd("flag"), ("good", "free"), odd("owner")];
        assert_eq!(shown, expected, "{status:?}");
        let list = Dlock::on(database, ["list"]).run();
        assert_eq!(list.status, Some(0), "{list:?}");
        for name in names {
            assert!(list.stdout.contains(name), "{list:?}");
        }
        let release = Dlock::on(database, ["release", "owner", "--yes"]).run();
        release.expect(78, "", "owner has an odd row, which dlock did not write");
    }
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a string")
}
