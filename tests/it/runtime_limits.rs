//! Tests that dlock stops a command that exceeds `--max-runtime` or does not change its heartbeat file in time.

use std::fs;

use testkit::cli_runner::{Dlock, eventually};
use testkit::command::{Stage, Witness, read_message};
use testkit::servers::{Flavour, shared};

/// A command that locks the witness `$1`, writes `up` to `$2` and does not exit on SIGTERM.
const IGNORE_TERM: &str = r#"
    exec 9>>"$1"
    flock -n 9 || exit 99
    trap "echo term" TERM
    echo up > "$2"
    while :; do sleep 0.05; done
"#;

#[test]
fn command_over_max_runtime_exits_124_and_its_lease_is_released() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("limits");
    let stage = Stage::new();
    let (witness, ready) = (Witness::on(&stage), stage.fifo("ready"));
    let running = Dlock::on(&database, ["exec", "-a", "init", "--max-runtime", "300ms"])
        .args(["--grace", "200ms", "--", "sh", "-c", IGNORE_TERM, "sh"])
        .arg(witness.path())
        .arg(&ready)
        .start();
    read_message(&ready);
    let outcome = running.wait();
    outcome.expect(
        124,
        "term\n",
        "init has run for 300ms; stopping the command",
    );
    assert!(witness.is_alone(), "{flavour}: the command is alive");
    Dlock::on(&database, ["exec", "-n", "-a", "init", "--", "echo", "ran"])
        .run()
        .expect(0, "ran\n", "");
}

#[test]
fn command_that_ends_within_max_runtime_is_not_stopped() {
    let database = shared(Flavour::of_this_test()).database("limits");
    Dlock::on(&database, ["exec", "-a", "init", "--max-runtime", "1m"])
        .args(["--", "sh", "-c", "exit 3"])
        .run()
        .expect(3, "", "");
}

#[test]
fn command_whose_heartbeat_stops_loses_its_lease() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("limits");
    let stage = Stage::new();
    let (witness, ready) = (Witness::on(&stage), stage.fifo("ready"));
    let file = stage.path("heartbeat");
    fs::write(&file, "").expect("the file can be written");
    let running = Dlock::on(&database, ["exec", "-a", "init", "--ttl", "2s"])
        .arg("--heartbeat-file")
        .arg(&file)
        .args(["--", "sh", "-c", IGNORE_TERM, "sh"])
        .arg(witness.path())
        .arg(&ready)
        .start();
    read_message(&ready);
    let outcome = running.wait();
    outcome.expect(
        76,
        "term\n",
        "heartbeat does not change; stopping the command",
    );
    assert!(witness.is_alone(), "{flavour}: the command is alive");
}

#[test]
fn command_with_a_heartbeat_may_run_for_many_leases() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("limits");
    let stage = Stage::new();
    let file = stage.path("heartbeat");
    let go = stage.path("go");
    let running = Dlock::on(&database, ["exec", "-a", "init", "--ttl", "3s"])
        .arg("--heartbeat-file")
        .arg(&file)
        .args(["--", "sh", "-c"])
        .arg(r#"while [ ! -e "$2" ]; do date +%N > "$1"; sleep 0.1; done; exit 5"#)
        .arg("sh")
        .arg(&file)
        .arg(&go)
        .start();
    let mut admin = database.admin_conn();
    eventually("the lease is renewed for two ttls", || {
        use mysql::prelude::Queryable;
        let renewals: Option<u64> = admin
            .query_first("SELECT renewals FROM dlock_lock")
            .unwrap_or_default();
        renewals > Some(12)
    });
    fs::write(&go, "").expect("the file can be written");
    assert_eq!(running.wait().status, Some(5), "{flavour}");
}

#[test]
fn max_runtime_of_zero_is_a_usage_error() {
    Dlock::new(["exec", "-a", "init", "--max-runtime", "0s", "--", "true"])
        .run()
        .expect(64, "", "must be longer than 0");
}
