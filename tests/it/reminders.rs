//! Tests of the reminders of a waiter, which contain the present holder. The first reminder follows after 30 s, so the
//! waiters of a test wait at the same time.

use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use serde_json::Value;
use testkit::cli_runner::{Dlock, Running, eventually};
use testkit::command::{Stage, read_message, write_message};
use testkit::holder::{Holder, token};
use testkit::proxy::{Fault, Kind, Request, error_packet};
use testkit::servers::{Database, shared};
use testkit::terminal::Terminal;

use crate::faults::{Scene, on_each, on_each_case};

/// Maximum time to handle an event while a read hangs. The read itself ends after the request timeout, which is 2 s.
const LIMIT: Duration = Duration::from_millis(1500);

/// Waits until `count` contenders wait on the server, which serves them in this order.
#[track_caller]
fn wait_for_waiters(database: &Database, count: u64) {
    let mut admin = database.admin_conn();
    let query = "SELECT COUNT(*) FROM information_schema.processlist \
         WHERE db=DATABASE() AND state='User lock'";
    eventually("the contenders wait on the server", || {
        let waiting: Option<u64> = admin.query_first(query).expect("the list can be read");
        waiting == Some(count)
    });
}

/// Returns a waiter with the options `options`.
fn waiter(database: &Database, options: &[&str]) -> Dlock {
    Dlock::on(database, ["exec", "-a", "init"])
        .args(options)
        .args(["--", "echo", "ran"])
}

