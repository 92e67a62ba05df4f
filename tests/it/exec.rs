//! Tests that `exec` interferes with the command as little as possible. The tests cover the status, the streams, the
//! environment and the leftover processes of the command.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use mysql::prelude::Queryable;
use testkit::cli_runner::{Dlock, eventually};
use testkit::command::{Stage, is_alive};
use testkit::servers::{Database, Flavour, shared};

fn database() -> Database {
    shared(Flavour::of_this_test()).database("exec")
}

fn sh(database: &Database, script: &str) -> Dlock {
    Dlock::on(database, ["exec", "-a", "init", "--", "sh", "-c", script])
}

#[test]
fn every_status_of_the_command_is_returned() {
    let database = database();
    // Success, a failure, a status with a meaning for dlock, those with a meaning for a shell, and the largest one.
    for status in [0, 1, 76, 126, 127, 129, 255] {
        sh(&database, &format!("exit {status}"))
            .run()
            .expect(status, "", "");
    }
}

#[test]
fn a_command_killed_by_a_signal_returns_128_plus_the_signal_number() {
    let database = database();
    for signal in [1, 2, 3, 6, 9, 10, 11, 14, 15, 34, 64] {
        let script = format!("ulimit -c 0; kill -{signal} $$; sleep 60");
        sh(&database, &script).run().expect(128 + signal, "", "");
    }
}

#[test]
fn the_command_uses_the_stdin_stdout_and_stderr_of_dlock() {
    let database = database();
    let stage = Stage::new();
    let input = stage.path("input");
    fs::write(&input, "three\nwords\nhere\n").expect("the folder is writable");
    sh(&database, "tr a-z A-Z; echo to stderr >&2")
        .stdin(Stdio::from(
            File::open(&input).expect("the file can be read"),
        ))
        .run()
        .expect(0, "THREE\nWORDS\nHERE\n", "to stderr\n");
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
        .arg("--")
        .arg("sh")
        .arg("-c")
        .arg("echo $DLOCK_ACTION,$DLOCK_HOLDER,$DLOCK_TTL,$OTHER; echo $DLOCK_TOKEN")
        .run();
    let token: u64 = database
        .admin_conn()
        .query_first("SELECT token FROM dlock_lock")
        .expect("the table exists")
        .expect("the row exists");
    let expected = format!("größe,deploy 7,1m 30s,kept\n{token}\n");
    outcome.expect(0, &expected, "");
    // If the environment contained two variables with the same name, a shell would use the last variable, and most
    // programs would use the first variable.
    let all = Dlock::on(&database, ["exec", "-a", "größe", "--", "env"])
        .env("DLOCK_TOKEN", "1")
        .run();
    let tokens = |line: &&str| line.starts_with("DLOCK_TOKEN=");
    assert_eq!(all.stdout.lines().filter(tokens).count(), 1, "{all:#?}");
}

#[test]
fn tokens_increase_from_one_run_to_the_next() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("exec");
        let tokens: Vec<u64> = (0..5)
            .map(|_| {
                let outcome = sh(&database, "echo $DLOCK_TOKEN").run();
                outcome.stdout.trim().parse().expect("a number")
            })
            .collect();
        assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    }
}

#[test]
fn a_command_that_cannot_run_creates_no_tables() {
    let database = database();
    let stage = Stage::new();
    let plain = stage.path("plain");
    fs::write(&plain, "no program").expect("the folder is writable");
    let plain = plain.to_str().expect("UTF-8");
    for (command, status, why) in [
        ("no-such-command", 127, "no such command"),
        ("/no/such/command", 127, "no such command"),
        (plain, 126, "Permission denied"),
        ("/", 126, "directory"),
    ] {
        Dlock::on(&database, ["exec", "-a", "init", "--", command])
            .run()
            .expect(status, "", why);
    }
    let tables: Vec<String> = database
        .admin_conn()
        .query("SHOW TABLES")
        .expect("root has the privilege");
    assert!(
        tables.is_empty(),
        "dlock connected to the server: {tables:?}"
    );
}

#[test]
fn a_missing_interpreter_releases_the_lock() {
    let database = database();
    let stage = Stage::new();
    let script = stage.path("script");
    fs::write(&script, "#!/no/such/interpreter\n").expect("the folder is writable");
    fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("the test owns the file");
    let script = script.to_str().expect("UTF-8");
    Dlock::on(&database, ["exec", "-a", "init", "--", script])
        .run()
        .expect(
            127,
            "",
            "its interpreter /no/such/interpreter does not exist",
        );
    Dlock::on(&database, ["status", "--check", "init"])
        .run()
        .expect(0, "", "");
}

#[test]
fn at_exit_the_lock_is_free_and_leftover_processes_are_dead() {
    let database = database();
    let outcome = sh(&database, "sleep 600 >/dev/null 2>&1 & echo $!").run();
    let leftover = outcome.stdout.trim().to_owned();
    assert_eq!((outcome.status, leftover.is_empty()), (Some(0), false));
    eventually("the leftover process dies", || !is_alive(&leftover));
    Dlock::on(&database, ["exec", "-n", "-a", "init", "--", "true"])
        .run()
        .expect(0, "", "");
}

#[test]
fn a_successful_run_prints_nothing_unless_verbose() {
    let database = database();
    sh(&database, "true").run().expect(0, "", "");
    sh(&database, "true")
        .env("DLOCK_OPT_VERBOSE", "1")
        .run()
        .expect(0, "", "acquired init in");
}

#[test]
fn a_script_without_an_interpreter_line_is_run_by_sh() {
    let database = database();
    let stage = Stage::new();
    let script = stage.path("script");
    fs::write(&script, "echo ran $1\nexit 3\n").expect("the folder is writable");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))
        .expect("the test owns the file");
    Dlock::on(&database, ["exec", "-a", "init", "--"])
        .arg(&script)
        .arg("it")
        .run()
        .expect(3, "ran it\n", "");
}
