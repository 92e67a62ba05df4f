//! Tests that dlock stops a command that exceeds `--max-runtime` or does not change its heartbeat file in time.

use std::fs;

use testkit::cli_runner::{Dlock, Running};
use testkit::command::{Stage, Witness};
use testkit::holder::{Holder, wait_renewals};
use testkit::servers::{Flavour, shared};

/// A command that locks the file `$witness`, writes `up` to `$1`, changes the file `$heartbeat` until `$stop` exists, and does
/// not exit on SIGTERM or SIGINT.
const STUBBORN: &str = r#"
    exec 9>>"$witness"
    flock -n 9 || exit 99
    trap "echo term" TERM
    trap "echo int" INT
    echo up > "$1"
    while [ ! -e "$stop" ]; do date +%N > "$heartbeat"; sleep 0.1; done
    while :; do sleep 0.1; done
"#;

/// Starts `exec` with the command [`STUBBORN`] and its files on `stage`.
#[track_caller]
fn start_stubborn(stage: &Stage, exec: Dlock) -> Running {
    let set = |exec: Dlock, name: &str| exec.env(name, stage.path(name));
    let exec = ["witness", "heartbeat", "stop"].into_iter().fold(exec, set);
    stage.start(exec, STUBBORN)
}

#[test]
fn command_over_max_runtime_is_stopped_with_exit_124_and_its_lease_is_released() {
    let database = shared(Flavour::of_this_test()).database("limits");
    for (signal, printed) in [(None, "term\n"), (Some("--stop-signal=INT"), "int\n")] {
        let stage = Stage::new();
        let witness = Witness::on(&stage);
        let exec = Dlock::typed(&database, "exec -a init --max-runtime 3s --grace 2s");
        let running = start_stubborn(&stage, exec.args(signal));
        let message = "init has run for 3s; stopping the command";
        running.wait().expect(124, printed, message);
        assert!(witness.is_alone(), "{signal:?}: the command is alive");
        // The lease is released, and a command that ends in time is not stopped.
        Dlock::on(&database, ["exec", "-n", "-a", "init", "--max-runtime"])
            .args(["1m", "--", "sh", "-c", "exit 3"])
            .expect(3, "", "");
    }
    let zero = Dlock::new(["exec", "-a", "init", "--max-runtime", "0s", "--", "true"]);
    zero.expect(64, "", "must be longer than 0");
}

#[test]
fn command_has_its_lease_as_long_as_its_heartbeat_changes() {
    let database = shared(Flavour::of_this_test()).database("limits");
    let stage = Stage::new();
    let witness = Witness::on(&stage);
    let exec = Dlock::typed(&database, "exec -a init --ttl 6s --heartbeat-file");
    let running = start_stubborn(&stage, exec.arg(stage.path("heartbeat")));
    // The lease is renewed for two ttls.
    wait_renewals(&database, 12);
    fs::write(stage.path("stop"), "").expect("the file can be written");
    let message = "heartbeat does not change; stopping the command";
    running.wait().expect(76, "term\n", message);
    assert!(witness.is_alone(), "the command is alive");
}

#[test]
fn missing_heartbeat_is_reported_with_its_cause() {
    let database = shared(Flavour::of_this_test()).database("limits");
    let stage = Stage::new();
    fs::write(stage.path("old"), "").expect("the file can be written");
    let missing = "cannot be read: No such file or directory (os error 2)";
    let causes = [("old", "does not change"), ("missing", missing)];
    let holders = causes.map(|(name, _)| {
        let (action, file) = (format!("--action={name}"), stage.path(name));
        let file = format!("--heartbeat-file={}", file.display());
        Holder::on(&database, &[&action, "--ttl=6s", &file])
    });
    for (holder, (name, cause)) in holders.into_iter().zip(causes) {
        let outcome = holder.running.wait().exited(76);
        let file = stage.path(name);
        let message = format!(
            "dlock: cannot keep {name}: no heartbeat, because {} {cause}; stopping the command \
             (exit status 76; see dlock explain 76)\n",
            file.display()
        );
        assert_eq!(outcome.stderr, message);
    }
}
