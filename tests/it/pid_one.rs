//! Tests of dlock as process 1, as in a container: dlock forwards signals, reaps orphans, exits with its command's
//! status, and leaves no process behind.
//!
//! The tests must be able to create a PID namespace, either as root or with user namespaces. Otherwise, the tests fail
//! with a message that describes the fix.

use std::path::Path;
use std::process::{Command, Stdio};

use testkit::cli_runner::{Dlock, Running};
use testkit::command::{Stage, Witness, only_child, signal};
use testkit::holder::Holder;
use testkit::recorder::{Recorder, catchable};
use testkit::servers::{Database, database};

/// Returns the options that `unshare` needs in addition to `--pid`: no options for root, and the options for a user
/// namespace for other users.
pub(crate) fn namespaces() -> &'static [&'static str] {
    let ways: [&[&str]; 2] = [&[], &["--user", "--map-root-user"]];
    for way in ways {
        let tried = unshare(way).arg("true").stderr(Stdio::null()).status();
        if tried.expect("unshare is installed").success() {
            return match way {
                [] => &[],
                _ => &["--user", "--map-root-user"],
            };
        }
    }
    panic!(
        "this machine does not allow a PID namespace: run these tests as root with CAP_SYS_ADMIN, or allow user \
         namespaces (sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces; in Docker --privileged)"
    );
}

pub(crate) fn unshare(way: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(way)
        .args(["--pid", "--fork", "--mount-proc", "--kill-child"]);
    command
}

/// Returns an `unshare` that runs a program as process 1 of a PID namespace. The words of the program follow.
pub(crate) fn in_namespaces() -> Dlock {
    let unshare = unshare(namespaces());
    Dlock::of(Path::new(unshare.get_program()), unshare.get_args())
}

fn container(database: &Database) -> Dlock {
    in_namespaces()
        .args([env!("CARGO_BIN_EXE_dlock"), "exec", "-a", "init", "-q"])
        .env("DLOCK_URL", database.url())
}

/// Returns the process id of dlock in the PID namespace of the test.
fn dlock(container: &Running) -> u32 {
    only_child(container.pid())
}

#[test]
fn process_1_forwards_every_signal_once_and_exits_with_the_commands_status() {
    let database = database();
    let stage = Stage::new();
    let recorder = Recorder::on(&stage, "one");
    let exec = container(&database).arg("--");
    let running = exec.args(recorder.command()).start();
    recorder.is_up();
    let dlock = dlock(&running);
    // The list has no SIGINT, because SIGINT and SIGTERM would count as two stop requests, which kill the command.
    let signals: Vec<i32> = catchable().filter(|number| *number != 2).collect();
    for number in &signals {
        signal(dlock, &number.to_string());
        recorder.got(*number);
    }
    assert_eq!(recorder.log(), Some(signals));
    recorder.exit(7);
    running.wait().exited(7);
    for (name, status) in [("TERM", 143), ("KILL", 137)] {
        let script = format!("kill -{name} $$");
        let exec = container(&database).args(["--", "sh", "-c", &script]);
        exec.run().exited(status);
    }
}

#[test]
fn process_1_that_waits_in_the_queue_exits_on_a_signal() {
    let database = database();
    let holder = Holder::on(&database, &[]);
    let waiter = container(&database).args(["--", "echo", "ran"]).start();
    database.wait_until("COUNT(*)=1 FROM dlock_waiter");
    signal(dlock(&waiter), "TERM");
    waiter.wait().exited(143);
    holder.end().expect(3, "", "");
}

/// A script that starts orphans that exit immediately and orphans that exit after 0.1 s. It then writes `up`, reads a status,
/// and exits with this status when the namespace contains only dlock, its monitor and the processes of the script.
const ORPHANS: &str = r#"
    for n in 1 2 3 4 5 6 7 8; do (sh -c 'exit 3' & setsid sh -c 'sleep 0.1' &); done
    echo up > "$1"
    read status < "$2"
    # dlock, its monitor, this shell and the shell that counts.
    count() { set -- /proc/[0-9]*; echo $#; }
    until [ "$(count)" -le 4 ]; do :; done
    exit $status
"#;

#[test]
fn process_1_reaps_orphans_while_its_command_runs() {
    let database = database();
    let stage = Stage::new();
    let container = stage.start(container(&database), ORPHANS);
    // If a process enters the namespace from outside, as with `docker exec`, process 1 inherits the orphans of this
    // process too.
    let user = match namespaces() {
        [] => &[][..],
        _ => &["--preserve-credentials", "--user"],
    };
    let entered = Command::new("nsenter")
        .args(user)
        .args(["--pid", "--mount", "--target"])
        .arg(dlock(&container).to_string())
        .args(["sh", "-c", "(sleep 0.1 &) ; (sh -c 'exit 3' &)"])
        .status();
    assert!(entered.expect("nsenter is installed").success());
    stage.let_go("4");
    container.wait().exited(4);
}

#[test]
fn no_process_survives_process_1_even_if_it_is_killed() {
    let database = database();
    for kill in [false, true] {
        let stage = Stage::new();
        let witness = Witness::on(&stage);
        let script = r#"
            exec 9>>"$witness"; flock -n 9 || exit 99
            trap '' TERM
            (setsid sh -c 'trap "" TERM HUP; while :; do sleep 1; done' &)
            echo up > "$1"; read status < "$2"; exit $status
        "#;
        let exec = container(&database).env("witness", witness.path());
        let container = stage.start(exec, script);
        assert!(
            !witness.is_alone(),
            "the command does not keep the witness locked"
        );
        if kill {
            signal(dlock(&container), "KILL");
            container.wait();
        } else {
            stage.let_go("5");
            container.wait().exited(5);
        }
        assert!(witness.is_alone(), "killed: {kill}");
    }
}
