//! Tests of `dlock status`.

use serde_json::Value;
use testkit::cli_runner::{Dlock, Outcome};
use testkit::each_server::everywhere;
use testkit::holder::Holder;
use testkit::proxy::Proxy;
use testkit::servers::{Database, Flavour, shared};
use testkit::sql::Sql;

/// Returns a database with three actions and the holder of `busy`. `done` is free, and the lease of `dead` has expired.
fn scene(flavour: Flavour) -> (Database, Holder) {
    let database = shared(flavour).database("status");
    let exec = Dlock::on(&database, ["exec"]).env("USER", "deploy");
    let options = ["--action=busy", "--holder=web-1/4711", "--note=release 42"];
    let holder = Holder::start(exec, &options);
    let insert = "INSERT INTO dlock_lock (action,token) VALUES ('done',1);\
         INSERT INTO dlock_lock (action,token,owner_id,holder,expires_at) \
         VALUES ('dead',1,REPEAT('x',16),'ghost/1',UTC_TIMESTAMP(6)-INTERVAL 90 SECOND)";
    database.run(insert);
    (database, holder)
}

fn status(database: &Database, arguments: &[&str]) -> Outcome {
    Dlock::on(database, ["status"]).args(arguments).run()
}

/// Returns the locks in the JSON for these actions.
#[track_caller]
fn locks(database: &Database, actions: &[&str]) -> Vec<Value> {
    let json = Dlock::typed(database, "status --json").args(actions).run();
    json.json()["locks"].as_array().expect("an array").clone()
}

/// Returns the first two words of each line, the action and the state, without the heading.
fn states(table: &str) -> Vec<(&str, &str)> {
    let states = table.lines().skip(1).map(|line| {
        let mut words = line.split_whitespace();
        (words.next().unwrap_or(""), words.next().unwrap_or(""))
    });
    states.collect()
}

#[test]
fn table_json_and_check_show_held_expired_and_free_actions() {
    for flavour in Flavour::ALL {
        let (database, holder) = scene(flavour);
        let table = status(&database, &[]).stdout;
        assert_eq!(states(&table), [("dead", "expired"), ("busy", "held")]);
        let facts = "web-1/4711|deploy|release 42|ghost/1|1m 30s ago";
        for fact in facts.split('|') {
            assert!(table.contains(fact), "{fact}: {table}");
        }
        let all = status(&database, &["--all"]).stdout;
        let every = [("dead", "expired"), ("busy", "held"), ("done", "free")];
        assert_eq!(states(&all), every);
        let some = status(&database, &["never", "-a", "done"]).stdout;
        assert_eq!(states(&some), [("done", "free"), ("never", "unknown")]);

        let locks = locks(&database, &["busy", "dead", "done"]);
        let [busy, dead, done] = locks.as_slice() else {
            panic!("not three locks: {locks:?}");
        };
        for (field, value) in [
            ("action", "busy"),
            ("state", "held"),
            ("holder", "web-1/4711"),
            ("user", "deploy"),
            ("note", "release 42"),
        ] {
            assert_eq!(busy[field], value);
        }
        assert_eq!(busy["pid"], holder.running.pid());
        assert_eq!(busy["ttl_ms"], 30_000);
        let left = busy["expires_in_ms"].as_i64().expect("a number");
        assert!((1..=30_000).contains(&left), "{left}");
        assert!(busy["token"].as_u64() > Some(0));
        let since = busy["acquired_at"].as_str().expect("a string");
        assert!(since.starts_with("20") && since.ends_with('Z'), "{since}");
        assert_eq!(dead["state"], "expired");
        assert!(dead["expires_in_ms"].as_i64() <= Some(-90_000), "{dead}");
        assert_eq!(done["state"], "free");
        for field in ["holder", "host", "pid", "user", "note"] {
            assert!(done[field].is_null(), "{field}: {done}");
        }
        assert!(done["acquired_at"].is_null() && done["expires_in_ms"].is_null());

        for (arguments, code) in [
            (&["--check", "busy"][..], 75),
            (&["--check", "done"], 0),
            (&["--check", "dead"], 0),
            (&["--check", "never"], 0),
            (&["--check", "done", "busy"], 75),
            (&["--check"], 75),
        ] {
            status(&database, arguments).expect(code, "", "");
        }
    }
}

#[test]
fn database_without_tables_exits_78_and_is_not_changed() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("status");
        status(&database, &[]).expect(78, "", "dlock setup");
        let tables: Vec<String> = database.rows("SHOW TABLES");
        assert!(tables.is_empty(), "{tables:?}");
    }
}

