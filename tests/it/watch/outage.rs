//! Tests of `--watch` while the server fails and recovers.

use std::time::Duration;

use testkit::cli_runner::Dlock;
use testkit::proxy::{AcceptMode, Fault, Flow, Kind, Proxy, Request};
use testkit::servers::{Database, Flavour, shared};

use super::{Screen, thirty_actions};

/// Starts a screen with thirty actions that is connected through the returned proxy.
fn screen(database: &Database, options: &[&str]) -> (Proxy, Screen) {
    let proxy = Proxy::to(database.port);
    let mut screen = Screen::watch(&database.through(proxy.port()), options);
    screen.selects("größe");
    (proxy, screen)
}

#[test]
fn screen_keeps_its_contents_during_an_outage_and_recovers() {
    let (proxy, mut screen) = screen(&thirty_actions(), &[]);
    // A closed connection is replaced without a message.
    proxy.close();
    proxy.wait_connections(2);
    proxy.wait_asked(Kind::Get, proxy.asked(Kind::Get) + 2);
    assert_eq!(proxy.connections(), 2, "a connection for several requests");
    let shown = screen.terminal.screen();
    assert!(!shown.contains("stale"), "{shown}");
    // The driver panics on an empty packet.
    let case = proxy.every(Kind::Get, Fault::Respond(vec![0, 0, 0, 1]));
    screen.shows("the driver could not read");
    assert!(screen.current().alternate_screen());
    case.lift();
    screen.hides("the driver could not read");
    screen.types("j").selects("init");
    proxy.door(AcceptMode::Refused);
    proxy.reset();
    screen.shows("stale: no response for ");
    screen.shows("; showing the state of ");
    screen.shows("cannot reach 127.0.0.1:").selects("init");
    screen.types("G").selects("tenant-27");
    proxy.door(AcceptMode::Open);
    screen.hides("stale").selects("tenant-27");
    // The user quits while the server does not respond.
    proxy.responses(Flow::Hold);
    screen.shows("stale: no response for ");
    screen.shows("no response from 127.0.0.1:");
    screen.types("q").ends_with(0);
}

#[test]
fn silent_connection_marks_the_data_as_stale_before_the_request_fails() {
    let database = thirty_actions();
    // Each byte restarts the driver's time limit of a read.
    for flow in [Flow::Lose, Flow::Drip(Duration::from_secs(1))] {
        let (proxy, mut screen) = screen(&database, &[]);
        screen.shows("5d 1h");
        proxy.responses(flow);
        screen.shows("stale: no response for ").shows(" UTC");
        screen.hides("5d 1h").types("j").selects("init");
        // The connection is dropped, and the reason is added to the message.
        screen.shows("no response from 127.0.0.1:");
        proxy.wait_connections(2);
        let written = String::from_utf8_lossy(screen.terminal.written()).into_owned();
        let is_early = |age| written.contains(&format!("stale: no response for {age}s"));
        assert!(is_early(2) || is_early(3), "{flow:?}: {written}");
        proxy.responses(Flow::Pass);
        screen.hides("stale").selects("init");
        screen.types("q").ends_with(0);
    }
}

#[test]
fn connection_is_closed_with_quit() {
    // The interval is one hour, so no request is in flight when dlock exits.
    let (proxy, mut hourly) = screen(&thirty_actions(), &["--watch=1h"]);
    hourly.types("q").ends_with(0);
    let request = Request::Query(proxy.only_query());
    assert_eq!(request.kind(), Some(Kind::Get), "{request:?}");
}

#[test]
fn watch_fails_like_status_if_its_first_request_fails() {
    let empty = shared(Flavour::of_this_test()).database("watch");
    let wrong = empty.url().replace(&empty.password, "wrong");
    for (url, status, why) in [
        ("mysql://u@127.0.0.1:1/d", 69, "cannot reach"),
        (&wrong, 77, "check the account"),
        (&empty.url(), 78, "dlock setup"),
    ] {
        let watch = Dlock::new(["status", "--watch"]).env("DLOCK_URL", url);
        watch.expect(status, "", why);
    }
    let mut screen = Screen::with(&empty, &[], &[]);
    assert_eq!(screen.terminal.ends(), Some(78));
    assert!(!screen.terminal.screen().contains('\x1b'));
}
