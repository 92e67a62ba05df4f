//! Tests of `--watch` while the server fails and recovers.

use std::time::Duration;

use testkit::cli_runner::Dlock;
use testkit::proxy::{AcceptMode, Fault, Flow, Kind, Proxy, Request};
use testkit::servers::{Database, Flavour, shared};

use super::{Screen, create_thirty_actions};

/// Creates a database with thirty actions and a proxy to its server. Returns the database, the proxy, and the URL of
/// the database through the proxy.
fn behind_proxy(flavour: Flavour) -> (Database, Proxy, String) {
    let server = shared(flavour);
    let database = server.database("watch");
    create_thirty_actions(&database);
    let proxy = Proxy::to(server.port());
    let url = database.url_through(proxy.port());
    (database, proxy, url)
}

fn screen(database: &Database, url: &str) -> Screen {
    Screen::with(database, &[&format!("DLOCK_URL={url}")], &[])
}

#[test]
fn screen_keeps_its_contents_during_an_outage_and_recovers() {
    let (database, proxy, url) = behind_proxy(Flavour::of_this_test());
    let mut screen = screen(&database, &url);
    screen.selects("größe");
    screen.types("j");
    proxy.door(AcceptMode::Refused);
    proxy.reset();
    screen.shows("stale: no response for ");
    screen.shows("; showing the state of ");
    screen.shows("cannot reach 127.0.0.1:");
    screen.selects("init");
    screen.types("G");
    screen.selects("tenant-27");
    proxy.door(AcceptMode::Open);
    screen.hides("stale");
    screen.selects("tenant-27");
    screen.types("q");
    screen.ends_with(0);
}

#[test]
fn keys_work_while_the_server_does_not_respond() {
    let (database, proxy, url) = behind_proxy(Flavour::MariaDb);
    let mut screen = screen(&database, &url);
    screen.selects("größe");
    proxy.responses(Flow::Hold);
    screen.shows("stale: no response for ");
    screen.types("j");
    screen.selects("init");
    screen.shows("no response from 127.0.0.1:");
    screen.types("q");
    screen.ends_with(0);
    proxy.responses(Flow::Pass);
}

#[test]
fn silent_connection_marks_the_data_as_stale_before_the_request_fails() {
    let cases = [
        (Flavour::MariaDb, Flow::Lose),
        (Flavour::MySql, Flow::Lose),
        // Each byte restarts the driver's time limit of a read.
        (Flavour::MySql, Flow::Drip(Duration::from_secs(1))),
    ];
    for (flavour, flow) in cases {
        let (database, proxy, url) = behind_proxy(flavour);
        let mut screen = screen(&database, &url);
        screen.selects("größe");
        screen.shows("5d 1h");
        proxy.responses(flow);
        screen.shows("stale: no response for ");
        screen.shows(" UTC");
        screen.hides("5d 1h");
        screen.types("j");
        screen.selects("init");
        // The connection is dropped, and the reason is added to the message.
        screen.shows("no response from 127.0.0.1:");
        proxy.wait_connections(2);
        let written = String::from_utf8_lossy(screen.terminal.written()).into_owned();
        let is_early = |age| written.contains(&format!("stale: no response for {age}s"));
        assert!(is_early(2) || is_early(3), "{flavour} {flow:?}: {written}");
        proxy.responses(Flow::Pass);
        screen.hides("stale");
        screen.selects("init");
        screen.types("q");
        screen.ends_with(0);
    }
}

#[test]
fn all_requests_use_one_connection_that_is_closed_with_quit() {
    let flavour = Flavour::of_this_test();
    let (database, proxy, url) = behind_proxy(flavour);
    let mut frequent = screen(&database, &url);
    proxy.wait_asked(Kind::Get, 5);
    frequent.types("q");
    frequent.ends_with(0);
    // The interval is one hour, so no request is in flight when dlock exits.
    let environment = [&*format!("DLOCK_URL={url}")];
    let mut hourly = Screen::with(&database, &environment, &["--watch=1h"]);
    hourly.selects("größe");
    hourly.types("q");
    hourly.ends_with(0);
    let sessions = proxy.sessions();
    let [frequent, hourly] = sessions.as_slice() else {
        panic!("{} connections", sessions.len());
    };
    let is_snapshot = |request: &Request| request.kind() == Some(Kind::Get);
    let snapshots = frequent
        .requests
        .iter()
        .filter(|request| is_snapshot(request));
    assert!(snapshots.count() >= 5, "{flavour}");
    let [request, Request::Quit] = hourly.requests.as_slice() else {
        panic!("{flavour}: {:?}", hourly.requests);
    };
    assert!(is_snapshot(request), "{flavour}: {request:?}");
}

#[test]
fn closed_connection_is_replaced_without_a_message() {
    let (database, proxy, url) = behind_proxy(Flavour::MariaDb);
    let mut screen = screen(&database, &url);
    screen.selects("größe");
    proxy.close();
    proxy.wait_connections(2);
    proxy.wait_asked(Kind::Get, proxy.asked(Kind::Get) + 2);
    screen.types("q");
    screen.ends_with(0);
    let shown = screen.terminal.screen();
    assert!(!shown.contains("stale"), "{shown}");
}

#[test]
fn response_that_the_driver_cannot_parse_keeps_the_screen() {
    let (database, proxy, url) = behind_proxy(Flavour::MariaDb);
    let mut screen = screen(&database, &url);
    screen.selects("größe");
    // The driver panics on an empty packet.
    let case = proxy.every(Kind::Get, Fault::Respond(vec![0, 0, 0, 1]));
    screen.shows("the driver could not read");
    assert!(screen.current().alternate_screen());
    case.lift();
    screen.hides("the driver could not read");
    screen.types("q");
    screen.ends_with(0);
}

#[test]
fn watch_fails_like_status_if_its_first_request_fails() {
    let (database, proxy, url) = behind_proxy(Flavour::MariaDb);
    let watch = |url: &str| {
        Dlock::new(["status", "--watch"])
            .env("DLOCK_URL", url)
            .run()
    };
    proxy.door(AcceptMode::Refused);
    watch(&url).expect(69, "", "cannot reach");
    proxy.door(AcceptMode::Open);
    let wrong = url.replace(&database.password, "wrong");
    watch(&wrong).expect(77, "", "check the account");
    let empty = shared(Flavour::MariaDb).database("watch");
    watch(&empty.url()).expect(78, "", "dlock setup");
    let mut screen = Screen::with(&empty, &[], &[]);
    assert_eq!(screen.terminal.ends(), Some(78));
    assert!(!screen.terminal.screen().contains('\x1b'));
}
