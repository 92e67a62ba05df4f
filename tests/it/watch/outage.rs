//! A server that goes away and comes back while somebody watches.

use super::{Screen, thirty};
use crate::dlock::Dlock;
use crate::proxy::{Door, Fault, Flow, Kind, Proxy, Request};
use crate::servers::{Database, Flavour, shared};

/// A database with thirty actions behind a proxy.
fn behind(flavour: Flavour) -> (Database, Proxy, String) {
    let server = shared(flavour);
    let database = server.database("watch");
    thirty(&database);
    let proxy = Proxy::to(server.port());
    let url = database.url_through(proxy.port());
    (database, proxy, url)
}

fn screen(database: &Database, url: &str) -> Screen {
    Screen::with(database, &[&format!("DLOCK_URL={url}")], &[])
}

#[test]
fn the_screen_stays_says_why_and_comes_back_by_itself() {
    for flavour in Flavour::ALL {
        let (database, proxy, url) = behind(flavour);
        let mut screen = screen(&database, &url);
        screen.shows("> größe");
        screen.types("j");
        proxy.door(Door::Refused);
        proxy.reset();
        screen.shows("no answer for ");
        screen.shows("cannot reach 127.0.0.1:");
        screen.shows(", shown is what was ");
        screen.shows("> init");
        screen.types("G");
        screen.shows("> tenant-27");
        proxy.door(Door::Open);
        screen.hides("no answer");
        screen.shows("> tenant-27");
        screen.types("q");
        screen.ends_with(0);
    }
}

#[test]
fn keys_work_while_the_server_says_nothing() {
    let (database, proxy, url) = behind(Flavour::MariaDb);
    let mut screen = screen(&database, &url);
    screen.shows("> größe");
    proxy.replies(Flow::Hold);
    proxy.wait_asked(Kind::Look, proxy.asked(Kind::Look) + 1);
    screen.types("j");
    screen.shows("> init");
    screen.shows("no answer in time");
    screen.types("q");
    screen.ends_with(0);
    proxy.replies(Flow::Pass);
}

#[test]
fn all_questions_go_over_one_connection_which_ends_properly() {
    for flavour in Flavour::ALL {
        let (database, proxy, url) = behind(flavour);
        let mut often = screen(&database, &url);
        proxy.wait_asked(Kind::Look, 5);
        often.types("q");
        often.ends_with(0);
        // No question is open when it ends.
        let environment = [&*format!("DLOCK_URL={url}")];
        let mut once = Screen::with(&database, &environment, &["--watch=1h"]);
        once.shows("> größe");
        once.types("q");
        once.ends_with(0);
        let sessions = proxy.sessions();
        let [often, once] = sessions.as_slice() else {
            panic!("{} connections", sessions.len());
        };
        let looks = |request: &Request| request.kind() == Some(Kind::Look);
        let looked = often.requests.iter().filter(|request| looks(request));
        assert!(looked.count() >= 5, "{flavour}");
        let [look, Request::Quit] = once.requests.as_slice() else {
            panic!("{flavour}: {:?}", once.requests);
        };
        assert!(looks(look), "{flavour}: {look:?}");
    }
}

#[test]
fn a_connection_that_was_closed_is_made_anew_without_a_word() {
    let (database, proxy, url) = behind(Flavour::MariaDb);
    let mut screen = screen(&database, &url);
    screen.shows("> größe");
    proxy.close();
    proxy.wait_connections(2);
    proxy.wait_asked(Kind::Look, proxy.asked(Kind::Look) + 2);
    screen.types("q");
    screen.ends_with(0);
    let said = screen.terminal.screen();
    assert!(!said.contains("no answer"), "{said}");
}

#[test]
fn a_reply_that_the_driver_cannot_read_leaves_the_screen_up() {
    let (database, proxy, url) = behind(Flavour::MariaDb);
    let mut screen = screen(&database, &url);
    screen.shows("> größe");
    // An empty packet, on which the driver panics.
    let case = proxy.every(Kind::Look, Fault::Answer(vec![0, 0, 0, 1]));
    screen.shows("the driver could not read");
    assert!(screen.look().alternate_screen());
    case.lift();
    screen.hides("the driver could not read");
    screen.types("q");
    screen.ends_with(0);
}

#[test]
fn a_server_that_never_answered_is_an_error_as_without_watch() {
    let (database, proxy, url) = behind(Flavour::MariaDb);
    let watch = |url: &str| {
        Dlock::new(["status", "--watch"])
            .env("DLOCK_URL", url)
            .run()
    };
    proxy.door(Door::Refused);
    watch(&url).expect(69, "", "cannot reach");
    proxy.door(Door::Open);
    let wrong = url.replace(&database.password, "wrong");
    watch(&wrong).expect(77, "", "check the account");
    let empty = shared(Flavour::MariaDb).database("watch");
    watch(&empty.url()).expect(78, "", "dlock setup");
    let mut screen = Screen::with(&empty, &[], &[]);
    assert_eq!(screen.terminal.ends(), Some(78));
    assert!(!screen.terminal.screen().contains('\x1b'));
}
