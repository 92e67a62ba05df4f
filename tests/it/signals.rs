//! Tests of every catchable signal in every phase of dlock. The tests check which process receives a signal and how
//! often, dlock's exit status, and the rows that remain in the database.

use std::cell::RefCell;
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use mysql::prelude::Queryable;
use testkit::cli_runner::{Dlock, Outcome, Running, eventually};
use testkit::command::{Stage, read_message, signal, write_message};
use testkit::proxy::{Fault, Kind, Proxy};
use testkit::recorder::{HARMLESS, Recorder, catchable, fatal};
use testkit::servers::{Database, Flavour, shared};

const INT: i32 = 2;
const TERM: i32 = 15;

/// A command that writes its process id to `$1`. Every fatal signal kills this command.
const SLEEP: &str = r#"echo $$ > "$1"; exec sleep 1000"#;

/// Returns the number of holders and the number of waiters in `database`.
fn counts(database: &Database) -> (u64, u64) {
    let mut admin = database.admin_conn();
    let mut count = |query: &str| -> u64 {
        let count = admin.query_first(query).expect("the tables exist");
        count.expect("the query returns one row")
    };
    (
        count("SELECT COUNT(*) FROM dlock_lock WHERE owner_id IS NOT NULL"),
        count("SELECT COUNT(*) FROM dlock_waiter"),
    )
}

fn recording(database: &Database, recorder: &Recorder) -> Running {
    let running = Dlock::on(database, ["exec", "-a", "init", "--"])
        .args(recorder.command())
        .start();
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

/// Starts one dlock for each of `signals` with `start`, and calls `ready`. Then sends each dlock its signal and waits
/// until the dlock exits. Returns each signal with the outcome of its dlock.
fn each(
    signals: &[i32],
    start: impl Fn(i32) -> Running,
    ready: impl FnOnce(),
) -> Vec<(i32, Outcome)> {
    let running: Vec<_> = signals
        .iter()
        .map(|number| (*number, start(*number)))
        .collect();
    ready();
    running
        .into_iter()
        .map(|(number, running)| {
            running.signal(&number.to_string());
            (number, running.wait())
        })
        .collect()
}

#[test]
fn holder_forwards_every_signal_to_the_command_once() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("signals");
    let stage = Stage::new();
    let recorder = Recorder::on(&stage, "all");
    let running = recording(&database, &recorder);
    let signals = all_but_requests_to_stop();
    assert!(signals.len() > 50, "only {signals:?}");
    send_all(&signals, &running, &recorder);
    assert_eq!(recorder.log(), Some(signals), "{flavour}");
    recorder.exit(7);
    running.wait().expect(7, "", "");
    assert_eq!(counts(&database), (0, 0), "{flavour}");
}

#[test]
fn first_stop_request_is_forwarded_once_and_the_command_sets_the_status() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("signals");
    let stage = Stage::new();
    for number in [INT, TERM] {
        let recorder = Recorder::on(&stage, &number.to_string());
        let running = recording(&database, &recorder);
        // SIGUSR1, which has number 10, is a marker. A second copy of the first signal would arrive before the
        // marker.
        send_all(&[number, 10], &running, &recorder);
        assert_eq!(recorder.log(), Some(vec![number, 10]), "{flavour}");
        recorder.exit(3);
        running.wait().expect(3, "", "");
    }
    assert_eq!(counts(&database), (0, 0), "{flavour}");
}

#[test]
fn stopping_command_still_gets_signals_and_a_second_request_kills() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("signals");
    let stage = Stage::new();
    for (first, second) in [(TERM, INT), (INT, TERM), (TERM, TERM), (INT, INT)] {
        let recorder = Recorder::on(&stage, &format!("{first}-{second}"));
        let running = recording(&database, &recorder);
        send_all(&[first], &running, &recorder);
        let others = all_but_requests_to_stop();
        send_all(&others, &running, &recorder);
        running.signal(&second.to_string());
        running.wait().expect(137, "", "");
        let all: Vec<i32> = [first].into_iter().chain(others).collect();
        assert_eq!(recorder.log(), Some(all), "{flavour}");
        assert_eq!(counts(&database), (0, 0), "{flavour}");
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
fn fatal_signal_to_the_command_exits_with_128_plus_its_number() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("signals");
    Dlock::on(&database, ["setup"]).run();
    let stage = Stage::new();
    let signals: Vec<i32> = fatal().collect();
    let fifo = |number| stage.path(&format!("ready-{number}"));
    let start = |number: i32| {
        stage.fifo(&format!("ready-{number}"));
        let action = format!("job-{number}");
        Dlock::on(
            &database,
            ["exec", "-a", &action, "--", "sh", "-c", SLEEP, "sh"],
        )
        .arg(fifo(number))
        .start()
    };
    let ready = || {
        for number in &signals {
            read_message(&fifo(*number));
        }
    };
    for (number, outcome) in each(&signals, start, ready) {
        outcome.expect(128 + number, "", "");
    }
    assert_eq!(counts(&database), (0, 0), "{flavour}");
}