#[test]
fn reminder_contains_the_present_holder_and_position() {
    on_each(|flavour| {
        let database = shared(flavour).database("reminders");
        let first = Holder::on(&database, &["--holder", "first"]);
        let stage = Stage::new();
        let (ready, go) = (stage.fifo("ready"), stage.fifo("go"));
        let second = Dlock::on(&database, ["exec", "-a", "init", "--holder", "second"])
            .args(["--", "sh", "-c"])
            .arg(r#"echo up > "$1"; read word < "$2""#)
            .arg("sh")
            .args([&ready, &go])
            .start();
        second.wait_for_output("; you are next");
        wait_for_waiters(&database, 1);
        let text = waiter(&database, &[]).start();
        text.wait_for_output("; 1 ahead of you");
        wait_for_waiters(&database, 2);
        let json = waiter(&database, &["--log-format", "json"]).start();
        json.wait_for_output(r#""ahead":2"#);
        let mut terminal = Terminal::shell(&database);
        terminal.enters("$dlock exec -a init -- echo ran");
        terminal.sees("s for init: held by first, 3 ahead");
        assert_eq!(first.end().status, Some(3));
        assert_eq!(read_message(&ready), "up");

        text.wait_for_output(": init is held by second (token ");
        let stderr = text.stderr_so_far();
        let reminder = stderr.lines().find(|line| line.contains("second"));
        let reminder = reminder.expect("the reminder is a line");
        assert!(
            reminder.starts_with("dlock: still waiting after ")
                && reminder.ends_with("; you are next; details: dlock status init"),
            "{reminder}"
        );
        json.wait_for_output(r#""holder":"second""#);
        let stderr = json.stderr_so_far();
        let reminder = stderr.lines().find(|line| line.contains("second"));
        let reminder: Value = serde_json::from_str(reminder.expect("the reminder is a line"))
            .expect("the reminder is JSON");
        assert_eq!(reminder["event"], "waiting", "{reminder}");
        assert_eq!(reminder["ahead"], 1, "{reminder}");
        assert_eq!(reminder["holder_token"], token(&database), "{reminder}");
        let expires_in = reminder["expires_in_ms"].as_i64();
        assert!(expires_in > Some(0), "{reminder}");
        terminal.sees("s for init: held by second, 2 ahead");
        // The holder, the three waiters and this query have one session each.
        let mut admin = database.admin_conn();
        eventually("the connections of the reads are closed", || {
            let query = "SELECT COUNT(*) FROM information_schema.processlist WHERE db=DATABASE()";
            let sessions: Option<u64> = admin
                .query_first(query)
                .expect("the process list can be read");
            sessions == Some(5)
        });
        for waiter in [text, json] {
            waiter.signal("TERM");
            assert_eq!(waiter.wait().status, Some(143));
        }
        write_message(&go, "on");
        assert_eq!(second.wait().status, Some(0));
        terminal.sees("ran\r\n");
    });
}

/// An event that a waiter must handle while a read for a reminder hangs.
#[derive(Clone, Copy)]
enum Happening {
    Grant,
    Signal,
    /// The request timeout.
    Nothing,
}

#[test]
fn read_that_hangs_delays_neither_grant_nor_signal_nor_reminder() {
    let cases = [
        ("grant", Happening::Grant),
        ("signal", Happening::Signal),
        ("reminder", Happening::Nothing),
    ];
    on_each_case(&cases, |scene, _, happening| {
        let holder = Holder::on(&scene.database, &["--holder", "first"]);
        let waiter = reading(scene);
        let happened_at = Instant::now();
        match happening {
            Happening::Grant => {
                assert_eq!(holder.end().status, Some(3));
                waiter.wait().expect(0, "ran\n", "init is held by first");
                assert!(happened_at.elapsed() < LIMIT);
            }
            Happening::Signal => {
                waiter.signal("TERM");
                assert_eq!(waiter.wait().status, Some(143));
                assert!(happened_at.elapsed() < LIMIT);
                assert_eq!(holder.end().status, Some(3));
            }
            Happening::Nothing => {
                waiter.wait_for_output("s ago, init was held by first (token ");
                // The connection of the waiter still works.
                assert_eq!(holder.end().status, Some(3));
                waiter
                    .wait()
                    .expect(0, "ran\n", "dlock: still waiting after ");
            }
        }
    });
}

/// Starts a waiter that is connected through the proxy, and returns it when it waits for the response to a read for a
/// reminder. The read gets no response.
fn reading(scene: &Scene) -> Running {
    let waiter = waiter(&scene.database, &[])
        .env("DLOCK_URL", scene.database.url_through(scene.proxy.port()))
        .start();
    waiter.wait_for_output("; you are next");
    let read = scene.proxy.next(Kind::Get, Fault::LoseRequest);
    read.wait();
    assert_eq!(scene.proxy.connections(), 2);
    waiter
}

/// There may be hundreds of waiters, so a reminder must cost the server little.
#[test]
fn reminder_costs_one_connection_and_one_statement() {
    on_each(|flavour| {
        let scene = Scene::new(flavour);
        let holder = Holder::on(&scene.database, &["--holder", "first"]);
        let waiter = waiter(&scene.database, &[])
            .env("DLOCK_URL", scene.database.url_through(scene.proxy.port()))
            .start();
        waiter.wait_for_output("dlock: still waiting after ");
        assert_eq!(holder.end().status, Some(3));
        waiter.wait().expect(0, "ran\n", "still waiting after ");
        let sessions = scene.proxy.sessions();
        // After the grant, the waiter also checks its address.
        let [_, read, ..] = sessions.as_slice() else {
            panic!("{} connections", sessions.len());
        };
        let [Request::Query(packet), Request::Quit] = read.requests.as_slice() else {
            panic!("{:?}", read.requests);
        };
        // The packet contains names and texts only as hexadecimal numbers.
        assert!(
            packet.starts_with("SELECT ") && !packet.contains(';'),
            "{packet}"
        );
    });
}

/// The connections of a full server belong to contenders.
#[test]
fn no_read_follows_a_read_for_which_the_server_had_no_connection() {
    on_each(|flavour| {
        let scene = Scene::new(flavour);
        let holder = Holder::on(&scene.database, &["--holder", "first"]);
        let mut terminal = Terminal::shell(&scene.database);
        let url = scene.database.url_through(scene.proxy.port());
        terminal.enters(&format!("DLOCK_URL={url} $dlock exec -a init -- echo ran"));
        terminal.sees("for init: held by first");
        let full = error_packet(1040, "Too many connections");
        scene.proxy.every(Kind::Get, Fault::Respond(full));
        // On a terminal, the state is read every 10 s.
        terminal.sees("waiting 25s for init: held by first");
        assert_eq!(scene.proxy.connections(), 2);
        assert_eq!(holder.end().status, Some(3));
        terminal.sees("ran\r\n");
    });
}
