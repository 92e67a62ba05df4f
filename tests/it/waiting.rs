//! Tests of waiters: how long a waiter waits, which messages it prints, and how it exits.

use mysql::prelude::Queryable;
use testkit::cli_runner::{Dlock, Running};
use testkit::command::{Stage, read_message, write_message};
use testkit::on_each_flavour;
use testkit::servers::{Database, Flavour, Server, shared};

/// A holder of `init` whose command runs until [`Self::let_go`].
struct Holder {
    stage: Stage,
    running: Running,
}

impl Holder {
    fn start(database: &Database, options: &[&str]) -> Self {
        let stage = Stage::new();
        let (ready, go) = (stage.fifo("ready"), stage.fifo("go"));
        let running = Dlock::on(database, ["exec", "-a", "init", "--holder", "the holder"])
            .args(options)
            .args([
                "--",
                "sh",
                "-c",
                r#"echo up > "$1"; read word < "$2"; exit 3"#,
                "sh",
            ])
            .arg(&ready)
            .arg(&go)
            .start();
        read_message(&ready);
        Self { stage, running }
    }

    fn let_go(self) {
        write_message(&self.stage.path("go"), "on");
        self.running.wait().expect(3, "", "");
    }
}

fn echo(database: &Database, options: &[&str]) -> Dlock {
    Dlock::on(database, ["exec", "-a", "init"])
        .args(options)
        .args(["--", "echo", "ran"])
}

#[test]
fn contender_that_does_not_wait_prints_the_holder() {
    let database = shared(Flavour::of_this_test()).database("waiting");
    let holder = Holder::start(&database, &["--note", "release 42"]);
    for options in [
        &["-n"][..],
        &["--wait", "0"],
        &["-w", "0s"],
        &["--wait", "200ms"],
        &["--wait=0.2s", "-q"],
    ] {
        let outcome = echo(&database, options).run();
        outcome.expect(75, "", "init is held by the holder (token ");
        outcome.expect(75, "", "release 42");
    }
    echo(&database, &["-n", "-E", "7"])
        .run()
        .expect(7, "", "init is held by");
    echo(&database, &["-n", "-E", "0"])
        .run()
        .expect(0, "", "init is held by");
    echo(&database, &["-n", "-E", "0", "-q"])
        .run()
        .expect(0, "", "");
    holder.let_go();
    echo(&database, &["-n"]).run().expect(0, "ran\n", "");
}

#[test]
fn waiter_runs_its_command_when_the_holder_ends() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("waiting");
        let holder = Holder::start(&database, &[]);
        let waiter = echo(&database, &["--wait", "1h"]).start();
        waiter.wait_for_output("init is held by the holder");
        holder.let_go();
        waiter
            .wait()
            .expect(0, "ran\n", "init is held by the holder");
    }
}

on_each_flavour!(waiter_takes_over_from_a_killed_holder);
fn waiter_takes_over_from_a_killed_holder(flavour: Flavour) {
    let database = shared(flavour).database("waiting");
    let holder = Holder::start(&database, &["--ttl", "2s"]);
    let token = token(&database);
    let waiter = echo(&database, &["--ttl", "2s"]).start();
    waiter.wait_for_output("init is held by the holder");
    holder.running.crash();
    waiter.wait().expect(0, "ran\n", "init is held by");
    assert!(self::token(&database) > token, "{flavour}");
}

#[test]
fn new_contender_takes_over_an_expired_lease_immediately() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("waiting");
        let holder = Holder::start(&database, &["--ttl", "2s"]);
        holder.running.crash();
        // The holder's session has ended, but the lease has not expired.
        let mut admin = database.admin_conn();
        admin
            .query_drop("UPDATE dlock_lock SET expires_at=UTC_TIMESTAMP(6)+INTERVAL 1 MINUTE")
            .expect("the row can be changed");
        echo(&database, &["-n"])
            .run()
            .expect(75, "", "init is held by the holder");
        admin
            .query_drop("UPDATE dlock_lock SET expires_at=UTC_TIMESTAMP(6)-INTERVAL 1 SECOND")
            .expect("the row can be changed");
        echo(&database, &["-n"]).run().expect(0, "ran\n", "");
    }
}

on_each_flavour!(waiter_and_holder_survive_a_server_restart);
fn waiter_and_holder_survive_a_server_restart(flavour: Flavour) {
    let mut server = Server::start(flavour, &[]);
    let database = server.database("waiting");
    let holder = Holder::start(&database, &[]);
    let waiter = echo(&database, &[]).start();
    waiter.wait_for_output("init is held by the holder");
    server.restart();
    // The holder must reconnect before its command ends.
    let mut admin = database.admin_conn();
    testkit::cli_runner::eventually("the holder renews on the new server", || {
        let renewals: Option<u64> = admin
            .query_first("SELECT renewals FROM dlock_lock")
            .expect("the table exists");
        renewals > Some(0)
    });
    write_message(&holder.stage.path("go"), "on");
    let outcome = holder.running.wait();
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Some(3), ""));
    waiter.wait().expect(0, "ran\n", "init is held by");
}

on_each_flavour!(contender_waits_for_a_server_that_starts_late);
fn contender_waits_for_a_server_that_starts_late(flavour: Flavour) {
    let mut server = Server::start(flavour, &[]);
    let database = server.database("late");
    testkit::command::signal(server.pid(), "KILL");
    let early = echo(&database, &[]).start();
    early.wait_for_output("trying again");
    server.restart();
    early.wait().expect(0, "ran\n", "trying again");
}

fn token(database: &Database) -> u64 {
    let token = database
        .admin_conn()
        .query_first("SELECT token FROM dlock_lock");
    token.expect("the table exists").expect("the row exists")
}