#[test]
fn signal_ends_a_waiter_without_changing_lock_or_queue() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("signals");
    let stage = Stage::new();
    let recorder = Recorder::on(&stage, "holder");
    let holder = recording(&database, &recorder);
    let signals: Vec<i32> = fatal().collect();
    let start = |_| Dlock::on(&database, ["exec", "-a", "init", "--", "echo", "ran"]).start();
    let all_wait = || {
        eventually("all waiters are in the queue", || {
            counts(&database) == (1, signals.len() as u64)
        });
    };
    for (number, outcome) in each(&signals, start, all_wait) {
        let message = named(number) + " while waiting for init";
        outcome.expect(128 + number, "", &message);
    }
    // A waiter that leaves the queue has 0.1 s to remove its queue entry. On a busy machine, some entries may
    // remain.
    let (held, entries) = counts(&database);
    assert_eq!(held, 1, "{flavour}");
    assert!(entries < signals.len() as u64 / 2, "{entries} are left");
    // A signal that does not end a process by default does not end a waiter.
    let waiter = start(0);
    waiter.wait_for_output("init is held by");
    for number in HARMLESS {
        waiter.signal(&number.to_string());
    }
    recorder.exit(0);
    waiter.wait().expect(0, "ran\n", "init is held by");
    holder.wait().expect(0, "", "");
    assert_eq!(recorder.log(), Some(Vec::new()), "{flavour}");
    assert_eq!(counts(&database).0, 0, "{flavour}");
}

#[test]
fn signal_ends_a_dlock_that_is_connecting() {
    // Each dlock has its own server, which accepts connections and sends nothing. After the accept, dlock waits for the
    // server's greeting.
    let servers = RefCell::new(Vec::new());
    let start = |_| {
        let server = TcpListener::bind("127.0.0.1:0").expect("127.0.0.1 has a free port");
        let port = server.local_addr().expect("the listener is bound").port();
        servers.borrow_mut().push(server);
        Dlock::new(["exec", "-a", "init", "--", "echo", "ran"])
            .env("DLOCK_URL", format!("mysql://root@127.0.0.1:{port}/dlock"))
            .start()
    };
    let accept_all = || -> Vec<TcpStream> {
        let accept = |server: TcpListener| server.accept().expect("dlock connects").0;
        servers.take().into_iter().map(accept).collect()
    };
    let signals: Vec<i32> = fatal().collect();
    let mut silent = Vec::new();
    let ready = || silent = accept_all();
    for (number, outcome) in each(&signals, start, ready) {
        let message = named(number) + " while waiting for init";
        outcome.expect(128 + number, "", &message);
    }
    assert_eq!(silent.len(), signals.len());

    let patient = start(0);
    let _silent = accept_all();
    for number in HARMLESS {
        patient.signal(&number.to_string());
    }
    patient.signal("USR1");
    patient.wait().expect(138, "", "SIGUSR1 (10) while waiting");
}

#[test]
fn signal_during_the_release_changes_neither_status_nor_release() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("signals");
    let proxy = Proxy::to(database.port);
    let release = proxy.next(Kind::Release, Fault::HoldRequest);
    let running = Dlock::new(["exec", "-a", "init", "--", "sh", "-c", "exit 7"])
        .env("DLOCK_URL", database.url_through(proxy.port()))
        .start();
    release.wait();
    for number in catchable().chain([INT, TERM]) {
        running.signal(&number.to_string());
    }
    release.let_go();
    running.wait().expect(7, "", "");
    assert_eq!(counts(&database), (0, 0), "{flavour}");
}

