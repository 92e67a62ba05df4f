//! Tests of the release of an action on the screen.

use mysql::prelude::Queryable;
use testkit::cli_runner::Dlock;
use testkit::proxy::{Flow, Proxy};
use testkit::servers::{Database, Flavour, shared};

use super::Screen;
use crate::history::{endings, runs};
use crate::tree::{Holder, LEFT};

const ENTER: &str = "\r";
const ESCAPE: &str = "\x1b";

/// Creates a database with the tables of dlock.
fn database(flavour: Flavour) -> Database {
    let database = shared(flavour).database("watch");
    Dlock::on(&database, ["setup", "-q"])
        .run()
        .expect(0, "", "");
    database
}

fn token(database: &Database) -> u64 {
    let token = "SELECT token FROM dlock_lock WHERE action='init'";
    let found = database.admin_conn().query_first(token);
    found.expect("the table can be read").expect("a row exists")
}

#[test]
fn release_on_the_screen_ends_the_run_of_the_holder() {
    let database = database(Flavour::of_this_test());
    // The next renewal is due in twenty seconds, so the holder must be woken.
    let holder = Holder::start(&database, &["--ttl", "1m", "--grace", "1s", "--note", "v2"]);
    let before = token(&database);
    let mut screen = Screen::watch(&database, &["--operator", "alice"]);
    screen.selects("init");
    screen.types("r");
    screen.shows("reason (optional): _");
    screen.shows("v2");
    screen.types("it hangs");
    screen.shows("reason (optional): it hangs_");
    screen.types(ENTER);
    screen.shows("release init? [y/N]");
    screen.shows(&format!("with token {before}"));
    screen.types("y");
    screen.shows("init is released: ");
    screen.shows("stops its command now");
    let outcome = holder.running.wait();
    outcome.expect(76, "", "lost init: released by alice (reason: it hangs)");
    screen.types("q");
    screen.ends_with(0);
    assert!(token(&database) > before);
    let runs = runs(&database, &[]);
    assert_eq!(endings(&runs), [("revoked", None), ("released", None)]);
    assert_eq!(runs[1]["holder"], "alice");
    assert_eq!(runs[1]["note"], "it hangs");
}

#[test]
fn escape_cancels_each_step_of_a_release() {
    let database = database(Flavour::of_this_test());
    let holder = Holder::start(&database, &[]);
    let before = token(&database);
    let mut screen = Screen::watch(&database, &[]);
    screen.selects("init");
    for (keys, question) in [
        ("ry", "reason (optional): y_"),
        ("r\r", "release init? [y/N]"),
    ] {
        screen.types(keys);
        screen.shows(question);
        screen.types(ESCAPE);
        screen.shows("init is unchanged");
    }
    screen.types("q");
    screen.ends_with(0);
    assert_eq!(token(&database), before);
    holder.let_go();
    holder.running.wait().expect(4, "", LEFT);
}

#[test]
fn release_does_not_affect_a_later_holder() {
    let database = database(Flavour::of_this_test());
    let first = Holder::start(&database, &[]);
    let mut screen = Screen::watch(&database, &[]);
    screen.selects("init");
    screen.types("r\r");
    screen.shows("release init? [y/N]");
    first.let_go();
    first.running.wait().expect(4, "", LEFT);
    let second = Holder::start(&database, &[]);
    let before = token(&database);
    screen.shows("has changed since then");
    screen.types("y");
    screen.shows("init has changed, so nothing was done");
    screen.types("q");
    screen.ends_with(0);
    assert_eq!(token(&database), before);
    second.let_go();
    second.running.wait().expect(4, "", LEFT);
}

#[test]
fn keys_work_while_a_release_has_no_response() {
    let database = database(Flavour::MariaDb);
    let proxy = Proxy::to(shared(Flavour::MariaDb).port());
    let url = format!("DLOCK_URL={}", database.url_through(proxy.port()));
    let holder = Holder::start(&database, &[]);
    let before = token(&database);
    let mut screen = Screen::with(&database, &[&url], &[]);
    screen.selects("init");
    screen.types("r\r");
    screen.shows("release init? [y/N]");
    proxy.responses(Flow::Lose);
    screen.types("y");
    screen.shows("releasing init");
    screen.types(ENTER);
    screen.shows("init: held");
    screen.shows("cannot confirm the release of init: ");
    proxy.responses(Flow::Pass);
    screen.hides("stale");
    screen.types(ESCAPE);
    screen.selects("init");
    screen.types("q");
    screen.ends_with(0);
    // dlock could not connect, so it has not sent the request.
    assert_eq!(token(&database), before);
    holder.let_go();
    holder.running.wait().expect(4, "", LEFT);
}
