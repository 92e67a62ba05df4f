//! Tests of the history of runs, and of `forget`, which removes a recorded success.

mod queries;

use mysql::prelude::Queryable;
use serde_json::Value;
use testkit::cli_runner::{Dlock, eventually};
use testkit::command::{Stage, read_message, write_message};
use testkit::on_each_flavour;
use testkit::servers::{Database, Flavour, shared};

/// Runs `test` with a new database on each kind of server.
fn everywhere(test: impl Fn(&Database)) {
    for flavour in Flavour::ALL {
        test(&set_up(flavour));
    }
}

/// Creates a database with dlock's tables.
fn set_up(flavour: Flavour) -> Database {
    let database = shared(flavour).database("history");
    Dlock::on(&database, ["setup", "-q"])
        .run()
        .expect(0, "", "");
    database
}

/// Runs the shell code `script` under `dlock exec` with `options`, and asserts the exit status.
#[track_caller]
fn exec(database: &Database, options: &[&str], script: &str, status: i32) {
    Dlock::on(database, ["exec"])
        .args(options)
        .args(["--", "sh", "-c", script])
        .run()
        .expect(status, "", "");
}

/// Returns the runs in the output of `history --json`, newest first.
#[track_caller]
pub(crate) fn runs(database: &Database, options: &[&str]) -> Vec<Value> {
    let outcome = Dlock::on(database, ["history", "--json"])
        .args(options)
        .run();
    let document: Value = serde_json::from_str(&outcome.stdout)
        .unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
    document["runs"].as_array().expect("an array").clone()
}

/// Returns the outcome and the code of each run.
pub(crate) fn endings(runs: &[Value]) -> Vec<(&str, Option<u64>)> {
    runs.iter()
        .map(|run| {
            let outcome = run["outcome"].as_str().expect("a string");
            (outcome, run["code"].as_u64())
        })
        .collect()
}

#[test]
fn the_history_contains_every_run_with_its_outcome() {
    everywhere(|database| {
        let a = ["-a", "init"];
        exec(database, &a, "exit 0", 0);
        exec(database, &a, "exit 7", 7);
        exec(database, &a, "kill -9 $$", 137);
        let once = [
            "-a",
            "init",
            "--once=v1",
            "--holder=web-1",
            "--note=release 42",
        ];
        exec(database, &once, "exit 0", 0);
        exec(database, &["-a", "other"], "exit 1", 1);
        let all = runs(database, &[]);
        let expected = [
            ("exited", Some(1)),
            ("exited", Some(0)),
            ("killed", Some(9)),
            ("exited", Some(7)),
            ("exited", Some(0)),
        ];
        assert_eq!(endings(&all), expected);
        assert_eq!(endings(&runs(database, &["--number", "2"])), expected[..2]);
        assert_eq!(endings(&runs(database, &["other"])), expected[..1]);
        assert_eq!(endings(&runs(database, &["-a", "init"])), expected[1..]);
        let keyed = &all[1];
        assert_eq!(keyed["action"], "init");
        assert_eq!(keyed["once_key"], "v1");
        assert_eq!(keyed["holder"], "web-1");
        assert_eq!(keyed["note"], "release 42");
        assert!(all[0]["once_key"].is_null(), "{}", all[0]);
        assert!(keyed["token"].as_u64() > all[2]["token"].as_u64());
        let started = keyed["started_at"].as_str().expect("a string");
        assert!(
            started <= keyed["ended_at"].as_str().expect("a string"),
            "{keyed}"
        );
        assert!(
            started.starts_with("20") && started.ends_with('Z'),
            "{started}"
        );

        let table = Dlock::on(database, ["history", "init", "--number=1"])
            .run()
            .stdout;
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 2, "{table}");
        for fact in ["init", "v1", "web-1", "exit 0 ", "release 42"] {
            assert!(lines[1].contains(fact), "{fact}: {table}");
        }
    });
}

