//! Tests that messages report what has happened: no wrong cause, no wrong next step, and one message for one event.

use std::fs;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use testkit::cli_runner::{Dlock, Outcome};
use testkit::command::Stage;
use testkit::holder::Holder;
use testkit::network::resolving;
use testkit::servers::{Database, Flavour, shared};

fn release(database: &Database, options: &[&str]) -> Outcome {
    Dlock::on(database, ["release", "-a", "init", "--yes"])
        .args(options)
        .run()
}

#[test]
fn released_holder_reads_one_message_and_nobody_is_next_while_the_action_is_paused() {
    let database = shared(Flavour::of_this_test()).database("true_messages");
    let holder = Holder::on(&database, &["--holder=web-1"]);
    let released = release(&database, &["--operator=eve", "--reason=stuck"]);
    assert_eq!(released.status, Some(0), "{released:#?}");
    let outcome = holder.running.wait();
    assert_eq!(outcome.status, Some(76), "{outcome:#?}");
    let message = "dlock: lost init: released by eve (reason: stuck); stopping the command \
         (exit status 76; see dlock explain 76)\n";
    assert_eq!(outcome.stderr, message);

    release(&database, &["--pause=1h", "--operator=eve"]);
    let waiter = ["exec", "-a", "init", "-w", "50ms", "--", "true"];
    let outcome = Dlock::on(&database, waiter).expect(75, "", "init is paused for another 59m");
    assert!(!outcome.stderr.contains("next"), "{outcome:#?}");
}

#[test]
fn missing_heartbeat_is_reported_with_its_cause() {
    let database = shared(Flavour::of_this_test()).database("true_messages");
    let stage = Stage::new();
    fs::write(stage.path("old"), "").expect("the file can be written");
    let causes = [
        ("old", "does not change"),
        (
            "missing",
            "cannot be read: No such file or directory (os error 2)",
        ),
    ];
    let holders = causes.map(|(name, _)| {
        let (action, file) = (format!("--action={name}"), stage.path(name));
        let file = format!("--heartbeat-file={}", file.display());
        Holder::on(&database, &[&action, "--ttl=6s", &file])
    });
    for (holder, (name, cause)) in holders.into_iter().zip(causes) {
        let outcome = holder.running.wait();
        assert_eq!(outcome.status, Some(76), "{outcome:#?}");
        let file = stage.path(name);
        let message = format!(
            "dlock: cannot keep {name}: no heartbeat, because {} {cause}; stopping the command \
             (exit status 76; see dlock explain 76)\n",
            file.display()
        );
        assert_eq!(outcome.stderr, message);
    }
}

#[test]
fn missing_tables_are_reported_before_missing_grants() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("true_messages");
        let reader = database.account("reader");
        let (user, name) = (&reader.user, &database.name);
        reader.grant(&format!("SELECT ON `{name}`.*"));
        let exec = || Dlock::on(&reader, ["exec", "-a", "init", "--", "true"]).run();
        let outcome = exec();
        let message = format!(
            "dlock: the database {name} does not have all tables of dlock, and {user} may not create them ("
        );
        outcome.expect(77, "", &message);
        assert_eq!(outcome.stderr.matches("setup").count(), 1, "{outcome:#?}");
        assert!(outcome.stderr.len() < 500, "{outcome:#?}");
        let printed = Dlock::on(&reader, ["setup", "--print"]).run().stdout;
        let grant = format!("`{name}`.dlock_lock TO '{user}'");
        assert!(printed.contains(&grant), "{printed}");
        Dlock::on(&database, ["setup"]).expect(0, "", "in place");
        let outcome = exec();
        let advice = "dlock setup --print shows the tables and the grants";
        outcome.expect(77, "", advice);
        assert!(!outcome.stderr.contains(&message), "{outcome:#?}");
    }
}

#[test]
fn connect_timeout_limits_a_server_that_never_answers_and_a_resolver_that_hangs() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("127.0.0.1 has a free port");
    let port = silent.local_addr().expect("the listener is bound").port();
    let silent_server = format!("mysql://root@127.0.0.1:{port}/dlock");
    let silent_resolver = "mysql://root@db.test/dlock?ssl-mode=disabled";
    for (url, words) in [
        (&*silent_server, &["exec", "-a", "init", "--", "true"][..]),
        (&silent_server, &["wait", "init"]),
        (silent_resolver, &["exec", "-a", "init", "--", "true"]),
        (silent_resolver, &["wait", "init"]),
    ] {
        let dlock = resolving(Dlock::new(words), "db.test=never")
            .env("DLOCK_URL", url)
            .env("DLOCK_OPT_CONNECT_TIMEOUT", "300ms");
        let started = Instant::now();
        let outcome = dlock.run();
        let took = started.elapsed();
        outcome.expect(69, "", "no response in time; gave up after ");
        // A whole connect would take longer.
        assert!(took < Duration::from_millis(1900), "{took:?}: {outcome:#?}");
    }
}
