//! Tests that dlock stops a command that exceeds `--max-runtime` or does not change its heartbeat file in time.

use std::fs;

use testkit::cli_runner::{Dlock, eventually};
use testkit::command::{Stage, Witness, read_message};
use testkit::holder::renewals;
use testkit::servers::{Flavour, shared};

/// A command that locks the witness `$1`, writes `up` to `$2`, changes the file `$3` until `$4` exists, and does not exit on
/// SIGTERM or SIGINT.
const STUBBORN: &str = r#"
    exec 9>>"$1"
    flock -n 9 || exit 99
    trap "echo term" TERM
    trap "echo int" INT
    echo up > "$2"
    while [ ! -e "$4" ]; do date +%N > "$3"; sleep 0.1; done
    while :; do sleep 0.1; done
"#;

#[test]
fn command_over_max_runtime_is_stopped_with_exit_124_and_its_lease_is_released() {
    let database = shared(Flavour::of_this_test()).database("limits");
    for (signal, printed) in [(None, "term\n"), (Some("--stop-signal=INT"), "int\n")] {
        let stage = Stage::new();
        let (witness, ready) = (Witness::on(&stage), stage.fifo("ready"));
        let running = Dlock::on(&database, ["exec", "-a", "init", "--max-runtime", "3s"])
            .args(signal)
            .args(["--grace", "2s", "--", "sh", "-c", STUBBORN, "sh"])
            .arg(witness.path())
            .args([&ready, &stage.path("heartbeat"), &stage.path("go")])
            .start();
        read_message(&ready);
        let message = "init has run for 3s; stopping the command";
        running.wait().expect(124, printed, message);
        assert!(witness.is_alone(), "{signal:?}: the command is alive");
        // The lease is released, and a command that ends in time is not stopped.
        Dlock::on(&database, ["exec", "-n", "-a", "init", "--max-runtime"])
            .args(["1m", "--", "sh", "-c", "exit 3"])
            .expect(3, "", "");
    }
    Dlock::new(["exec", "-a", "init", "--max-runtime", "0s", "--", "true"]).expect(
        64,
        "",
        "must be longer than 0",
    );
}

#[test]
fn command_has_its_lease_as_long_as_its_heartbeat_changes() {
    let database = shared(Flavour::of_this_test()).database("limits");
    let stage = Stage::new();
    let (witness, ready) = (Witness::on(&stage), stage.fifo("ready"));
    let (file, stop) = (stage.path("heartbeat"), stage.path("stop"));
    let running = Dlock::on(&database, ["exec", "-a", "init", "--ttl", "3s"])
        .arg("--heartbeat-file")
        .arg(&file)
        .args(["--", "sh", "-c", STUBBORN, "sh"])
        .arg(witness.path())
        .args([&ready, &file, &stop])
        .start();
    read_message(&ready);
    eventually("the lease is renewed for two ttls", || {
        renewals(&database) > 12
    });
    fs::write(&stop, "").expect("the file can be written");
    let message = "heartbeat does not change; stopping the command";
    running.wait().expect(76, "term\n", message);
    assert!(witness.is_alone(), "the command is alive");
}
