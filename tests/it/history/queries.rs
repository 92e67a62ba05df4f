//! Tests of the results and the commands in the history, and of `--failed`, `--since` and `--follow`.

use mysql::prelude::Queryable;
use serde_json::Value;
use testkit::cli_runner::{Dlock, eventually};
use testkit::holder::{Holder, operator_releases};
use testkit::on_each_flavour;
use testkit::proxy::{AcceptMode, Proxy};
use testkit::servers::{Database, Flavour, SESSIONS};
use testkit::sql::Sql;

use super::{endings, everywhere, exec, runs, set_up};

/// Returns the column RESULT of the runs of `init`, newest first.
fn results(database: &Database, options: &[&str]) -> Vec<String> {
    let outcome = Dlock::on(database, ["history", "init"]).args(options).run();
    assert_eq!(outcome.status, Some(0), "{outcome:#?}");
    let mut lines = outcome.stdout.lines();
    let heading = lines.next().unwrap_or_default();
    let column = heading.find("RESULT").expect("the column exists");
    let result = |line: &str| line[column..].split("  ").next().map(str::to_owned);
    lines.filter_map(result).collect()
}

on_each_flavour!(results_show_whether_dlock_or_the_command_chose_the_status);
fn results_show_whether_dlock_or_the_command_chose_the_status(flavour: Flavour) {
    let database = &set_up(flavour);
    let init = ["-a", "init"];
    let lost = Holder::on(database, &["--ttl=5m"]);
    lost.running.crash();
    let expire = "UPDATE dlock_lock SET acquired_at=acquired_at-INTERVAL 2 HOUR,\
         expires_at=UTC_TIMESTAMP(6)-INTERVAL 1 HOUR";
    database.run(expire);
    // The server may not have noticed yet that the session has ended.
    exec(database, &["-a", "init", "-q"], "exit 0", 0);
    let status = Dlock::on(database, ["status", "--json", "init"]).run();
    let no_status = r#""last_dlock_status":null"#;
    assert!(status.stdout.contains(no_status), "{status:?}");
    exec(database, &init, "exit 124", 124);
    exec(database, &init, "kill -KILL $$", 137);
    let limit = ["exec", "init", "--max-runtime=10ms", "--grace=1s"];
    let limited = Dlock::on(database, limit).args(["--", "sleep", "600"]);
    limited.run().exited(124);
    let revoked = Holder::on(database, &[]);
    operator_releases(database);
    assert_eq!(revoked.running.wait().status, Some(76));
    let mut found = results(database, &[]);
    // The operator's entry and the run that it ended have the same time.
    found[..2].sort();
    let released = ["released", "revoked by ops", "timed out (124)", "SIGKILL"];
    let earlier = ["exit 124", "exit 0", "lease lost"];
    assert_eq!(found, [&released[..], &earlier].concat());
    let runs = runs(database, &["init"]);
    // A run whose dlock was killed ended with its lease, and not at the take-over. Its command is also known.
    let lost = [("exited", Some(0)), ("lost", None)];
    assert_eq!(endings(&runs[5..]), lost);
    let ago = runs[6]["ended_ago_ms"].as_u64();
    assert!(ago >= Some(3_600_000), "{runs:?}");
    let command = runs[6]["command"].as_str().expect("a string");
    assert!(command.starts_with("sh -c 'echo up"), "{command}");
    assert_eq!(runs[2]["dlock_status"], 124);
    assert_eq!(runs[4]["dlock_status"], Value::Null);
    let by_ops = runs.iter().filter(|run| run["revoked_by"] == "ops");
    assert_eq!(by_ops.count(), 1);

    let failed = results(database, &["--failed"]);
    let expected = [&released[1..], &["exit 124", "lease lost"]].concat();
    assert_eq!(failed, expected);
    let newest = results(database, &["--failed", "--number=1"]);
    assert_eq!(newest, ["revoked by ops"]);
}

#[test]
fn since_selects_by_the_end_of_a_run() {
    everywhere(|database| {
        exec(database, &["-a", "init"], "exit 1", 1);
        database.run("UPDATE dlock_history SET ended_at='2020-02-03 04:05:06'");
        exec(database, &["-a", "init"], "exit 2", 2);
        for (since, expected) in [
            ("2020-02-03T04:05:06Z", &["exit 2", "exit 1"][..]),
            ("30000years", &["exit 2", "exit 1"]),
            ("2020-02-03 04:05:07", &["exit 2"]),
            ("2020-02-04", &["exit 2"]),
            ("1h", &["exit 2"]),
        ] {
            let found = results(database, &["--since", since]);
            assert_eq!(found, expected, "{since}");
        }
        let none = Dlock::on(database, ["history", "init", "--since=9000-01-01"]).run();
        none.expect(0, "init has no matching runs\n", "");
    });
    let wrong = Dlock::new(["history", "--since=yesterday"]).run();
    wrong.expect(64, "", "must be a duration such as 2h, or a time in UTC");
}

