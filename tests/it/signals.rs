//! Signals: every one that can be caught, in every phase of dlock: who gets it, how often, how dlock ends, what it leaves.

use std::cell::RefCell;
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use mysql::prelude::Queryable;

use crate::command::{Stage, heard, signal, tell};
use crate::dlock::{Dlock, Outcome, Running, eventually};
use crate::proxy::{Fault, Kind, Proxy};
use crate::recorder::{HARMLESS, Recorder, catchable, deadly};
use crate::servers::{Database, Flavour, shared};

const INT: i32 = 2;
const TERM: i32 = 15;

/// A command that says when it is up and dies of everything.
const MORTAL: &str = r#"echo $$ > "$1"; exec sleep 1000"#;

/// Who holds or waits for `init` is counted so.
fn counts(database: &Database) -> (u64, u64) {
    let mut admin = database.admin_conn();
    let mut count = |query: &str| -> u64 {
        let count = admin.query_first(query).expect("the tables are there");
        count.expect("a count is one row")
    };
    (
        count("SELECT COUNT(*) FROM dlock_lock WHERE claim IS NOT NULL"),
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

/// Sends all `signals` to `running`, one by one, each when the one before has arrived.
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

/// Starts a dlock for each of `signals`, as `start` says, sends each its signal as soon as `ready`, one after the other,
/// and returns how they ended.
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
fn while_it_holds_every_signal_reaches_the_command_once_as_itself() {
    for flavour in Flavour::ALL {
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
}

#[test]
fn one_request_to_stop_reaches_the_command_once_and_how_it_ends_is_its_own_affair() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("signals");
        let stage = Stage::new();
        for number in [INT, TERM] {
            let recorder = Recorder::on(&stage, &number.to_string());
            let running = recording(&database, &recorder);
            // The last is a marker: what came twice would have come before it.
            send_all(&[number, 10], &running, &recorder);
            assert_eq!(recorder.log(), Some(vec![number, 10]), "{flavour}");
            recorder.exit(3);
            running.wait().expect(3, "", "");
        }
        assert_eq!(counts(&database), (0, 0), "{flavour}");
    }
}

#[test]
fn while_the_command_is_stopping_every_signal_still_reaches_it_and_a_second_request_kills() {
    for flavour in Flavour::ALL {
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
}

#[test]
fn a_signal_that_the_command_does_not_survive_gives_128_plus_its_number() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("signals");
        Dlock::on(&database, ["setup"]).run();
        let stage = Stage::new();
        let signals: Vec<i32> = deadly().collect();
        let fifo = |number| stage.path(&format!("ready-{number}"));
        let start = |number: i32| {
            stage.fifo(&format!("ready-{number}"));
            let action = format!("job-{number}");
            Dlock::on(
                &database,
                ["exec", "-a", &action, "--", "sh", "-c", MORTAL, "sh"],
            )
            .arg(fifo(number))
            .start()
        };
        let ready = || {
            for number in &signals {
                heard(&fifo(*number));
            }
        };
        for (number, outcome) in each(&signals, start, ready) {
            outcome.expect(128 + number, "", "");
        }
        assert_eq!(counts(&database), (0, 0), "{flavour}");
    }
}

#[test]
fn while_it_waits_a_signal_ends_the_waiting_and_leaves_lock_and_line_alone() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("signals");
        let stage = Stage::new();
        let recorder = Recorder::on(&stage, "holder");
        let holder = recording(&database, &recorder);
        let signals: Vec<i32> = deadly().collect();
        let start = |_| Dlock::on(&database, ["exec", "-a", "init", "--", "echo", "ran"]).start();
        let all_wait = || {
            eventually("all stand in line", || {
                counts(&database) == (1, signals.len() as u64)
            });
        };
        for (number, outcome) in each(&signals, start, all_wait) {
            let said = format!("signal {number} while waiting for init");
            outcome.expect(128 + number, "", &said);
        }
        // Who leaves has a tenth of a second for its place: a busy machine may keep some, never most.
        let (held, places) = counts(&database);
        assert_eq!(held, 1, "{flavour}");
        assert!(places < signals.len() as u64 / 2, "{places} stand in line");
        // What a process ignores by default, or stops of, does not end its waiting.
        let waiter = start(0);
        waiter.heard("init is held by");
        for number in HARMLESS {
            waiter.signal(&number.to_string());
        }
        recorder.exit(0);
        waiter.wait().expect(0, "ran\n", "init is held by");
        holder.wait().expect(0, "", "");
        assert_eq!(recorder.log(), Some(Vec::new()), "{flavour}");
        assert_eq!(counts(&database).0, 0, "{flavour}");
    }
}

