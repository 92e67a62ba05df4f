//! Tests of the release of an action on the screen.

use testkit::holder::{Holder, token};
use testkit::proxy::{Flow, Proxy};
use testkit::servers::{Flavour, shared};

use super::{ENTER, ESCAPE, Screen};
use crate::history::{endings, runs};

#[test]
fn release_on_the_screen_ends_the_run_of_the_holder() {
    let database = shared(Flavour::of_this_test()).database("watch");
    // The next renewal is due in ten seconds, so the holder must be woken.
    let holder = Holder::on(&database, &["--ttl=1m", "--note=v2"]);
    let before = token(&database);
    let mut screen = Screen::watch(&database, &["--operator", "alice"]);
    screen.selects("init");
    screen.types("r").shows("reason (optional): _").shows("v2");
    screen.types("it hangs");
    screen.shows("reason (optional): it hangs_");
    screen.types(ENTER).shows("release init? [y/N]");
    screen.shows(&format!("with token {before}"));
    screen.types("y").shows("init is released: ");
    screen.shows("stops its command now");
    let outcome = holder.running.wait();
    let message = "dlock: lost init: released by alice (reason: it hangs); stopping the command \
         (exit status 76; see dlock explain 76)\n";
    assert_eq!((outcome.status, &*outcome.stderr), (Some(76), message));
    screen.types("q").ends_with(0);
    assert!(token(&database) > before);
    let runs = runs(&database, &[]);
    assert_eq!(endings(&runs), [("revoked", None), ("released", None)]);
    assert_eq!(runs[1]["holder"], "alice");
    assert_eq!(runs[1]["note"], "it hangs");
}

#[test]
fn escape_cancels_each_step_of_a_release_and_a_later_holder_is_not_affected() {
    let database = shared(Flavour::of_this_test()).database("watch");
    let first = Holder::on(&database, &[]);
    let before = token(&database);
    let mut screen = Screen::watch(&database, &[]);
    screen.selects("init");
    for (keys, question) in [
        ("ry", "reason (optional): y_"),
        ("r\r", "release init? [y/N]"),
    ] {
        screen.types(keys).shows(question);
        screen.types(ESCAPE).shows("init is unchanged");
    }
    screen.types("r\r").shows("release init? [y/N]");
    assert_eq!(token(&database), before);
    assert_eq!(first.end().status, Some(3));
    let second = Holder::on(&database, &[]);
    let before = token(&database);
    screen.shows("has changed since then").types("y");
    screen.shows("init has changed, so nothing was done");
    screen.types("q").ends_with(0);
    assert_eq!(token(&database), before);
    assert_eq!(second.end().status, Some(3));
}

#[test]
fn keys_work_while_a_release_has_no_response() {
    let database = shared(Flavour::of_this_test()).database("watch");
    let proxy = Proxy::to(database.port);
    let holder = Holder::on(&database, &[]);
    let before = token(&database);
    let mut screen = Screen::watch(&database.through(proxy.port()), &[]);
    screen.selects("init");
    screen.types("r\r").shows("release init? [y/N]");
    proxy.responses(Flow::Lose);
    screen.types("y").shows("releasing init");
    screen.types(ENTER).shows("init: held");
    screen.shows("cannot confirm the release of init: ");
    proxy.responses(Flow::Pass);
    screen.hides("stale").types(ESCAPE).selects("init");
    screen.types("q").ends_with(0);
    // dlock could not connect, so it has not sent the request.
    assert_eq!(token(&database), before);
    assert_eq!(holder.end().status, Some(3));
}
