//! What ran and how it ended, and forgetting that it went well.

use mysql::prelude::Queryable;

use crate::command::{Stage, heard, tell};
use crate::dlock::{Dlock, eventually};
use crate::servers::{Database, Flavour, shared};

/// Runs `claim` on a fresh database of each kind of server.
fn everywhere(claim: impl Fn(&Database)) {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("history");
        Dlock::on(&database, ["setup", "-q"])
            .run()
            .expect(0, "", "");
        claim(&database);
    }
}

/// Runs a shell command under `action` and expects its status.
#[track_caller]
fn exec(database: &Database, options: &[&str], script: &str, status: i32) {
    Dlock::on(database, ["exec"])
        .args(options)
        .args(["--", "sh", "-c", script])
        .run()
        .expect(status, "", "");
}

/// The runs as `history --json` tells them, newest first.
#[track_caller]
pub(crate) fn runs(database: &Database, options: &[&str]) -> Vec<serde_json::Value> {
    let outcome = Dlock::on(database, ["history", "--json"])
        .args(options)
        .run();
    let document: serde_json::Value = serde_json::from_str(&outcome.stdout)
        .unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
    document["runs"].as_array().expect("a list").clone()
}

/// Ending and number of each, newest first.
pub(crate) fn endings(runs: &[serde_json::Value]) -> Vec<(&str, Option<u64>)> {
    runs.iter()
        .map(|run| {
            let ending = run["ending"].as_str().expect("a text");
            (ending, run["number"].as_u64())
        })
        .collect()
}

#[test]
fn every_run_is_in_the_history_with_how_it_ended() {
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
        assert_eq!(endings(&runs(database, &["-n", "2"])), expected[..2]);
        assert_eq!(endings(&runs(database, &["other"])), expected[..1]);
        assert_eq!(endings(&runs(database, &["-a", "init"])), expected[1..]);
        let keyed = &all[1];
        assert_eq!(keyed["action"], "init");
        assert_eq!(keyed["once_key"], "v1");
        assert_eq!(keyed["holder"], "web-1");
        assert_eq!(keyed["note"], "release 42");
        assert!(all[0]["once_key"].is_null(), "{}", all[0]);
        assert!(keyed["token"].as_u64() > all[2]["token"].as_u64());
        let began = keyed["began_at"].as_str().expect("a text");
        assert!(
            began <= keyed["ended_at"].as_str().expect("a text"),
            "{keyed}"
        );
        assert!(began.starts_with("20") && began.ends_with('Z'), "{began}");

        let table = Dlock::on(database, ["history", "init", "-n1"]).run().stdout;
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 2, "{table}");
        for fact in ["init", "v1", "web-1", "exited 0, ", "release 42"] {
            assert!(lines[1].contains(fact), "{fact}: {table}");
        }
    });
}

