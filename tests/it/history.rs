//! Tests of the history of runs, and of `forget`, which removes a recorded success.

mod queries;

use serde_json::{Value, json};
use testkit::cli_runner::Dlock;
use testkit::command::Stage;
use testkit::each_server::{everywhere, set_up};
use testkit::on_each_flavour;
use testkit::servers::{Database, Flavour};

use crate::logs::has;

/// Runs the shell code `script` under `dlock exec` with `options`, and asserts the exit status.
#[track_caller]
fn exec(database: &Database, options: &[&str], script: &str, status: i32) {
    let exec = Dlock::on(database, ["exec"]).args(options);
    let exec = exec.args(["--", "sh", "-c", script]).run();
    exec.expect(status, "", "");
}

/// Returns the runs in the output of `history --json`, newest first.
#[track_caller]
pub(crate) fn runs(database: &Database, options: &[&str]) -> Vec<Value> {
    let history = [&["history", "--json"], options].concat();
    let document = printed(database, &history);
    document["runs"].as_array().expect("an array").clone()
}

#[track_caller]
fn printed(database: &Database, words: &[&str]) -> Value {
    Dlock::on(database, words).run().json()
}

/// Returns the outcome and the code of each run.
pub(crate) fn endings(runs: &[Value]) -> Vec<(&str, Option<u64>)> {
    let outcomes = runs
        .iter()
        .map(|run| run["outcome"].as_str().expect("a string"));
    let codes = runs.iter().map(|run| run["code"].as_u64());
    outcomes.zip(codes).collect()
}

on_each_flavour!(the_history_and_status_contain_every_run_with_its_outcome);
fn the_history_and_status_contain_every_run_with_its_outcome(flavour: Flavour) {
    let database = &set_up(flavour);
    let a = ["-a", "init"];
    exec(database, &a, "exit 0", 0);
    exec(database, &a, "exit 7", 7);
    exec(database, &a, "kill -9 $$", 137);
    let limited = ["exec", "init", "--max-runtime=10ms", "--", "sleep", "60"];
    Dlock::on(database, limited).run().exited(124);
    let once = ["-a", "init", "--once=v1", "--holder=web-1"];
    let once = [&once[..], &["--note=release 42"]].concat();
    exec(database, &once, "exit 0", 0);
    exec(database, &["-a", "other"], "exit 1", 1);
    let all = runs(database, &[]);
    let expected = [
        ("exited", Some(1)),
        ("exited", Some(0)),
        ("timed-out", all[2]["code"].as_u64()),
        ("killed", Some(9)),
        ("exited", Some(7)),
        ("exited", Some(0)),
    ];
    assert_eq!(endings(&all), expected);
    assert_eq!(endings(&runs(database, &["--number", "2"])), expected[..2]);
    assert_eq!(endings(&runs(database, &["other"])), expected[..1]);
    assert_eq!(endings(&runs(database, &["-a", "init"])), expected[1..]);
    for (number, more) in [("--number=5", true), ("--number=6", false)] {
        let document = printed(database, &["history", "--json", number]);
        assert_eq!(document["more"], more, "{document}");
    }
    let keyed = &all[1];
    let wanted =
        json!({"action": "init", "once_key": "v1", "holder": "web-1", "note": "release 42"});
    has(keyed, &wanted);
    has(&all[0], &json!({"once_key": null}));
    assert!(keyed["token"].as_u64() > all[2]["token"].as_u64());
    let [started, ended] = ["started_at", "ended_at"].map(|field| keyed[field].as_str());
    assert!(started <= ended, "{keyed}");
    let started = started.expect("a string");
    let is_time = started.starts_with("20") && started.ends_with('Z');
    assert!(is_time, "{started}");

    let table = Dlock::on(database, ["history", "init", "--number=1"]);
    let table = table.run().stdout;
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 2, "{table}");
    for fact in ["init", "v1", "web-1", "exit 0 ", "release 42"] {
        assert!(lines[1].contains(fact), "{fact}: {table}");
    }

    let status = Dlock::on(database, ["status", "other"]).run().stdout;
    assert!(status.contains("exit 1, "), "{status}");
    let document = printed(database, &["status", "--json", "other", "never"]);
    let [never, other] = [0, 1].map(|number| &document["locks"][number]);
    has(never, &json!({"action": "never", "last_outcome": null}));
    let wanted = json!({"last_outcome": "exited", "last_code": 1, "last_token": other["token"]});
    has(other, &wanted);
    // A last run that is not in the history is unknown.
    let last_outcome =
        || printed(database, &["status", "--json", "other"])["locks"][0]["last_outcome"].clone();
    exec(database, &["-a", "other", "--history=0"], "exit 3", 3);
    assert_eq!(last_outcome(), Value::Null);
    for words in [&["list"][..], &["status", "other"]] {
        let shown = Dlock::on(database, words).run().stdout;
        assert!(shown.contains("unknown"), "{shown}");
    }
    exec(database, &["-a", "other"], "exit 0", 0);
    assert_eq!(last_outcome(), "exited");
}