on_each_flavour!(follow_prints_each_run_once_also_a_late_one_and_after_a_lost_connection);
fn follow_prints_each_run_once_also_a_late_one_and_after_a_lost_connection(flavour: Flavour) {
    let database = &set_up(flavour);
    let run = |action: &str, status: i32| {
        exec(database, &["-a", action], &format!("exit {status}"), status);
    };
    for status in [11, 12, 13] {
        run("init", status);
    }
    let proxy = Proxy::to(database.port);
    let follow = ["history", "--follow", "--number=2"];
    let url = database.url_through(proxy.port());
    let mut text = Dlock::new(follow).env("DLOCK_URL", url).start();
    let json = Dlock::on(database, follow).args(["init", "--json"]).start();
    let shows = |status: i32| {
        for (follower, result) in [
            (&text, format!("exit {status}")),
            (&json, format!("\"code\":{status}")),
        ] {
            eventually(&result, || follower.stdout_so_far().contains(&result));
        }
    };
    shows(13);
    let mut admin = database.admin_conn();
    let user = &database.user;
    let sessions = format!("SELECT id FROM {SESSIONS} AS p WHERE user='{user}'");
    let sessions: Vec<u64> = database.rows(sessions);
    assert!(sessions.len() >= 2, "{sessions:?}");
    for session in sessions {
        // A session may already have ended.
        let _ = admin.query_drop(format!("KILL {session}"));
    }
    run("init", 22);
    shows(22);
    // dlock repeats the request of a closed connection without a message.
    assert_eq!(text.stderr_so_far(), "");
    // This run ends before the next one, and is committed after it, while the server is unreachable.
    let late = "BEGIN;INSERT INTO dlock_history (action,token,holder,host,pid,user,note,started_at,\
         ended_at,outcome,code) VALUES ('other',1,'','',0,'','',UTC_TIMESTAMP(6),\
         UTC_TIMESTAMP(6),'exited',21)";
    admin.run(late);
    run("init", 23);
    shows(23);
    proxy.door(AcceptMode::Refused);
    proxy.reset();
    text.wait_for_output("cannot reach");
    admin.run("COMMIT");
    proxy.door(AcceptMode::Open);
    let late = "exit 21";
    eventually(late, || text.stdout_so_far().contains(late));
    run("init", 24);
    shows(24);
    assert!(!text.is_over());
    text.signal("INT");
    json.signal("INT");
    let outcome = text.wait();
    assert_eq!(outcome.status, None, "{outcome:#?}");
    let words = outcome.stdout.split_whitespace();
    let after_exit = words.clone().skip(1).zip(words);
    let results = after_exit.filter(|(_, word)| *word == "exit");
    let results: Vec<&str> = results.map(|(status, _)| status).collect();
    assert_eq!(results, ["12", "13", "22", "23", "21", "24"]);
    let json = json.wait().stdout;
    let documents = json.lines().map(serde_json::from_str::<Value>);
    let runs = documents.flat_map(|document| {
        let document = document.expect("each line is JSON");
        document["runs"].as_array().expect("an array").clone()
    });
    let codes: Vec<u64> = runs.filter_map(|run| run["code"].as_u64()).collect();
    assert_eq!(codes, [12, 13, 22, 23, 24]);
}

#[test]
fn the_history_contains_the_command_without_secrets() {
    let database = &set_up(Flavour::of_this_test());
    let secrets = ["true", "--password=S3CRET", "-pS3CRET", "--token", "S3CRET"];
    let more = ["TOKEN=S3CRET", "mysql://a:S3CRET@db/app", "two words"];
    let secrets = [&secrets[..], &more].concat();
    let redacted =
        "true --password=*** -p*** --token *** TOKEN=*** mysql://a:***@db/app 'two words'";
    let long = "x".repeat(300);
    let truncated = format!("true {}", &long[..250]);
    for (option, words, command) in [
        ("--history=100", &secrets[..], redacted),
        ("--hide-args", &secrets, "true"),
        ("--history=100", &["true", &long], &truncated),
    ] {
        let exec = Dlock::on(database, ["exec", "-a", "init", option, "--"]);
        exec.args(words).expect(0, "", "");
        assert_eq!(runs(database, &["--number=1"])[0]["command"], command);
    }
    let table = Dlock::on(database, ["history"]).run().stdout;
    assert!(table.contains(redacted), "{table}");
    let stored = "SELECT command FROM dlock_lock UNION SELECT command FROM dlock_history";
    let stored: Vec<String> = database.rows(stored);
    let has_secret = stored.iter().any(|command| command.contains("S3CRET"));
    assert!(stored.len() == 3 && !has_secret, "{stored:?}");
}