#[test]
fn a_run_that_was_never_released_is_lost_and_one_whose_row_was_freed_is_broken() {
    everywhere(|database| {
        let mut admin = database.admin_conn();
        for (change, ending) in [
            (
                "expires_at=UTC_TIMESTAMP(6)-INTERVAL 1 HOUR,claim=REPEAT('x',16)",
                "lost",
            ),
            ("claim=NULL", "broken"),
        ] {
            let stage = Stage::new();
            let (ready, go) = (stage.fifo("ready"), stage.fifo("go"));
            let holder = Dlock::on(database, ["exec", "-a", "init", "--ttl=5m"])
                .args(["--holder", ending, "--", "sh", "-c"])
                .arg(r#"echo up > "$1"; read word < "$2""#)
                .arg("sh")
                .arg(&ready)
                .arg(&go)
                .start();
            heard(&ready);
            let break_in = format!("UPDATE dlock_lock SET {change} WHERE action='init'");
            admin.query_drop(break_in).expect("changes the row");
            tell(&go, "on");
            holder
                .wait()
                .expect(76, "", "was not ours any more before the command had ended");
            exec(database, &["-a", "init", "--holder=next"], "exit 0", 0);
            let runs = runs(database, &["init", "-n2"]);
            assert_eq!(endings(&runs), [("exited", Some(0)), (ending, None)]);
            assert_eq!(runs[1]["holder"], ending);
        }
    });
}

#[test]
fn a_run_whose_lease_could_not_be_kept_is_lost() {
    everywhere(|database| {
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
        heard(&ready);
        holder.signal("KILL");
        exec(database, &["-a", "init", "-q", "--ttl=2s"], "exit 0", 0);
        let runs = runs(database, &[]);
        assert_eq!(endings(&runs), [("exited", Some(0)), ("lost", None)]);
    });
}

#[test]
fn status_shows_the_last_run() {
    everywhere(|database| {
        exec(database, &["-a", "init"], "exit 7", 7);
        let table = Dlock::on(database, ["status", "init"]).run().stdout;
        assert!(table.contains("exited 7, "), "{table}");
        let text = Dlock::on(database, ["status", "--json", "init", "never"])
            .run()
            .stdout;
        let document: serde_json::Value = serde_json::from_str(&text).expect("is JSON");
        let [init, never] = [0, 1].map(|number| &document["locks"][number]);
        assert_eq!(init["last_ending"], "exited");
        assert_eq!(init["last_number"], 7);
        assert_eq!(init["last_token"], init["token"]);
        assert!(never["last_ending"].is_null(), "{never}");
    });
}

#[test]
fn the_history_keeps_what_it_was_told_to_and_little_more() {
    everywhere(|database| {
        let mut admin = database.admin_conn();
        exec(database, &["-a", "other"], "exit 0", 0);
        exec(database, &["-a", "init"], "exit 0", 0);
        let fill = "INSERT INTO dlock_run (action,token,holder,host,pid,user,note,began_at,ended_at,\
                    ending,number) SELECT 'init',1000+position,'','',0,'','',\
                    UTC_TIMESTAMP(6),UTC_TIMESTAMP(6),'exited',0 FROM (\
                    WITH RECURSIVE numbers AS (SELECT 1 AS position UNION ALL \
                    SELECT position+1 FROM numbers WHERE position<200) SELECT position FROM numbers\
                    ) AS numbers";
        admin.query_drop(fill).expect("fills the history");
        let mut count = |action: &str| -> u64 {
            let count = format!("SELECT COUNT(*) FROM dlock_run WHERE action='{action}'");
            admin.query_first(count).expect("counts").expect("a row")
        };
        assert_eq!(count("init"), 201);
        eventually("the history is pruned", || {
            exec(database, &["-a", "init", "--history=5"], "exit 3", 3);
            count("init") < 100
        });
        assert_eq!(count("init"), 5);
        assert_eq!(count("other"), 1);
        let newest = runs(database, &["init", "-n1"]);
        assert_eq!(endings(&newest), [("exited", Some(3))]);
        exec(database, &["-a", "init", "--history=0"], "exit 4", 4);
        assert_eq!(count("init"), 5);
    });
}

/// Also of an action that was closed before anybody ever held it: that entry has the token 0.
#[test]
fn a_short_history_loses_nothing_when_it_is_pruned() {
    everywhere(|database| {
        Dlock::on(
            database,
            ["release", "-a", "init", "--yes", "--hold-off=1us"],
        )
        .run()
        .expect(0, "", "init is closed");
        // Every sixteenth token prunes: the next one is far ahead of the clock.
        let next = format!("UPDATE dlock_lock SET token={}", (1_u64 << 60) - 1);
        database.admin_conn().query_drop(next).expect("changes it");
        exec(database, &["-a", "init"], "exit 0", 0);
        let runs = runs(database, &[]);
        assert_eq!(endings(&runs), [("exited", Some(0)), ("closed", None)]);
        assert_eq!(runs[0]["token"], 1_u64 << 60);
    });
}

#[test]
fn a_run_that_cannot_be_recorded_is_released_all_the_same() {
    everywhere(|database| {
        let mut admin = database.admin_conn();
        let Database { name, user, .. } = database;
        let pattern = name.replace('_', "\\_");
        for statement in [
            format!("REVOKE ALL ON `{pattern}`.* FROM '{user}'@'%'"),
            format!("GRANT SELECT ON `{name}`.dlock_schema TO '{user}'@'%'"),
            format!("GRANT SELECT, INSERT, UPDATE ON `{name}`.dlock_lock TO '{user}'@'%'"),
        ] {
            admin.query_drop(statement).expect("changes the grants");
        }
        Dlock::on(database, ["exec", "-a", "init", "--", "sh", "-c", "exit 5"])
            .run()
            .expect(5, "", "this run of init is not in the history: ");
        exec(database, &["-a", "init", "-n", "--history=0"], "exit 6", 6);
    });
}

#[test]
fn what_is_forgotten_is_run_again_and_the_forgetting_is_recorded() {
    everywhere(|database| {
        let once = ["-a", "init", "--once=v1"];
        exec(database, &once, "exit 0", 0);
        exec(database, &["-a", "init", "--once=v2"], "exit 0", 0);
        let forget = |key: &str| {
            Dlock::on(database, ["forget", "-a", "init", "--holder=ops"])
                .args([key, "--note=again"])
                .run()
        };
        forget("--once=v1").expect(0, "", "dlock: init (v1) is forgotten: ");
        forget("--once=v1").expect(0, "", "dlock: init (v1) was not recorded as done");
        forget("--once").expect(0, "", "dlock: init was not recorded as done");
        let runs = runs(database, &["-n1"]);
        assert_eq!(endings(&runs), [("forgotten", None)]);
        assert_eq!(runs[0]["holder"], "ops");
        assert_eq!(runs[0]["note"], "again");
        assert_eq!(runs[0]["once_key"], "v1");
        // The other key stands; this one is run again, and its failure counts.
        exec(database, &["-a", "init", "--once=v2", "-q"], "exit 9", 0);
        exec(database, &once, "exit 9", 9);
        // What was forgotten is no run.
        let status = Dlock::on(database, ["status", "init"]).run().stdout;
        assert!(status.contains("exited 9, "), "{status}");
    });
    Dlock::new(["forget", "-a", "init"])
        .run()
        .expect(64, "", "--once");
}