on_each_flavour!(an_expired_run_is_lost_and_a_run_with_a_freed_row_is_revoked);
fn an_expired_run_is_lost_and_a_run_with_a_freed_row_is_revoked(flavour: Flavour) {
    let database = &set_up(flavour);
    let expired = "expires_at=UTC_TIMESTAMP(6)-INTERVAL 1 HOUR,owner_id=REPEAT('x',16)";
    // If a run took more than 0.1 s, a hand-off precedes its release.
    for (change, outcome, rest) in [
        (expired, "lost", "true"),
        (expired, "lost", "sleep 0.2"),
        ("owner_id=NULL", "revoked", "true"),
        ("owner_id=NULL", "revoked", "sleep 0.2"),
    ] {
        let stage = Stage::new();
        let words = ["exec", "-a", "init", "--ttl=5m", "--holder", outcome];
        let script = format!(r#"echo up > "$1"; read word < "$2"; {rest}"#);
        let holder = stage.start(Dlock::on(database, words), &script);
        database.run(format!(
            "UPDATE dlock_lock SET {change} WHERE action='init'"
        ));
        stage.let_go("on");
        let stopped = holder.wait();
        // On a busy machine, a renewal may find the loss before the command ends.
        let reasons = ["was lost before the command had ended", "lost init: "];
        let is_reported = reasons.iter().any(|why| stopped.stderr.contains(why));
        assert!(stopped.status == Some(76) && is_reported, "{stopped:#?}");
        exec(database, &["-a", "init", "--holder=next"], "exit 0", 0);
        let runs = runs(database, &["init", "--number=2"]);
        assert_eq!(endings(&runs), [("exited", Some(0)), (outcome, None)]);
        assert_eq!(runs[1]["holder"], outcome);
    }
}

/// Pruning also keeps the entry of an action that was paused before its first grant, although that entry has the token
/// 0.
#[test]
fn the_history_is_pruned_to_its_limit() {
    everywhere(|database| {
        let pause = ["release", "-y", "--create", "--pause=1us", "-a", "other"];
        let paused = Dlock::on(database, pause).run();
        paused.expect(0, "", "other is paused");
        exec(database, &["-a", "init"], "exit 0", 0);
        database.run(
            "INSERT INTO dlock_history (action,token,holder,host,pid,user,note,started_at,ended_at,outcome,code) \
             SELECT 'init',1000+position,'','',0,'','',UTC_TIMESTAMP(6),UTC_TIMESTAMP(6),'exited',0 FROM (\
             WITH RECURSIVE numbers AS (SELECT 1 AS position UNION ALL \
             SELECT position+1 FROM numbers WHERE position<200) SELECT position FROM numbers) AS numbers",
        );
        // The history is pruned at each token that is a multiple of 16. The next token is a multiple of 16, far ahead
        // of the clock.
        let next = (1_u64 << 60) - 1;
        database.run(format!("UPDATE dlock_lock SET token={next}"));
        let count = "SELECT COUNT(*) FROM dlock_history WHERE action='init'";
        let count = || -> u64 { database.value(count) };
        assert_eq!(count(), 201);
        exec(database, &["-a", "init", "--history=5"], "exit 3", 3);
        assert_eq!(count(), 5);
        exec(database, &["-a", "init", "--history=0"], "exit 4", 4);
        assert_eq!(count(), 5);
        exec(database, &["-a", "other"], "exit 0", 0);
        for (action, expected) in [
            ("init", [("exited", Some(3)), ("exited", Some(0))]),
            ("other", [("exited", Some(0)), ("paused", None)]),
        ] {
            let newest = runs(database, &[action, "--number=2"]);
            assert_eq!(endings(&newest), expected);
            assert_eq!(newest[0]["token"], 1_u64 << 60);
        }
    });
}

#[test]
fn a_run_that_cannot_be_recorded_is_still_released() {
    everywhere(|database| {
        let Database { name, user, .. } = database;
        let pattern = name.replace('_', "\\_");
        database.run(format!("REVOKE ALL ON `{pattern}`.* FROM '{user}'@'%'"));
        database.grant(&format!("SELECT ON `{name}`.dlock_schema"));
        database.grant(&format!("SELECT, INSERT, UPDATE ON `{name}`.dlock_lock"));
        database.grant(&format!("SELECT ON `{name}`.dlock_waiter"));
        let run = ["exec", "-a", "init", "--", "sh", "-c", "exit 5"];
        let run = Dlock::on(database, run).run();
        run.expect(5, "", "this run of init is not in the history: ");
        exec(database, &["-a", "init", "-n", "--history=0"], "exit 6", 6);
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
        let why = "dlock: inti is unknown: no process has held it, or it was removed\n";
        unknown.expect(66, "", why);
        let runs = runs(database, &["--number=1"]);
        assert_eq!(endings(&runs), [("forgotten", None)]);
        let wanted = json!({"holder": "ops", "note": "again", "once_key": "v1"});
        has(&runs[0], &wanted);
        // The success of v2 is still recorded. The command for v1 runs again, and its failure is returned.
        exec(database, &["-a", "init", "--once=v2", "-q"], "exit 9", 0);
        exec(database, &once, "exit 9", 9);
        // The entry that `forget` wrote is not the latest run.
        let status = Dlock::on(database, ["status", "init"]).run().stdout;
        assert!(status.contains("exit 9, "), "{status}");
    });
    let forget = Dlock::new(["forget", "-a", "init"]).run();
    forget.expect(64, "", "--once");
}
