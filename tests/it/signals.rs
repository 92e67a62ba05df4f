//! Tests of every catchable signal in every phase of dlock. The tests check which process receives a signal and how
//! often, dlock's exit status, and the rows that remain in the database.

use std::net::TcpListener;
use std::path::Path;

use testkit::cli_runner::{Dlock, Running, eventually};
use testkit::command::Stage;
use testkit::holder::Holder;
use testkit::proxy::{Fault, Kind, Proxy};
use testkit::recorder::{HARMLESS, Recorder, catchable, fatal};
use testkit::servers::{Database, database};

use crate::hold_pid::nobody_waits;

const INT: i32 = 2;
const TERM: i32 = 15;

/// Returns the number of holders and the number of waiters in `database`.
fn counts(database: &Database) -> (u64, u64) {
    database.value("SELECT COUNT(owner_id),(SELECT COUNT(*) FROM dlock_waiter) FROM dlock_lock")
}

fn recording(database: &Database, recorder: &Recorder) -> Running {
    let exec = Dlock::typed(database, "exec -a init --");
    let running = exec.args(recorder.command()).start();
    recorder.is_up();
    running
}

/// Sends all `signals` to `running`. Sends each signal after the command has received the previous signal.
#[track_caller]
fn send_all(signals: &[i32], running: &Running, recorder: &Recorder) {
    for number in signals {
        running.signal(&number.to_string());
        recorder.got(*number);
    }
}

fn all_but_requests_to_stop() -> Vec<i32> {
    catchable()
        .filter(|number| ![INT, TERM].contains(number))
        .collect()
}

#[test]
fn holder_forwards_every_signal_once_and_the_command_sets_the_status() {
    let database = database();
    let stage = Stage::new();
    let signals = all_but_requests_to_stop();
    assert!(signals.len() > 50, "only {signals:?}");
    // SIGUSR1, which has number 10, is a marker. A second copy of a stop request would arrive before the marker.
    for signals in [signals, vec![INT, 10], vec![TERM, 10]] {
        let recorder = Recorder::on(&stage, &signals[0].to_string());
        let running = recording(&database, &recorder);
        send_all(&signals, &running, &recorder);
        assert_eq!(recorder.log(), Some(signals));
        recorder.exit(7);
        running.wait().expect(7, "", "");
    }
    assert_eq!(counts(&database), (0, 0));
}

#[test]
fn stopping_command_still_gets_signals_and_a_second_request_kills() {
    let database = database();
    let stage = Stage::new();
    let (all, marker) = (all_but_requests_to_stop(), vec![10]);
    for (first, others, second) in [
        (TERM, &all, INT),
        (INT, &marker, TERM),
        (TERM, &marker, TERM),
        (INT, &marker, INT),
    ] {
        let recorder = Recorder::on(&stage, &format!("{first}-{second}"));
        let running = recording(&database, &recorder);
        let sent = [&[first], &others[..]].concat();
        send_all(&sent, &running, &recorder);
        running.wait_after(&second.to_string()).expect(137, "", "");
        assert_eq!(recorder.log(), Some(sent));
        assert_eq!(counts(&database), (0, 0));
    }
}

/// Returns the end of the text for the signal `number` in a message. Real-time signals have no name.
fn named(number: i32) -> String {
    match number {
        ..32 => format!(" ({number})"),
        _ => format!("signal {number}"),
    }
}

#[test]
fn signal_ends_a_waiter_without_changing_lock_or_queue() {
    let database = database();
    let stage = Stage::new();
    let recorder = Recorder::on(&stage, "holder");
    let holder = recording(&database, &recorder);
    let start = || {
        Dlock::on(&database, ["exec", "-a", "init", "--", "echo", "ran"])
            .start_until("init is held by")
    };
    // The next test sends every signal, to a dlock that is connecting.
    for number in [1, 2, 3, 10, 13, 14, 15, 34, 64] {
        let waiter = start();
        let message = named(number) + " while waiting for init";
        (waiter.wait_after(&number.to_string())).expect(128 + number, "", &message);
    }
    nobody_waits(&database);
    assert_eq!(counts(&database).0, 1);
    // A signal that does not end a process by default does not end a waiter.
    let waiter = start();
    for number in HARMLESS {
        waiter.signal(&number.to_string());
    }
    recorder.exit(0);
    waiter.wait().expect(0, "ran\n", "init is held by");
    holder.wait().expect(0, "", "");
    assert_eq!(recorder.log(), Some(Vec::new()));
    assert_eq!(counts(&database).0, 0);
}