#[test]
fn an_expired_run_is_lost_and_a_run_with_a_freed_row_is_revoked() {
    everywhere(|database| {
        let mut admin = database.admin_conn();
        let expired = "expires_at=UTC_TIMESTAMP(6)-INTERVAL 1 HOUR,owner_id=REPEAT('x',16)";
        // If a run took more than 0.1 s, a hand-off precedes its release.
        for (change, outcome, rest) in [
            (expired, "lost", "true"),
            (expired, "lost", "sleep 0.2"),
            ("owner_id=NULL", "revoked", "true"),
            ("owner_id=NULL", "revoked", "sleep 0.2"),
        ] {
            let stage = Stage::new();
            let (ready, go) = (stage.fifo("ready"), stage.fifo("go"));
            let holder = Dlock::on(database, ["exec", "-a", "init", "--ttl=5m"])
                .args(["--holder", outcome, "--", "sh", "-c"])
                .arg(format!(r#"echo up > "$1"; read word < "$2"; {rest}"#))
                .arg("sh")
                .arg(&ready)
                .arg(&go)
                .start();
            read_message(&ready);
            let update = format!("UPDATE dlock_lock SET {change} WHERE action='init'");
            admin.query_drop(update).expect("the row can be updated");
            write_message(&go, "on");
            holder
                .wait()
                .expect(76, "", "was lost before the command had ended");
            exec(database, &["-a", "init", "--holder=next"], "exit 0", 0);
            let runs = runs(database, &["init", "--number=2"]);
            assert_eq!(endings(&runs), [("exited", Some(0)), (outcome, None)]);
            assert_eq!(runs[1]["holder"], outcome);
        }
    });
}

on_each_flavour!(a_run_whose_dlock_was_killed_is_lost);
fn a_run_whose_dlock_was_killed_is_lost(flavour: Flavour) {
    let database = &set_up(flavour);
    let stage = Stage::new();
    let ready = stage.fifo("ready");
    let holder = Dlock::on(
        database,
        ["exec", "-a", "init", "--ttl=2s", "--", "sh", "-c"],
    )
    .arg(r#"echo $$ > "$1"; exec sleep 600"#)
    .arg("sh")
    .arg(&ready)
    .start();
    read_message(&ready);
    holder.crash();
    eventually("the lease has been over for a while", || {
        let status = Dlock::on(database, ["status", "--json", "init"]).run();
        let document: Value = serde_json::from_str(&status.stdout).expect("JSON");
        document["locks"][0]["expires_in_ms"].as_i64() < Some(-1500)
    });
    exec(database, &["-a", "init", "-q", "--ttl=2s"], "exit 0", 0);
    let runs = runs(database, &[]);
    assert_eq!(endings(&runs), [("exited", Some(0)), ("lost", None)]);
    // The run ended with its lease, and not at the take-over.
    let ago = |run: usize| runs[run]["ended_ago_ms"].as_u64().expect("a number");
    assert!(ago(1) >= ago(0) + 1500, "{runs:?}");
}

#[test]
fn json_says_if_there_are_more_runs_and_if_a_run_timed_out() {
    everywhere(|database| {
        let exec = ["exec", "init", "--max-runtime=10ms", "--", "sleep", "60"];
        for _ in 0..2 {
            let outcome = Dlock::on(database, exec).run();
            assert_eq!(outcome.status, Some(124), "{outcome:?}");
        }
        for (number, more) in [("--number=1", true), ("--number=2", false)] {
            let json = Dlock::on(database, ["history", "--json", number]).run();
            let document: Value = serde_json::from_str(&json.stdout).expect("JSON");
            assert_eq!(document["more"], more, "{document}");
            assert_eq!(document["runs"][0]["outcome"], "timed-out", "{document}");
        }
    });
}

#[test]
fn status_shows_the_last_run() {
    everywhere(|database| {
        exec(database, &["-a", "init"], "exit 7", 7);
        let table = Dlock::on(database, ["status", "init"]).run().stdout;
        assert!(table.contains("exit 7, "), "{table}");
        let text = Dlock::on(database, ["status", "--json", "init", "never"])
            .run()
            .stdout;
        let document: Value = serde_json::from_str(&text).expect("the output is JSON");
        let [init, never] = [0, 1].map(|number| &document["locks"][number]);
        assert_eq!(init["last_outcome"], "exited");
        assert_eq!(init["last_code"], 7);
        assert_eq!(init["last_token"], init["token"]);
        assert!(never["last_outcome"].is_null(), "{never}");
    });
}

#[test]
fn the_history_is_pruned_to_its_limit() {
    everywhere(|database| {
        let mut admin = database.admin_conn();
        exec(database, &["-a", "other"], "exit 0", 0);
        exec(database, &["-a", "init"], "exit 0", 0);
        let fill = "INSERT INTO dlock_history (action,token,holder,host,pid,user,note,started_at,ended_at,\
                    outcome,code) SELECT 'init',1000+position,'','',0,'','',\
                    UTC_TIMESTAMP(6),UTC_TIMESTAMP(6),'exited',0 FROM (\
                    WITH RECURSIVE numbers AS (SELECT 1 AS position UNION ALL \
                    SELECT position+1 FROM numbers WHERE position<200) SELECT position FROM numbers\
                    ) AS numbers";
        admin.query_drop(fill).expect("the history can be filled");
        let mut count = |action: &str| -> u64 {
            let count = format!("SELECT COUNT(*) FROM dlock_history WHERE action='{action}'");
            admin
                .query_first(count)
                .expect("the table exists")
                .expect("a count")
        };
        assert_eq!(count("init"), 201);
        eventually("the history is pruned", || {
            exec(database, &["-a", "init", "--history=5"], "exit 3", 3);
            count("init") < 100
        });
        assert_eq!(count("init"), 5);
        assert_eq!(count("other"), 1);
        let newest = runs(database, &["init", "--number=1"]);
        assert_eq!(endings(&newest), [("exited", Some(3))]);
        exec(database, &["-a", "init", "--history=0"], "exit 4", 4);
        assert_eq!(count("init"), 5);
    });
}

/// Pruning also keeps the entry of an action that was paused before its first grant, although that entry has the token
/// 0.
#[test]
fn pruning_keeps_a_short_history() {
    everywhere(|database| {
        Dlock::on(
            database,
            ["release", "-a", "init", "--yes", "--create", "--pause=1us"],
        )
        .run()
        .expect(0, "", "init is paused");
        // The history is pruned at each token that is a multiple of 16. The next token is a multiple of 16, far ahead
        // of the clock.
        let next = format!("UPDATE dlock_lock SET token={}", (1_u64 << 60) - 1);
        database
            .admin_conn()
            .query_drop(next)
            .expect("the row can be updated");
        exec(database, &["-a", "init"], "exit 0", 0);
        let runs = runs(database, &[]);
        assert_eq!(endings(&runs), [("exited", Some(0)), ("paused", None)]);
        assert_eq!(runs[0]["token"], 1_u64 << 60);
    });
}

#[test]
fn a_run_that_cannot_be_recorded_is_still_released() {
    everywhere(|database| {
        let mut admin = database.admin_conn();
        let Database { name, user, .. } = database;
        let pattern = name.replace('_', "\\_");
        for statement in [
            format!("REVOKE ALL ON `{pattern}`.* FROM '{user}'@'%'"),
            format!("GRANT SELECT ON `{name}`.dlock_schema TO '{user}'@'%'"),
            format!("GRANT SELECT, INSERT, UPDATE ON `{name}`.dlock_lock TO '{user}'@'%'"),
            format!("GRANT SELECT ON `{name}`.dlock_waiter TO '{user}'@'%'"),
        ] {
            admin.query_drop(statement).expect("root has the privilege");
        }
        Dlock::on(database, ["exec", "-a", "init", "--", "sh", "-c", "exit 5"])
            .run()
            .expect(5, "", "this run of init is not in the history: ");
        exec(database, &["-a", "init", "-n", "--history=0"], "exit 6", 6);
    });
}

#[test]
fn last_run_that_is_not_in_the_history_is_unknown() {
    everywhere(|database| {
        let last = || {
            let status = Dlock::on(database, ["status", "--json", "init"]).run();
            let document: Value = serde_json::from_str(&status.stdout).expect("JSON");
            document["locks"][0]["last_outcome"].clone()
        };
        exec(database, &["-a", "init"], "exit 0", 0);
        assert_eq!(last(), "exited");
        exec(database, &["-a", "init", "--history=0"], "exit 3", 3);
        assert_eq!(last(), Value::Null);
        let table = Dlock::on(database, ["list"]).run().stdout;
        assert!(table.contains(" unknown "), "{table}");
        let details = Dlock::on(database, ["status", "init"]).run().stdout;
        assert!(details.contains("unknown"), "{details}");
        exec(database, &["-a", "init"], "exit 0", 0);
        assert_eq!(last(), "exited");
    });
}

#[test]
fn a_forgotten_action_runs_again_and_the_operation_is_recorded() {
    everywhere(|database| {
        let once = ["-a", "init", "--once=v1"];
        exec(database, &once, "exit 0", 0);
        exec(database, &["-a", "init", "--once=v2"], "exit 0", 0);
        let forget = |key: &str| {
            Dlock::on(database, ["forget", "-a", "init", "--operator=ops"])
                .args([key, "--reason=again"])
                .run()
        };
        forget("--once=v1").expect(0, "", "dlock: init (v1) is forgotten: ");
        forget("--once=v1").expect(0, "", "dlock: init (v1) was not recorded as done");
        forget("--once").expect(0, "", "dlock: init was not recorded as done");
        let unknown = Dlock::on(database, ["forget", "-a", "inti", "--once"]).run();
        unknown.expect(
            66,
            "",
            "dlock: inti is unknown: no process has held it, or it was removed\n",
        );
        let runs = runs(database, &["--number=1"]);
        assert_eq!(endings(&runs), [("forgotten", None)]);
        assert_eq!(runs[0]["holder"], "ops");
        assert_eq!(runs[0]["note"], "again");
        assert_eq!(runs[0]["once_key"], "v1");
        // The success of v2 is still recorded. The command for v1 runs again, and its failure is returned.
        exec(database, &["-a", "init", "--once=v2", "-q"], "exit 9", 0);
        exec(database, &once, "exit 9", 9);
        // The entry that `forget` wrote is not the latest run.
        let status = Dlock::on(database, ["status", "init"]).run().stdout;
        assert!(status.contains("exit 9, "), "{status}");
    });
    Dlock::new(["forget", "-a", "init"])
        .run()
        .expect(64, "", "--once");
}