#[test]
fn status_sends_one_request_and_needs_only_the_select_privilege() {
    for flavour in Flavour::ALL {
        let (database, holder) = scene(flavour);
        let Database { name, user, .. } = &database;
        let grants = format!(
            "REVOKE ALL ON `{0}`.* FROM '{user}'@'%';GRANT SELECT ON `{0}`.* TO '{user}'@'%'",
            name.replace('_', "\\_")
        );
        database.run(&grants);
        for arguments in [
            &["busy"][..],
            &["never"],
            &["busy", "dead", "done"],
            &[],
            &["--all"],
            &["--json"],
            &["--check", "done"],
        ] {
            let outcome = status_and_request(&database, arguments).0;
            let is_held = outcome.stdout.starts_with("busy: held\n");
            assert_eq!(is_held, arguments == ["busy"], "{outcome:?}");
        }
        // The holder has lost its privileges.
        drop(holder);
    }
}

/// Runs `dlock status`, asserts that it succeeds and sends one request after the login, and returns the request.
#[track_caller]
fn status_and_request(database: &Database, arguments: &[&str]) -> (Outcome, String) {
    let proxy = Proxy::to(database.port);
    let outcome = status(&database.through(proxy.port()), arguments);
    outcome.expect(0, &outcome.stdout, "");
    (outcome, proxy.only_query())
}

#[test]
fn status_does_not_read_free_actions() {
    /// Number of free actions, far above [`MAX_ROWS_READ`].
    const ACTIONS: u32 = 20_000;
    /// Maximum number of rows that `status` may read, including rows of the server's system tables.
    const MAX_ROWS_READ: u64 = 5_000;
    everywhere(|database| {
        let insert = format!(
            "INSERT INTO dlock_lock (action,token) WITH RECURSIVE digit AS \
             (SELECT 0 AS n UNION ALL SELECT n+1 FROM digit WHERE n<199) \
             SELECT CONCAT('job-',a.n*200+b.n),1 FROM digit a,digit b WHERE a.n*200<{ACTIONS};\
             UPDATE dlock_lock SET owner_id=REPEAT('x',16),expires_at=UTC_TIMESTAMP(6) \
             WHERE action='job-7';\
             UPDATE dlock_lock SET paused_until=UTC_TIMESTAMP(6)+INTERVAL 1 DAY \
             WHERE action='job-8'"
        );
        database.run(&insert);
        let (outcome, request) = status_and_request(database, &[]);
        let expected = [("job-7", "expired"), ("job-8", "paused")];
        assert_eq!(states(&outcome.stdout), expected);
        // The request runs again in a session of the test, because the server counts the rows for each session.
        let mut admin = database.admin_conn();
        admin.run(request);
        let counts: Vec<(String, u64)> = admin.rows("SHOW SESSION STATUS LIKE 'Handler_read%'");
        let rows: u64 = counts.iter().map(|(_, count)| count).sum();
        assert!(rows > 0 && rows < MAX_ROWS_READ, "{rows} rows");
    });
}

#[test]
fn a_row_that_dlock_did_not_write_is_shown_as_odd_and_hides_no_other_row() {
    everywhere(|database| {
        let names = ["fence", "flag", "good", "owner"];
        let insert = "INSERT INTO dlock_lock (action,token) VALUES ('fence',1),('flag',1),('good',1),('owner',1);\
             UPDATE dlock_lock SET min_hold=-1 WHERE action='flag';\
             UPDATE dlock_lock SET owner_id=x'01' WHERE action='owner';\
             UPDATE dlock_lock SET fenced=-1 WHERE action='fence'";
        database.run(insert);
        let locks = locks(database, &names);
        let diagnoses: Vec<&Value> = locks.iter().map(|lock| &lock["diagnosis"]).collect();
        assert_eq!(diagnoses, ["odd", "odd", "free", "odd"], "{locks:?}");
        let list = Dlock::typed(database, "list").run().exited(0);
        for (lock, name) in locks.iter().zip(names) {
            assert_eq!(lock["action"], name);
            assert!(list.stdout.contains(name), "{list:?}");
        }
        let odd = "owner has an odd row, which dlock did not write";
        Dlock::typed(database, "release owner --yes").expect(78, "", odd);
        Dlock::typed(database, "status --check owner good").expect(78, "", odd);
    });
}