#[test]
fn stop_and_continue_signals_are_forwarded_to_the_command() {
    let database = shared(Flavour::of_this_test()).database("signals");
    let stage = Stage::new();
    for number in [20, 21, 22] {
        let (ready, go) = (
            stage.fifo(&format!("ready-{number}")),
            stage.fifo(&format!("go-{number}")),
        );
        let running = Dlock::on(&database, ["exec", "-a", "init", "--", "sh", "-c"])
            .arg(r#"echo $$ > "$1"; read status < "$2"; exit $status"#)
            .arg("sh")
            .arg(&ready)
            .arg(&go)
            .start();
        let command = read_message(&ready);
        running.signal(&number.to_string());
        eventually("the command is stopped", || state(&command) == 'T');
        running.signal("CONT");
        eventually("the command is resumed", || state(&command) != 'T');
        write_message(&go, "5");
        running.wait().expect(5, "", "");
    }
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
    let database = shared(Flavour::of_this_test()).database("signals");
    let stage = Stage::new();
    let script = r#"trap 'exit 9' TERM; : > "$1"; while :; do sleep 0.02; done"#;
    let mut counted = 0;
    let mut limit = Duration::from_millis(500);
    for run in 0..12 {
        let ready = stage.path(&format!("ready-{run}"));
        let status = Command::new("timeout")
            .arg("--preserve-status")
            .arg(limit.as_secs_f64().to_string())
            .arg(env!("CARGO_BIN_EXE_dlock"))
            .args(["exec", "-a", "init", "--", "sh", "-c", script, "sh"])
            .arg(&ready)
            .env("DLOCK_URL", database.url())
            .stderr(Stdio::null())
            .status();
        // On a slow machine, the signal may arrive before the command has set its trap. The test does not count such a
        // run.
        if ready.exists() {
            let code = status.expect("timeout is installed").code();
            assert_eq!(code, Some(9), "run {run}");
            counted += 1;
        } else {
            limit *= 2;
        }
        if counted == 6 {
            return;
        }
    }
    panic!("only {counted} of 12 commands started in time");
}

#[test]
fn second_term_or_int_kills_the_command() {
    let database = shared(Flavour::of_this_test()).database("signals");
    let stage = Stage::new();
    let ready = stage.fifo("ready");
    let told = stage.fifo("told");
    let running = Dlock::on(&database, ["exec", "-a", "init", "--", "sh", "-c"])
        .arg(r#"trap 'echo deaf > "$2"' TERM; echo up > "$1"; while :; do sleep 0.02; done"#)
        .arg("sh")
        .arg(&ready)
        .arg(&told)
        .start();
    read_message(&ready);
    running.signal("TERM");
    assert_eq!(read_message(&told), "deaf");
    running.signal("INT");
    running.wait().expect(137, "", "");
}

#[test]
fn signal_ignored_at_start_stays_ignored() {
    let database = shared(Flavour::of_this_test()).database("signals");
    let stage = Stage::new();
    let (ready, go) = (stage.fifo("ready"), stage.fifo("go"));
    let nohup = Command::new("sh")
        .args(["-c", r#"trap '' HUP; exec "$0" exec -a init -- sh -c 'echo up > "$1"; read w < "$2"' sh "$1" "$2""#])
        .arg(env!("CARGO_BIN_EXE_dlock"))
        .args([&ready, &go])
        .env("DLOCK_URL", database.url())
        .spawn();
    let mut nohup = nohup.expect("sh runs");
    read_message(&ready);
    signal(nohup.id(), "HUP");
    write_message(&go, "on");
    assert_eq!(nohup.wait().expect("dlock exits").code(), Some(0));
}

#[test]
fn signal_ignored_at_start_does_not_end_a_waiter() {
    let database = shared(Flavour::of_this_test()).database("signals");
    let stage = Stage::new();
    let (ready, go) = (stage.fifo("ready"), stage.fifo("go"));
    let holder = Dlock::on(&database, ["exec", "-a", "init", "--", "sh", "-c"])
        .arg(r#"echo up > "$1"; read word < "$2""#)
        .arg("sh")
        .arg(&ready)
        .arg(&go)
        .start();
    read_message(&ready);
    let waiter = Command::new("sh")
        .args(["-c", r#"trap '' HUP; exec "$0" exec -a init -- true"#])
        .arg(env!("CARGO_BIN_EXE_dlock"))
        .env("DLOCK_URL", database.url())
        .stderr(Stdio::null())
        .spawn();
    let mut waiter = waiter.expect("sh runs");
    let mut admin = database.admin_conn();
    eventually("the waiter waits in the queue", || {
        let waiting: Option<u64> = admin
            .query_first("SELECT COUNT(*) FROM dlock_waiter")
            .expect("the table exists");
        waiting == Some(1)
    });
    signal(waiter.id(), "HUP");
    write_message(&go, "on");
    holder.wait().expect(0, "", "");
    assert_eq!(waiter.wait().expect("dlock exits").code(), Some(0));
}
