//! Tests of the reminders of a waiter, which contain the present holder. The first reminder follows after 30 s, so the
//! waiters of a test wait at the same time.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::cli_runner::{Dlock, Running};
use testkit::command::Stage;
use testkit::holder::{Holder, token};
use testkit::proxy::{Fault, Kind, Proxy, Request, error_packet};
use testkit::servers::{Database, Flavour, shared};
use testkit::terminal::Terminal;

use crate::faults::on_each;

/// Maximum time to handle an event while a read hangs. The read itself ends after the request timeout, which is 2 s.
const LIMIT: Duration = Duration::from_millis(1500);

/// Waits until `count` contenders wait on the server, which serves them in this order.
#[track_caller]
fn wait_for_waiters(database: &Database, count: u64) {
    let sessions = "information_schema.processlist WHERE db=DATABASE() AND state='User lock'";
    database.wait_until(format!("COUNT(*)={count} FROM {sessions}"));
}

/// Returns a waiter for `init` that is connected through `proxy`.
fn waiter(database: &Database, proxy: &Proxy) -> Dlock {
    Dlock::typed(&database.through(proxy.port()), "exec -a init -- echo ran")
}

/// Returns the first line of a waiter's output that contains the holder `second`.
#[track_caller]
fn reminder(waiter: &Running) -> String {
    let stderr = waiter.stderr_so_far();
    let line = stderr.lines().find(|line| line.contains("second"));
    line.expect("the reminder is a line").to_owned()
}

#[test]
fn reminder_contains_the_present_holder_and_costs_one_connection_and_one_statement() {
    on_each(|flavour| {
        let database = shared(flavour).database("reminders");
        let proxies = [Proxy::to(database.port), Proxy::to(database.port)];
        let first = Holder::on(&database, &["--holder", "first"]);
        let stage = Stage::new();
        let exec = Dlock::typed(&database, "exec -a init --holder second");
        let second = stage.launch(exec, r#"echo up > "$1"; read word < "$2""#);
        second.wait_for_output("; you are next");
        wait_for_waiters(&database, 1);
        let text = waiter(&database, &proxies[0]).start_until("; 1 ahead of you");
        wait_for_waiters(&database, 2);
        let json = waiter(&database, &proxies[1]);
        let json = json.env("DLOCK_OPT_LOG_FORMAT", "json").start();
        json.wait_for_output(r#""ahead":2"#);
        let mut terminal = Terminal::shell(&database);
        terminal.enters("$dlock exec -a init -- echo ran");
        terminal.sees("s for init: held by first, 3 ahead");
        assert_eq!(first.end().status, Some(3));
        assert_eq!(stage.told(), "up");

        text.wait_for_output(": init is held by second (token ");
        let line = reminder(&text);
        let start = "dlock: still waiting after ";
        let end = "; you are next; details: dlock status init";
        assert!(line.starts_with(start) && line.ends_with(end), "{line}");
        json.wait_for_output(r#""holder":"second""#);
        let line: Value = serde_json::from_str(&reminder(&json)).expect("the reminder is JSON");
        assert_eq!(line["event"], "waiting", "{line}");
        assert_eq!(line["ahead"], 1, "{line}");
        assert_eq!(line["holder_token"], token(&database), "{line}");
        assert!(line["expires_in_ms"].as_i64() > Some(0), "{line}");
        terminal.sees("s for init: held by second, 2 ahead");
        // The holder, the three waiters and this query have one session each.
        database.wait_until("COUNT(*)=5 FROM information_schema.processlist WHERE db=DATABASE()");
        for (waiter, proxy) in [text, json].into_iter().zip(proxies) {
            assert_eq!(waiter.wait_after("TERM").status, Some(143));
            // There may be hundreds of waiters, so a reminder must cost the server little.
            let sessions = proxy.sessions();
            let [_, read, ..] = sessions.as_slice() else {
                panic!("{} connections", sessions.len());
            };
            let [Request::Query(packet), Request::Quit] = read.requests.as_slice() else {
                panic!("{:?}", read.requests);
            };
            // The packet contains names and texts only as hexadecimal numbers.
            let is_one_statement = packet.starts_with("SELECT ") && !packet.contains(';');
            assert!(is_one_statement, "{packet}");
        }
        stage.let_go("on");
        assert_eq!(second.wait().status, Some(0));
        terminal.sees("ran\r\n");
    });
}

/// A holder `first`, and the proxy of a waiter whose read for a reminder fails.
struct Scene {
    database: Database,
    holder: Holder,
    proxy: Proxy,
}

impl Scene {
    fn start(flavour: Flavour) -> Self {
        let database = shared(flavour).database("reminders");
        Self {
            holder: Holder::on(&database, &["--holder", "first"]),
            proxy: Proxy::to(database.port),
            database,
        }
    }

    /// Starts a waiter, and returns it when it waits for the response to a read for a reminder. The read gets no
    /// response.
    fn reading(&self) -> Running {
        let waiter = waiter(&self.database, &self.proxy).start_until("; you are next");
        let read = self.proxy.next(Kind::Get, Fault::LoseRequest);
        read.wait();
        assert_eq!(self.proxy.connections(), 2);
        waiter
    }
}

fn read_that_hangs_delays_no_grant(scene: Scene) {
    let waiter = scene.reading();
    let happened_at = Instant::now();
    assert_eq!(scene.holder.end().status, Some(3));
    waiter.wait().expect(0, "ran\n", "init is held by first");
    assert!(happened_at.elapsed() < LIMIT);
}

fn read_that_hangs_delays_no_signal(scene: Scene) {
    let waiter = scene.reading();
    let happened_at = Instant::now();
    assert_eq!(waiter.wait_after("TERM").status, Some(143));
    assert!(happened_at.elapsed() < LIMIT);
    assert_eq!(scene.holder.end().status, Some(3));
}

fn read_without_a_response_delays_no_reminder(scene: Scene) {
    let waiter = scene.reading();
    waiter.wait_for_output("s ago, init was held by first (token ");
    // The connection of the waiter still works.
    assert_eq!(scene.holder.end().status, Some(3));
    let reminder = "dlock: still waiting after ";
    waiter.wait().expect(0, "ran\n", reminder);
}

/// The connections of a full server belong to contenders.
fn no_read_follows_a_read_for_which_the_server_had_no_connection(scene: Scene) {
    let mut terminal = Terminal::shell(&scene.database);
    let url = scene.database.url_through(scene.proxy.port());
    terminal.enters(&format!("DLOCK_URL={url} $dlock exec -a init -- echo ran"));
    terminal.sees("for init: held by first");
    let full = error_packet(1040, "Too many connections");
    scene.proxy.every(Kind::Get, Fault::Respond(full));
    // On a terminal, the state is read every 10 s.
    terminal.sees("waiting 25s for init: held by first");
    assert_eq!(scene.proxy.connections(), 2);
    assert_eq!(scene.holder.end().status, Some(3));
    terminal.sees("ran\r\n");
}

#[test]
fn read_that_fails_delays_neither_grant_nor_signal_nor_reminder_and_is_not_repeated() {
    let flavour = Flavour::of_this_test();
    let cases: [fn(Scene); 4] = [
        read_that_hangs_delays_no_grant,
        read_that_hangs_delays_no_signal,
        read_without_a_response_delays_no_reminder,
        no_read_follows_a_read_for_which_the_server_had_no_connection,
    ];
    let scenes = cases.map(|case| (case, Scene::start(flavour)));
    thread::scope(|scope| {
        for (case, scene) in scenes {
            scope.spawn(move || case(scene));
        }
    });
}
