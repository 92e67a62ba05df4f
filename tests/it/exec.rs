//! Tests that `exec` interferes with the command as little as possible. The tests cover the status and the
//! environment of the command. `inherited_state` covers its descriptors.

use testkit::cli_runner::Dlock;
use testkit::command::Stage;
use testkit::servers::{Database, database};

fn sh(database: &Database, script: &str) -> Dlock {
    Dlock::on(database, ["exec", "-a", "init", "--", "sh", "-c", script])
}

#[test]
fn every_status_of_the_command_is_returned_without_a_message() {
    let database = database();
    // Success, a failure, a status with a meaning for dlock, those with a meaning for a shell, and the largest one.
    for status in [0, 1, 76, 126, 127, 129, 255] {
        let script = format!("exit {status}");
        sh(&database, &script).expect(status, "", "");
    }
    for signal in [1, 2, 3, 6, 9, 10, 11, 14, 15, 34, 64] {
        let script = format!("ulimit -c 0; kill -{signal} $$; sleep 60");
        sh(&database, &script).expect(128 + signal, "", "");
    }
    let verbose = sh(&database, "true").env("DLOCK_OPT_VERBOSE", "1").run();
    verbose.expect(0, "", "acquired init in");
}

#[test]
fn the_command_gets_the_lease_in_its_environment() {
    let database = database();
    let outcome = Dlock::on(&database, ["exec", "-a", "größe", "--ttl", "1m 30s"])
        .arg("--holder=deploy 7")
        // The command must not receive the values of an outer dlock.
        .env("DLOCK_TOKEN", "1")
        .env("DLOCK_ACTION", "outer")
        .env("OTHER", "kept")
        .args(["--", "sh", "-c"])
        .arg("echo $DLOCK_ACTION,$DLOCK_HOLDER,$DLOCK_TTL,$OTHER; echo $DLOCK_TOKEN")
        .run();
    let token: u64 = database.value("SELECT token FROM dlock_lock");
    let expected = format!("größe,deploy 7,1m 30s,kept\n{token}\n");
    outcome.expect(0, &expected, "");
    // If the environment contained two variables with the same name, a shell would use the last variable, and most
    // programs would use the first variable.
    let all = Dlock::on(&database, ["exec", "-a", "größe", "--", "env"])
        .env("DLOCK_TOKEN", "1")
        .run();
    let tokens = all.stdout.lines();
    let tokens = tokens.filter_map(|line| line.strip_prefix("DLOCK_TOKEN="));
    let tokens: Vec<u64> = tokens.map(|it| it.parse().expect("a number")).collect();
    // The tokens increase from one run to the next.
    assert!(matches!(tokens[..], [it] if it > token), "{all:#?}");
}

#[test]
fn a_script_without_an_interpreter_is_run_by_sh() {
    let (database, stage) = (database(), Stage::new());
    let script = stage.write("script", 0o755, "echo ran $1\nexit 3\n");
    let exec = Dlock::on(&database, ["exec", "-a", "init", "--"]);
    exec.arg(&script).arg("it").expect(3, "ran it\n", "");
}
