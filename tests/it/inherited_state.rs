//! Tests that a command inherits the same descriptors, signal mask and ignored signals with dlock as without dlock.
//! dlock keeps no copy of an inherited descriptor, so the file is closed when the command closes the descriptor.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::{fs, thread};

use testkit::cli_runner::{Dlock, PATIENCE, eventually};
use testkit::command::{Stage, Witness, read_message, write_message};
use testkit::recorder::program;
use testkit::servers::{Database, database};

/// A command that prints its blocked signals and its ignored signals. The command uses no shell, because a shell may
/// change both sets.
const MASKS: [&str; 4] = ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"];

/// The arguments that run a command under dlock. The command follows these arguments.
const WITH_DLOCK: [&str; 6] = [
    env!("CARGO_BIN_EXE_dlock"),
    "exec",
    "-a",
    "init",
    "-q",
    "--",
];

/// Returns a shell that runs `preparation` and then executes `"$@"`.
fn prepared(database: &Database, preparation: &str) -> Command {
    let mut command = Command::new("bash");
    command
        .args(["-c", &format!("{preparation}; exec \"$@\""), "bash"])
        .env("DLOCK_URL", database.url())
        .stdin(Stdio::null());
    command
}

#[test]
fn command_inherits_exactly_the_descriptors_of_dlock() {
    let database = database();
    let stage = Stage::new();
    // No stream is closed, or one of them, or all.
    for closed in [0, 1, 2, 4, 7] {
        let is_open = |number: u8| closed & (1 << number) == 0;
        let close = |number, text| if is_open(number) { "" } else { text };
        let preparation = format!(
            "exec 3</etc/passwd 5</ 8>>{} {} {} {}",
            stage.path("appended").display(),
            close(0, "0<&-"),
            close(1, "1>&-"),
            close(2, "2>&-")
        );
        let list = |name: &str, before: &[&str]| {
            let list = stage.path(&format!("{name}-{closed}"));
            let status = prepared(&database, &preparation)
                .args(before)
                .arg(program())
                .arg("list")
                .arg(&list)
                .status();
            assert!(status.expect("bash is installed").success());
            fs::read_to_string(&list).expect("the command wrote the list")
        };
        let bare = list("bare", &[]);
        let has = |number: u8| {
            let begin = format!("{number} ");
            bare.lines().any(|line| line.starts_with(&begin))
        };
        assert!([3, 5, 8].into_iter().all(has), "{bare}");
        for number in 0..3 {
            assert_eq!(has(number), is_open(number), "{bare}");
        }
        assert_eq!(list("with", &WITH_DLOCK), bare, "{preparation}");
    }
}

#[test]
fn command_inherits_the_signal_mask_and_ignored_signals() {
    // The command must inherit the signals that were blocked or ignored when dlock started. The command must not
    // inherit other signals that dlock or its runtime blocks or ignores.
    let database = database();
    for option in [
        "--default-signal",
        "--ignore-signal=HUP,PIPE,CHLD,INT,QUIT,TSTP,TTOU",
        "--block-signal=TERM,TSTP,CHLD,SEGV,PIPE",
    ] {
        let masks = |dlock: &[&str]| {
            let masks = Dlock::of(Path::new("env"), [option])
                .args(dlock)
                .args(MASKS);
            masks
                .env("DLOCK_URL", database.url())
                .run()
                .exited(0)
                .stdout
        };
        let bare = masks(&[]);
        assert_eq!(bare.lines().count(), 2, "{bare}");
        assert_eq!(masks(&WITH_DLOCK), bare, "{option}");
    }
    Dlock::of(Path::new("env"), ["--ignore-signal=CHLD"])
        .args(WITH_DLOCK)
        .args(["sh", "-c", "exit 7"])
        .env("DLOCK_URL", database.url())
        .expect(7, "", "");
}

/// Reads `pipe` to the end of the stream. Returns None if the stream does not end within [`PATIENCE`].
fn read_to_end_in_time(mut pipe: impl Read + Send + 'static) -> Option<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut text = String::new();
        // If the test has failed, the receiver no longer exists and the send fails.
        let _ = pipe.read_to_string(&mut text).map(|_| sender.send(text));
    });
    receiver.recv_timeout(PATIENCE).ok()
}

#[test]
fn pipes_and_file_locks_end_when_the_command_closes_its_descriptors() {
    let database = database();
    let stage = Stage::new();
    let witness = Witness::on(&stage);
    let [ready, go, closed, end] = ["ready", "go", "closed", "end"].map(|name| stage.fifo(name));
    let (third, far) = std::io::pipe().expect("a descriptor is available");
    let preparation = format!(
        "exec 3>&2 2>&- 9>>{}; flock -n 9 || exit 99",
        witness.path().display()
    );
    let script = r#"
        echo out; echo three >&3; echo > "$1"; read word < "$2"
        exec 0<&- 1>&- 3>&- 9>&-; echo > "$3"; read status < "$4"; exit $status
    "#;
    let mut dlock = prepared(&database, &preparation)
        .args(WITH_DLOCK)
        .args(["sh", "-c", script, "sh"])
        .args([&ready, &go, &closed, &end])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(far)
        .spawn()
        .expect("bash is installed");
    read_message(&ready);
    assert!(!witness.is_alone(), "the file is not locked any more");
    write_message(&go, "on");
    read_message(&closed);
    assert!(witness.is_alone(), "dlock kept the locked descriptor");
    let stdout = dlock.stdout.take().expect("stdout is a pipe");
    let (stdout, third) = (read_to_end_in_time(stdout), read_to_end_in_time(third));
    assert_eq!(stdout.as_deref(), Some("out\n"), "stdout");
    assert_eq!(third.as_deref(), Some("three\n"), "descriptor 3");
    // The command has closed its stdin, so a write to the pipe must fail.
    let mut stdin = dlock.stdin.take().expect("stdin is a pipe");
    let written = stdin.write_all(b"word");
    assert!(written.is_err(), "another process still has stdin open");
    write_message(&end, "6");
    assert_eq!(dlock.wait().expect("dlock exits").code(), Some(6));
}

#[test]
fn signal_blocked_at_start_stays_blocked_and_a_second_signal_kills_the_command() {
    let database = database();
    let stage = Stage::new();
    let env = Dlock::of(Path::new("env"), ["--block-signal=TERM"])
        .args(&WITH_DLOCK[..5])
        .env("DLOCK_URL", database.url());
    let (dlock, command) = stage.start_told(env, r#"echo $$ > "$1"; read w < "$2""#);
    dlock.signal("TERM");
    eventually("the signal is pending in the command", || {
        let status =
            fs::read_to_string(format!("/proc/{command}/status")).expect("the command is alive");
        status.contains("ShdPnd:\t0000000000004000")
    });
    dlock.wait_after("TERM").exited(137);
    Dlock::on(&database, ["exec", "-n", "-a", "init", "--", "true"]).expect(0, "", "");
}
