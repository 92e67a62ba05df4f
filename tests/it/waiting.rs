//! Tests of waiters: how long a waiter waits, which messages it prints, also on a terminal, and how it exits.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use testkit::cli_runner::Dlock;
use testkit::holder::Holder;
use testkit::on_each_flavour;
use testkit::proxy::{Fault, Kind, Proxy};
use testkit::servers::{Database, Flavour, shared};
use testkit::sql::Sql;
use testkit::terminal::Terminal;

fn echo(database: &Database, options: &[&str]) -> Dlock {
    Dlock::on(database, ["exec", "-a", "init"])
        .args(options)
        .args(["--", "echo", "ran"])
}

#[test]
fn contender_that_does_not_wait_prints_the_holder() {
    let database = shared(Flavour::of_this_test()).database("waiting");
    let options = ["--holder", "the holder", "--note", "release 42"];
    let holder = Holder::on(&database, &options);
    let why = "init is held by the holder (token ";
    for (options, status, why) in [
        (&["-n"][..], 75, why),
        (&["--wait", "0"], 75, why),
        (&["--wait", "200ms"], 75, why),
        (&["--wait=0.2s", "-q"], 75, why),
        (&["-n", "-E", "7"], 7, why),
        (&["-n", "-E", "0"], 0, why),
        (&["-n", "-E", "0", "-q"], 0, ""),
    ] {
        let outcome = echo(&database, options).expect(status, "", why);
        let has_note = outcome.stderr.contains("release 42");
        assert_eq!(has_note, !why.is_empty(), "{outcome:?}");
    }
    assert_eq!(holder.end().status, Some(3));
    echo(&database, &["-n"]).expect(0, "ran\n", "");
}

on_each_flavour!(new_contender_takes_over_an_expired_lease_immediately);
fn new_contender_takes_over_an_expired_lease_immediately(flavour: Flavour) {
    let database = shared(flavour).database("waiting");
    let holder = Holder::on(&database, &["--ttl=5m"]);
    holder.running.crash();
    let mut admin = database.admin_conn();
    let user = &database.user;
    let condition = format!("COUNT(*)=0 FROM information_schema.processlist WHERE user='{user}'");
    admin.wait_until(condition);
    // The lease has not expired.
    let contender = || echo(&database, &["-n"]).run();
    contender().expect(75, "", "init is held by");
    admin.run("UPDATE dlock_lock SET expires_at=UTC_TIMESTAMP(6)-INTERVAL 1 SECOND");
    // On a slow network, the contender allows more time for the request that takes the lease over.
    let proxy = Proxy::to(database.port);
    let delayed = |millis| {
        let delay = Duration::from_millis(millis);
        let alter = move |response: &[u8]| {
            thread::sleep(delay);
            response.to_vec()
        };
        proxy.next(Kind::TryAcquire, Fault::Alter(Arc::new(alter)))
    };
    let _cases = [1_000, 500].map(delayed);
    let options = ["-nq", "--server-sessions=ignore"];
    echo(&database.through(proxy.port()), &options).expect(0, "ran\n", "");
}

const ERASE: &str = "\r\x1b[K";

/// A label that does not fit into 40 columns.
const LABEL: &str = "a holder whose label is longer than 40 columns";

#[test]
fn waiter_in_the_foreground_rewrites_one_line_that_fits_the_terminal() {
    let database = shared(Flavour::of_this_test()).database("line");
    let holder = Holder::on(&database, &["--holder", LABEL]);
    let mut terminal = Terminal::shell(&database);
    terminal.becomes(40, 24);
    terminal.enters("$dlock exec -a init -- echo r''an &");
    terminal.prompts();
    // The user runs a command for longer than the pause between two lines.
    terminal.enters("sleep 2; echo sl''ept").sees("slept");
    let screen = terminal.screen();
    assert!(!screen.contains("dlock: ") && !screen.contains(ERASE));
    terminal.enters("fg");
    for _ in 0..2 {
        terminal.sees(&format!("{ERASE}dlock: waiting "));
    }
    // The last text may not be complete yet.
    terminal.sees(ERASE);
    let screen = terminal.screen().to_owned();
    let mut texts: Vec<&str> = screen.split(ERASE).skip(1).collect();
    texts.pop();
    for text in texts {
        assert_eq!(text.chars().count(), 39, "{text:?}");
        assert!(text.ends_with('…') && !text.contains('\n'), "{text:?}");
    }
    terminal.becomes(120, 24);
    terminal.sees(&format!("s for init: held by {LABEL}{ERASE}"));
    assert_eq!(holder.end().status, Some(3));
    terminal.sees(&format!("{ERASE}ran\r\n"));
}