#[test]
fn while_it_connects_a_signal_ends_it() {
    // Each has a server of its own that accepts and says nothing: when that has happened, dlock is connecting.
    let servers = RefCell::new(Vec::new());
    let start = |_| {
        let server = TcpListener::bind("127.0.0.1:0").expect("127.0.0.1 has a port");
        let port = server.local_addr().expect("it is bound").port();
        servers.borrow_mut().push(server);
        Dlock::new(["exec", "-a", "init", "--", "echo", "ran"])
            .env("DLOCK_URL", format!("mysql://root@127.0.0.1:{port}/dlock"))
            .start()
    };
    let accept_all = || -> Vec<TcpStream> {
        let accept = |server: TcpListener| server.accept().expect("dlock connects").0;
        servers.take().into_iter().map(accept).collect()
    };
    let signals: Vec<i32> = deadly().collect();
    let mut silent = Vec::new();
    let ready = || silent = accept_all();
    for (number, outcome) in each(&signals, start, ready) {
        let said = format!("signal {number} while waiting for init");
        outcome.expect(128 + number, "", &said);
    }
    assert_eq!(silent.len(), signals.len());

    let patient = start(0);
    let _silent = accept_all();
    for number in HARMLESS {
        patient.signal(&number.to_string());
    }
    patient.signal("USR1");
    patient.wait().expect(138, "", "signal 10 while waiting");
}

#[test]
fn while_it_releases_no_signal_changes_the_status_or_stops_the_release() {
    for flavour in Flavour::ALL {
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
}

#[test]
fn a_command_that_is_stopped_through_dlock_goes_on_through_dlock() {
    let database = shared(Flavour::MariaDb).database("signals");
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
        let command = heard(&ready);
        running.signal(&number.to_string());
        eventually("the command is stopped", || state(&command) == 'T');
        running.signal("CONT");
        eventually("the command goes on", || state(&command) != 'T');
        tell(&go, "5");
        running.wait().expect(5, "", "");
    }
}

/// The letter for what a process does, as in `ps`.
pub(crate) fn state(pid: &str) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is there");
    let after_name = stat.rsplit(") ").next().expect("a state");
    after_name.chars().next().expect("a letter")
}

/// `timeout` sends its signal to the process that it started and then to its whole group.
#[test]
fn the_signal_that_timeout_sends_twice_is_one_request_to_stop() {
    let database = shared(Flavour::MariaDb).database("signals");
    let stage = Stage::new();
    let script = r#"trap 'exit 9' TERM; : > "$1"; while :; do sleep 0.02; done"#;
    let mut told = 0;
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
        // Where the machine is slow the command may not have set its trap yet, and there is nothing to tell.
        if ready.exists() {
            let code = status.expect("timeout is installed").code();
            assert_eq!(code, Some(9), "run {run}");
            told += 1;
        } else {
            limit *= 2;
        }
        if told == 6 {
            return;
        }
    }
    panic!("only {told} of 12 commands were up in time");
}

#[test]
fn a_second_term_or_int_kills() {
    let database = shared(Flavour::MariaDb).database("signals");
    let stage = Stage::new();
    let ready = stage.fifo("ready");
    let told = stage.fifo("told");
    let running = Dlock::on(&database, ["exec", "-a", "init", "--", "sh", "-c"])
        .arg(r#"trap 'echo deaf > "$2"' TERM; echo up > "$1"; while :; do sleep 0.02; done"#)
        .arg("sh")
        .arg(&ready)
        .arg(&told)
        .start();
    heard(&ready);
    running.signal("TERM");
    assert_eq!(heard(&told), "deaf");
    running.signal("INT");
    running.wait().expect(137, "", "");
}

#[test]
fn a_signal_that_was_ignored_at_the_start_stays_ignored() {
    let database = shared(Flavour::MariaDb).database("signals");
    let stage = Stage::new();
    let (ready, go) = (stage.fifo("ready"), stage.fifo("go"));
    let nohup = Command::new("sh")
        .args(["-c", r#"trap '' HUP; exec "$0" exec -a init -- sh -c 'echo up > "$1"; read w < "$2"' sh "$1" "$2""#])
        .arg(env!("CARGO_BIN_EXE_dlock"))
        .args([&ready, &go])
        .env("DLOCK_URL", database.url())
        .spawn();
    let mut nohup = nohup.expect("sh runs");
    heard(&ready);
    signal(nohup.id(), "HUP");
    tell(&go, "on");
    assert_eq!(nohup.wait().expect("ends").code(), Some(0));
}

#[test]
fn a_signal_that_was_ignored_at_the_start_does_not_end_the_waiting() {
    let database = shared(Flavour::MariaDb).database("signals");
    let stage = Stage::new();
    let (ready, go) = (stage.fifo("ready"), stage.fifo("go"));
    let holder = Dlock::on(&database, ["exec", "-a", "init", "--", "sh", "-c"])
        .arg(r#"echo up > "$1"; read word < "$2""#)
        .arg("sh")
        .arg(&ready)
        .arg(&go)
        .start();
    heard(&ready);
    let waiter = Command::new("sh")
        .args(["-c", r#"trap '' HUP; exec "$0" exec -a init -- true"#])
        .arg(env!("CARGO_BIN_EXE_dlock"))
        .env("DLOCK_URL", database.url())
        .stderr(Stdio::null())
        .spawn();
    let mut waiter = waiter.expect("sh runs");
    let mut admin = database.admin_conn();
    eventually("the waiter stands in line", || {
        let waiting: Option<u64> = admin
            .query_first("SELECT COUNT(*) FROM dlock_waiter")
            .expect("the table is there");
        waiting == Some(1)
    });
    signal(waiter.id(), "HUP");
    tell(&go, "on");
    holder.wait().expect(0, "", "");
    assert_eq!(waiter.wait().expect("ends").code(), Some(0));
}
