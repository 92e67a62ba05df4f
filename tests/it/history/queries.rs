//! Tests of the results and the commands in the history, and of `--failed`, `--since` and `--follow`.

use mysql::prelude::Queryable;
use testkit::cli_runner::{Dlock, Running, eventually};
use testkit::command::{Stage, read_message};
use testkit::on_each_flavour;
use testkit::proxy::{AcceptMode, Proxy};
use testkit::servers::{Database, Flavour};

use super::{everywhere, exec, runs, set_up};

/// Returns the column RESULT of the runs of `init`, newest first.
fn results(database: &Database, options: &[&str]) -> Vec<String> {
    let outcome = Dlock::on(database, ["history", "init"]).args(options).run();
    assert_eq!(outcome.status, Some(0), "{outcome:#?}");
    let mut lines = outcome.stdout.lines();
    let heading = lines.next().unwrap_or_default();
    let column = heading.find("RESULT").expect("the column exists");
    let result = |line: &str| {
        line[column..]
            .split("  ")
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    lines.map(result).collect()
}

/// Starts a run of `init` whose command waits. Returns after the command has started.
fn hold(database: &Database, stage: &Stage, options: &[&str]) -> Running {
    let ready = stage.fifo("ready");
    let holder = Dlock::on(database, ["exec", "-a", "init"])
        .args(options)
        .args(["--", "sh", "-c", r#"echo up > "$1"; exec sleep 600"#, "sh"])
        .arg(&ready)
        .start();
    read_message(&ready);
    holder
}

on_each_flavour!(results_show_whether_dlock_or_the_command_chose_the_status);
fn results_show_whether_dlock_or_the_command_chose_the_status(flavour: Flavour) {
    let database = &set_up(flavour);
    let init = ["-a", "init", "--ttl=2s"];
    exec(database, &init, "exit 124", 124);
    exec(database, &init, "kill -KILL $$", 137);
    let limited = Dlock::on(database, ["exec", "-a", "init", "--max-runtime=10ms"])
        .args(["--grace=1s", "--", "sleep", "600"])
        .run();
    assert_eq!(limited.status, Some(124), "{limited:#?}");
    let stage = Stage::new();
    let revoked = hold(database, &stage, &[]);
    Dlock::on(
        database,
        ["release", "-a", "init", "--yes", "--operator=ops"],
    )
    .run()
    .expect(0, "", "init is released");
    assert_eq!(revoked.wait().status, Some(76));
    let stage = Stage::new();
    let lost = hold(database, &stage, &["--ttl=2s"]);
    lost.crash();
    exec(database, &["-a", "init", "--ttl=2s", "-q"], "exit 0", 0);
    let expected = [
        "exit 0",
        "lease lost",
        "released",
        "revoked by ops",
        "timed out (124)",
        "SIGKILL",
        "exit 124",
    ];
    let mut found = results(database, &[]);
    // The operator's entry and the run that it ended have the same time.
    found[2..4].sort();
    assert_eq!(found, expected);
    let json = runs(database, &["init"]);
    let fields = |field: &str| -> Vec<_> { json.iter().map(|run| run[field].clone()).collect() };
    let status = fields("dlock_status");
    assert_eq!(
        (&status[4], &status[6]),
        (&124.into(), &serde_json::Value::Null)
    );
    let by_ops = |by: &&serde_json::Value| **by == "ops";
    assert_eq!(fields("revoked_by").iter().filter(by_ops).count(), 1);
    let status = Dlock::on(database, ["status", "--json", "init"])
        .run()
        .stdout;
    assert!(status.contains(r#""last_dlock_status":null"#), "{status}");

    let failed = results(database, &["--failed"]);
    assert_eq!(failed[0], "lease lost");
    assert_eq!(failed.len(), 5, "{failed:?}");
    assert_eq!(
        results(database, &["--failed", "--number=1"]),
        ["lease lost"]
    );
}

#[test]
fn since_selects_by_the_end_of_a_run() {
    everywhere(|database| {
        exec(database, &["-a", "init"], "exit 1", 1);
        let old = "UPDATE dlock_history SET ended_at='2020-02-03 04:05:06'";
        let mut admin = database.admin_conn();
        admin.query_drop(old).expect("the row can be updated");
        exec(database, &["-a", "init"], "exit 2", 2);
        let since = |since: &str| results(database, &["--since", since]);
        for both in [
            "2020-02-03",
            "2020-02-03T04:05:06Z",
            "2020-02-03 04:05:06",
            "30000years",
        ] {
            assert_eq!(since(both), ["exit 2", "exit 1"], "{both}");
        }
        for one in ["2020-02-04", "2020-02-03T04:05:07Z", "1h"] {
            assert_eq!(since(one), ["exit 2"], "{one}");
        }
        Dlock::on(database, ["history", "init", "--since=9000-01-01"])
            .run()
            .expect(0, "init has no matching runs\n", "");
        Dlock::on(database, ["history", "--since=yesterday"])
            .run()
            .expect(64, "", "must be a duration such as 2h, or a time in UTC");
    });
}

on_each_flavour!(follow_prints_runs_as_they_end_also_after_a_lost_connection);
fn follow_prints_runs_as_they_end_also_after_a_lost_connection(flavour: Flavour) {
    let database = &set_up(flavour);
    for number in ["11", "12", "13"] {
        let exit = number.parse().expect("a number");
        exec(database, &["-a", "init"], &format!("exit {number}"), exit);
    }
    let follow = ["history", "--follow", "--number=2", "init"];
    let (mut text, json) = (
        Dlock::on(database, follow).start(),
        Dlock::on(database, follow).arg("--json").start(),
    );
    let shows = |follower: &Running, result: &str| {
        eventually(result, || follower.stdout_so_far().contains(result));
    };
    shows(&text, "exit 13");
    shows(&json, r#""code":13"#);
    exec(database, &["-a", "other"], "exit 21", 21);
    exec(database, &["-a", "init"], "exit 22", 22);
    shows(&text, "exit 22");
    shows(&json, r#""code":22"#);
    let mut admin = database.admin_conn();
    let sessions = format!(
        "SELECT id FROM information_schema.processlist WHERE user='{}'",
        database.user
    );
    let sessions: Vec<u64> = admin.query(sessions).expect("root sees all sessions");
    assert!(sessions.len() >= 2, "{sessions:?}");
    for session in sessions {
        // A session may already have ended.
        let _ = admin.query_drop(format!("KILL {session}"));
    }
    exec(database, &["-a", "init"], "exit 23", 23);
    shows(&text, "exit 23");
    shows(&json, r#""code":23"#);
    assert!(!text.is_over());
    // dlock repeats the request of a closed connection without a message.
    assert_eq!(text.stderr_so_far(), "");
    text.signal("INT");
    json.signal("INT");
    let outcome = text.wait();
    assert_eq!(outcome.status, None, "{outcome:#?}");
    let results: Vec<&str> = outcome
        .stdout
        .split_whitespace()
        .skip_while(|word| *word != "init")
        .filter(|word| word.len() == 2 && word.parse::<u8>().is_ok())
        .collect();
    assert_eq!(results, ["12", "13", "22", "23"], "{outcome:#?}");
    let json = json.wait().stdout;
    let documents = json.lines().map(serde_json::from_str::<serde_json::Value>);
    let codes: Vec<u64> = documents
        .flat_map(|document| {
            let document = document.expect("each line is JSON");
            let runs = document["runs"].as_array().expect("an array").clone();
            runs.into_iter().filter_map(|run| run["code"].as_u64())
        })
        .collect();
    assert_eq!(codes, [12, 13, 22, 23]);
}

on_each_flavour!(follow_prints_a_run_that_commits_late_once_and_survives_an_unreachable_server);
fn follow_prints_a_run_that_commits_late_once_and_survives_an_unreachable_server(flavour: Flavour) {
    let database = &set_up(flavour);
    exec(database, &["-a", "init"], "exit 11", 11);
    let proxy = Proxy::to(database.port);
    let follower = Dlock::new(["history", "--follow"])
        .env("DLOCK_URL", database.url_through(proxy.port()))
        .start();
    let shows = |result: &str| {
        eventually(result, || follower.stdout_so_far().contains(result));
    };
    shows("exit 11");
    let mut late = database.admin_conn();
    late.query_drop(
        "BEGIN;INSERT INTO dlock_history (action,token,holder,host,pid,user,note,started_at,\
         ended_at,outcome,code) VALUES ('late',1,'','',0,'','',UTC_TIMESTAMP(6),\
         UTC_TIMESTAMP(6),'exited',21)",
    )
    .expect("the entry can be inserted");
    exec(database, &["-a", "init"], "exit 22", 22);
    shows("exit 22");
    proxy.door(AcceptMode::Refused);
    proxy.reset();
    eventually("dlock reports the server", || {
        follower.stderr_so_far().contains("cannot reach")
    });
    late.query_drop("COMMIT").expect("the server responds");
    proxy.door(AcceptMode::Open);
    shows("exit 21");
    exec(database, &["-a", "init"], "exit 23", 23);
    shows("exit 23");
    follower.signal("INT");
    let outcome = follower.wait();
    for once in ["exit 11", "exit 21", "exit 22", "exit 23"] {
        assert_eq!(
            outcome.stdout.matches(&format!("{once}  2")).count(),
            1,
            "{outcome:#?}"
        );
    }
}

#[test]
fn the_history_contains_the_command_without_secrets() {
    everywhere(|database| {
        let run = |options: &[&str], words: &[&str]| {
            Dlock::on(database, ["exec", "-a", "init"])
                .args(options)
                .arg("--")
                .args(words)
                .run()
                .expect(0, "", "");
        };
        let secrets = ["true", "--password=S3CRET", "-pS3CRET", "--token", "S3CRET"];
        let more = ["TOKEN=S3CRET", "mysql://a:S3CRET@db/app", "two words"];
        let words = [&secrets[..], &more].concat();
        run(&[], &words);
        let redacted =
            "true --password=*** -p*** --token *** TOKEN=*** mysql://a:***@db/app 'two words'";
        assert_eq!(runs(database, &["--number=1"])[0]["command"], redacted);
        let table = Dlock::on(database, ["history"]).run().stdout;
        assert!(table.contains(redacted), "{table}");
        run(&["--hide-args"], &words);
        assert_eq!(runs(database, &["--number=1"])[0]["command"], "true");
        run(&[], &["true", &"x".repeat(300)]);
        let long = runs(database, &["--number=1"])[0]["command"].clone();
        assert_eq!(long.as_str().map(str::len), Some(255), "{long}");

        // A run whose holder died also shows its command.
        let stage = Stage::new();
        let lost = hold(database, &stage, &["--ttl=2s"]);
        lost.crash();
        exec(database, &["-a", "init", "--ttl=2s", "-q"], "exit 0", 0);
        run(&["--history=0"], &words);
        let lost = runs(database, &["--number=2"])[1].clone();
        assert_eq!(lost["outcome"], "lost");
        let command = lost["command"].as_str().expect("a string");
        assert!(command.starts_with("sh -c 'echo up"), "{command}");
        let mut admin = database.admin_conn();
        let stored: Option<String> = admin
            .query_first("SELECT command FROM dlock_lock")
            .expect("the table exists");
        assert_eq!(stored.as_deref(), Some("true"));
        for table in ["dlock_lock", "dlock_history"] {
            let secret = format!("SELECT COUNT(*) FROM {table} WHERE command LIKE '%S3CRET%'");
            let count: Option<u64> = admin.query_first(secret).expect("the table exists");
            assert_eq!(count, Some(0), "{table}");
        }
    });
}
