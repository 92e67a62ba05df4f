//! Tests of dlock as process 1, as in a container: dlock forwards signals, reaps orphans, exits with its command's
//! status, and leaves no process behind.
//!
//! The tests must be able to create a PID namespace, either as root or with user namespaces. Otherwise, the tests fail
//! with a message that describes the fix.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use testkit::cli_runner::{eventually, hear_all_signals};
use testkit::command::{Stage, Witness, only_child, read_message, signal, write_message};
use testkit::holder::Holder;
use testkit::recorder::{Recorder, catchable};
use testkit::servers::{Database, Flavour, shared};

const DLOCK: &str = env!("CARGO_BIN_EXE_dlock");

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

/// `dlock exec -a init` as process 1 of a PID namespace.
struct Container {
    unshare: Child,
}

impl Container {
    fn start<S: Into<PathBuf>>(database: &Database, command: impl IntoIterator<Item = S>) -> Self {
        hear_all_signals();
        let unshare = unshare(namespaces())
            .args([DLOCK, "exec", "-a", "init", "-q", "--"])
            .args(command.into_iter().map(Into::into))
            .env("DLOCK_URL", database.url())
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("unshare is installed");
        Self { unshare }
    }

    /// Returns the process id of dlock in the PID namespace of the test.
    fn dlock(&self) -> u32 {
        only_child(self.unshare.id())
    }

    fn ends(mut self) -> Option<i32> {
        let mut status = None;
        eventually("process 1 ends", || {
            status = self
                .unshare
                .try_wait()
                .expect("the status of a child can be read");
            status.is_some()
        });
        status.and_then(|status| status.code())
    }
}

fn shell<'a>(script: &'a str, words: impl IntoIterator<Item = &'a PathBuf>) -> Vec<PathBuf> {
    let shell = ["sh", "-c", script, "sh"].map(PathBuf::from);
    shell
        .into_iter()
        .chain(words.into_iter().cloned())
        .collect()
}

#[test]
fn process_1_forwards_every_signal_once_and_exits_with_the_commands_status() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("pid_one");
    let stage = Stage::new();
    let recorder = Recorder::on(&stage, "one");
    let container = Container::start(&database, recorder.command());
    recorder.is_up();
    let dlock = container.dlock();
    // The list has no SIGINT, because SIGINT and SIGTERM would count as two stop requests, which kill the command.
    let signals: Vec<i32> = catchable().filter(|number| *number != 2).collect();
    for number in &signals {
        signal(dlock, &number.to_string());
        recorder.got(*number);
    }
    assert_eq!(recorder.log(), Some(signals), "{flavour}");
    recorder.exit(7);
    assert_eq!(container.ends(), Some(7), "{flavour}");
    for (name, status) in [("TERM", 143), ("KILL", 137)] {
        let script = format!("kill -{name} $$");
        let container = Container::start(&database, shell(&script, []));
        assert_eq!(container.ends(), Some(status));
    }
}

#[test]
fn process_1_that_waits_in_the_queue_exits_on_a_signal() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("pid_one");
    let holder = Holder::on(&database, &[]);
    let container = Container::start(&database, shell("echo ran", []));
    database.wait_until("COUNT(*)=1 FROM dlock_waiter");
    signal(container.dlock(), "TERM");
    assert_eq!(container.ends(), Some(143), "{flavour}");
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
    let database = shared(Flavour::of_this_test()).database("pid_one");
    let stage = Stage::new();
    let (ready, go) = (stage.fifo("ready"), stage.fifo("go"));
    let container = Container::start(&database, shell(ORPHANS, [&ready, &go]));
    assert_eq!(read_message(&ready), "up");
    // If a process enters the namespace from outside, as with `docker exec`, process 1 inherits the orphans of this
    // process too.
    let user = match namespaces() {
        [] => &[][..],
        _ => &["--preserve-credentials", "--user"],
    };
    let entered = Command::new("nsenter")
        .args(user)
        .args(["--pid", "--mount", "--target"])
        .arg(container.dlock().to_string())
        .args(["sh", "-c", "(sleep 0.1 &) ; (sh -c 'exit 3' &)"])
        .status();
    assert!(entered.expect("nsenter is installed").success());
    write_message(&go, "4");
    assert_eq!(container.ends(), Some(4));
}

#[test]
fn no_process_survives_process_1_even_if_it_is_killed() {
    let database = shared(Flavour::of_this_test()).database("pid_one");
    for kill in [false, true] {
        let stage = Stage::new();
        let witness = Witness::on(&stage);
        let (ready, go) = (stage.fifo("ready"), stage.fifo("go"));
        let script = r#"
            exec 9>>"$1"; flock -n 9 || exit 99
            trap '' TERM
            (setsid sh -c 'trap "" TERM HUP; while :; do sleep 1; done' &)
            echo up > "$2"; read status < "$3"; exit $status
        "#;
        let words = [witness.path().to_owned(), ready.clone(), go.clone()];
        let container = Container::start(&database, shell(script, &words));
        read_message(&ready);
        assert!(
            !witness.is_alone(),
            "the command does not keep the witness locked"
        );
        if kill {
            signal(container.dlock(), "KILL");
            container.ends();
        } else {
            write_message(&go, "5");
            assert_eq!(container.ends(), Some(5));
        }
        assert!(witness.is_alone(), "killed: {kill}");
    }
}