#[test]
fn signal_ends_a_dlock_that_is_connecting() {
    // The server accepts connections and sends nothing. After the accept, dlock waits for the server's greeting.
    let server = TcpListener::bind("127.0.0.1:0").expect("127.0.0.1 has a free port");
    let port = server.local_addr().expect("the listener is bound").port();
    let connecting = || {
        let dlock = Dlock::new(["exec", "-a", "init", "--", "echo", "ran"])
            .env("DLOCK_URL", format!("mysql://root@127.0.0.1:{port}/dlock"))
            .start();
        (server.accept().expect("dlock connects"), dlock)
    };
    for number in fatal() {
        let (_silent, dlock) = connecting();
        let message = named(number) + " while waiting for init";
        (dlock.wait_after(&number.to_string())).expect(128 + number, "", &message);
    }
    let (_silent, patient) = connecting();
    for number in HARMLESS {
        patient.signal(&number.to_string());
    }
    (patient.wait_after("USR1")).expect(138, "", "SIGUSR1 (10) while waiting");
}

#[test]
fn signal_during_the_release_changes_neither_status_nor_release() {
    let database = database();
    let proxy = Proxy::to(database.port);
    let release = proxy.next(Kind::Release, Fault::HoldRequest);
    let exec = Dlock::typed(&database.through(proxy.port()), "exec -a init -- sh -c");
    let running = exec.arg("exit 7").start();
    release.wait();
    for number in catchable().chain([INT, TERM]) {
        running.signal(&number.to_string());
    }
    release.let_go();
    running.wait().expect(7, "", "");
    assert_eq!(counts(&database), (0, 0));
}

#[test]
fn stop_and_continue_signals_are_forwarded_to_the_command() {
    let database = database();
    let stage = Stage::new();
    let exec = Dlock::on(&database, ["exec", "-a", "init"]);
    let script = r#"echo $$ > "$1"; read status < "$2"; exit $status"#;
    let (running, command) = stage.start_told(exec, script);
    for number in [20, 21, 22] {
        running.signal(&number.to_string());
        eventually("the command is stopped", || state(&command) == 'T');
        running.signal("CONT");
        eventually("the command is resumed", || state(&command) != 'T');
    }
    stage.let_go("5");
    running.wait().expect(5, "", "");
}

/// Returns the letter for the state of a process, as in `ps`.
pub(crate) fn state(pid: &str) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process exists");
    let after_name = stat.rsplit(") ").next().expect("the file contains a state");
    after_name.chars().next().expect("the state is a letter")
}

/// `timeout` sends its signal to the process that it has started, and then to the whole process group, so dlock
/// receives the signal twice.
#[test]
fn signal_that_timeout_sends_twice_is_one_stop_request() {
    let database = database();
    // A signal makes timeout do the same as the end of its time.
    for run in 0..3 {
        let timeout = ["--preserve-status", "1h", env!("CARGO_BIN_EXE_dlock")];
        let timeout = Dlock::of(Path::new("timeout"), timeout)
            .args(["exec", "-a", "init"])
            .env("DLOCK_URL", database.url());
        let script = r#"trap 'exit 9' TERM; echo up > "$1"; while :; do sleep 0.1; done"#;
        let running = Stage::new().start(timeout, script);
        assert_eq!(running.wait_after("TERM").status, Some(9), "run {run}");
    }
}

#[test]
fn signal_ignored_at_start_ends_neither_a_waiter_nor_its_command() {
    let database = database();
    let stage = Stage::new();
    let holder = Holder::on(&database, &[]);
    let nohup = Dlock::of(Path::new("sh"), ["-c", r#"trap '' HUP; exec "$0" "$@""#])
        .args([env!("CARGO_BIN_EXE_dlock"), "exec", "-a", "init"])
        .env("DLOCK_URL", database.url());
    let nohup = stage.launch(nohup, r#"echo up > "$1"; read word < "$2""#);
    nohup.wait_for_output("init is held by");
    nohup.signal("HUP");
    assert_eq!(holder.end().status, Some(3));
    assert_eq!(stage.told(), "up");
    nohup.signal("HUP");
    stage.let_go("on");
    nohup.wait().expect(0, "", "init is held by");
}
