//! Tests that messages report what has happened: no wrong cause, no wrong next step, and one message for one event.

use std::fs;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use testkit::cli_runner::{Dlock, Outcome};
use testkit::command::Stage;
use testkit::compiler::preload;
use testkit::holder::Holder;
use testkit::servers::{Database, Flavour, shared};

use crate::slow_reader::RESOLVER;

fn release(database: &Database, options: &[&str]) -> Outcome {
    Dlock::on(database, ["release", "-a", "init", "--yes"])
        .args(options)
        .run()
}

#[test]
fn released_holder_reads_one_message() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("true_messages");
    let holder = Holder::on(&database, &["--holder=web-1"]);
    let released = release(&database, &["--operator=eve", "--reason=stuck"]);
    assert_eq!(released.status, Some(0), "{flavour}: {released:#?}");
    let outcome = holder.running.wait();
    assert_eq!(outcome.status, Some(76), "{flavour}: {outcome:#?}");
    let message = "dlock: lost init: released by eve (reason: stuck); stopping the command \
         (exit status 76; see dlock explain 76)\n";
    assert_eq!(outcome.stderr, message, "{flavour}");
}

#[test]
fn nobody_is_next_while_the_action_is_paused() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("true_messages");
    Dlock::on(&database, ["setup"])
        .run()
        .expect(0, "", "in place");
    release(&database, &["--pause=1h", "--operator=eve", "--create"]);
    let waiter = ["exec", "-a", "init", "-w", "50ms", "--", "true"];
    let outcome = Dlock::on(&database, waiter).run();
    outcome.expect(75, "", "init is paused for another 59m");
    assert!(!outcome.stderr.contains("next"), "{flavour}: {outcome:#?}");
}

#[test]
fn missing_heartbeat_is_reported_with_its_cause() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("true_messages");
    let stage = Stage::new();
    fs::write(stage.path("old"), "").expect("the file can be written");
    for (file, cause) in [
        ("old", "does not change"),
        (
            "missing",
            "cannot be read: No such file or directory (os error 2)",
        ),
        ("old/file", "cannot be read: Not a directory (os error 20)"),
    ] {
        let file = stage.path(file);
        let option = format!("--heartbeat-file={}", file.display());
        let holder = Holder::on(&database, &["--ttl=2s", &option]);
        let outcome = holder.running.wait();
        assert_eq!(outcome.status, Some(76), "{flavour}: {outcome:#?}");
        let file = file.display();
        let message = format!(
            "dlock: cannot keep init: no heartbeat, because {file} {cause}; stopping the command \
             (exit status 76; see dlock explain 76)\n"
        );
        assert_eq!(outcome.stderr, message, "{flavour}");
    }
}

#[test]
fn missing_tables_are_reported_before_missing_grants() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("true_messages");
        let mut reader = database.clone();
        reader.user = format!("reader_{}", database.user);
        let (user, password, name) = (&reader.user, &reader.password, &database.name);
        let mut admin = database.admin_conn();
        for statement in [
            format!("CREATE USER '{user}'@'%' IDENTIFIED BY '{password}'"),
            format!("GRANT SELECT ON `{name}`.* TO '{user}'@'%'"),
        ] {
            admin.query_drop(statement).expect("root has the privilege");
        }
        let exec = || Dlock::on(&reader, ["exec", "-a", "init", "--", "true"]).run();
        let outcome = exec();
        let message = format!(
            "dlock: the database {name} does not have all tables of dlock, and {user} may not create them ("
        );
        outcome.expect(77, "", &message);
        assert_eq!(outcome.stderr.matches("setup").count(), 1, "{outcome:#?}");
        assert!(outcome.stderr.len() < 500, "{outcome:#?}");
        let run = Dlock::on(&reader, ["setup", "--print"]).run();
        assert!(
            run.stdout
                .contains(&format!("`{name}`.dlock_lock TO '{user}'")),
            "{run:#?}"
        );
        Dlock::on(&database, ["setup"])
            .run()
            .expect(0, "", "in place");
        let outcome = exec();
        outcome.expect(
            77,
            "",
            "dlock setup --print shows the tables and the grants",
        );
        assert!(
            !outcome.stderr.contains(&message),
            "{flavour}: {outcome:#?}"
        );
    }
}

/// Asserts that `dlock` exits with 69 sooner than a whole connect would take.
#[track_caller]
fn gives_up_in_time(dlock: Dlock) {
    let started = Instant::now();
    let outcome = dlock.run();
    let took = started.elapsed();
    outcome.expect(69, "", "no response in time; gave up after ");
    assert!(took < Duration::from_millis(1900), "{took:?}: {outcome:#?}");
}

#[test]
fn connect_timeout_limits_a_server_that_never_answers() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("127.0.0.1 has a free port");
    let port = silent.local_addr().expect("the listener is bound").port();
    let url = format!("mysql://root@127.0.0.1:{port}/dlock");
    for words in [&["exec", "-a", "init"][..], &["wait", "init"]] {
        let dlock = Dlock::new(words).env("DLOCK_URL", &url);
        let dlock = dlock.arg("--connect-timeout=300ms");
        gives_up_in_time(match words {
            ["exec", ..] => dlock.args(["--", "true"]),
            _ => dlock,
        });
    }
}

#[test]
fn connect_timeout_limits_a_resolver_that_hangs() {
    let stage = Stage::new();
    let (library, hangs) = (preload(&stage, RESOLVER), stage.path("hangs"));
    fs::write(&hangs, "").expect("the file can be written");
    for words in [&["exec", "-a", "init"][..], &["wait", "init"]] {
        let dlock = Dlock::new(words)
            .env("DLOCK_URL", "mysql://root@db.test/dlock?ssl-mode=disabled")
            .env("LD_PRELOAD", &library)
            .env("HANGS", &hangs)
            .arg("--connect-timeout=300ms");
        gives_up_in_time(match words {
            ["exec", ..] => dlock.args(["--", "true"]),
            _ => dlock,
        });
    }
}
