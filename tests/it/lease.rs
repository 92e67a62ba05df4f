//! Tests that dlock renews the lease while the command runs, and stops the command if dlock cannot renew the lease in
//! time.

use mysql::prelude::Queryable;
use testkit::cli_runner::{Dlock, Running, eventually};
use testkit::command::{Stage, is_alive, read_message, signal, write_message};
use testkit::on_each_flavour;
use testkit::servers::{Database, Flavour, Server, shared};

/// A holder with a ttl of 2 s. The command writes its process id to a fifo and prints `term` on SIGTERM.
struct Holder {
    running: Running,
    pid: String,
}

impl Holder {
    fn start(database: &Database, on_term: &str) -> Self {
        let stage = Stage::new();
        let ready = stage.fifo("ready");
        let script = format!(
            r#"trap 'echo term; {on_term}' TERM; echo $$ > "$1"; while :; do sleep 0.02; done"#
        );
        let running = Dlock::on(
            database,
            ["exec", "-a", "init", "--ttl", "2s", "--", "sh", "-c"],
        )
        .arg(script)
        .arg("sh")
        .arg(&ready)
        .start();
        let pid = read_message(&ready);
        Self { running, pid }
    }
}

fn renewals(database: &Database) -> u64 {
    let renewals = database
        .admin_conn()
        .query_first("SELECT renewals FROM dlock_lock");
    renewals.expect("the table exists").expect("the row exists")
}

fn renewed_again(database: &Database) {
    let before = renewals(database);
    eventually("the lease is renewed", || renewals(database) > before);
}

on_each_flavour!(command_may_run_for_many_leases);
fn command_may_run_for_many_leases(flavour: Flavour) {
    let database = shared(flavour).database("lease");
    let holder = Holder::start(&database, "exit 4");
    // dlock renews the lease six times per ttl, so 12 renewals take two ttls.
    eventually("the lease is renewed for two ttls", || {
        renewals(&database) > 12
    });
    holder.running.signal("TERM");
    holder.running.wait().expect(4, "term\n", "");
}

on_each_flavour!(command_is_stopped_when_its_lease_is_taken_over);
fn command_is_stopped_when_its_lease_is_taken_over(flavour: Flavour) {
    for (on_term, stdout) in [("exit 0", "term\n"), ("true", "term\n")] {
        let database = shared(flavour).database("lease");
        let holder = Holder::start(&database, on_term);
        database
            .admin_conn()
            .query_drop(
                "UPDATE dlock_lock SET owner_id=REPEAT('t',16), token=token+1, holder='a thief'",
            )
            .expect("the row can be changed");
        holder
            .running
            .wait()
            .expect(76, stdout, "lost init: init is held by a thief");
        assert!(!is_alive(&holder.pid), "{flavour}: the command is alive");
    }
}

#[test]
fn command_is_stopped_when_another_client_frees_its_record() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("lease");
        let holder = Holder::start(&database, "exit 0");
        database
            .admin_conn()
            .query_drop("UPDATE dlock_lock SET owner_id=NULL")
            .expect("the row can be changed");
        let outcome = holder.running.wait();
        outcome.expect(
            76,
            "term\n",
            "its record was freed by another session; stopping the command",
        );
    }
}

on_each_flavour!(command_is_stopped_before_a_lease_that_cannot_be_renewed_expires);
fn command_is_stopped_before_a_lease_that_cannot_be_renewed_expires(flavour: Flavour) {
    let server = Server::start(flavour, &[]);
    for on_term in ["exit 0", "true"] {
        let database = server.database("lease");
        let holder = Holder::start(&database, on_term);
        renewed_again(&database);
        // The worst case is a server that accepts packets and never responds.
        signal(server.pid(), "STOP");
        let outcome = holder.running.wait();
        signal(server.pid(), "CONT");
        outcome.expect(76, "term\n", "cannot keep init: ");
        assert!(!is_alive(&holder.pid), "{flavour}: the command is alive");
    }
}

#[test]
fn holder_reconnects_after_its_session_is_killed_and_command_runs_on() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("lease");
        let holder = Holder::start(&database, "exit 4");
        let mut admin = database.admin_conn();
        for _ in 0..3 {
            let session: u64 = admin
                .query_first("SELECT session_id FROM dlock_lock")
                .expect("the table exists")
                .expect("the row exists");
            admin
                .query_drop(format!("KILL {session}"))
                .expect("the session can be killed");
            renewed_again(&database);
        }
        holder.running.signal("TERM");
        let outcome = holder.running.wait();
        let message = "the server has closed the connection of init; reconnecting";
        outcome.expect(4, "term\n", message);
        outcome.expect(4, "term\n", "is renewed again");
    }
}

on_each_flavour!(failed_release_only_adds_a_message);
fn failed_release_only_adds_a_message(flavour: Flavour) {
    let server = Server::start(flavour, &[]);
    let database = server.database("lease");
    let holder = Holder::start(&database, "exit 5");
    signal(server.pid(), "STOP");
    holder.running.signal("TERM");
    let outcome = holder.running.wait();
    signal(server.pid(), "CONT");
    outcome.expect(5, "term\n", "cannot release init: ");
}

on_each_flavour!(row_locked_by_another_transaction_only_delays_a_renewal);
fn row_locked_by_another_transaction_only_delays_a_renewal(flavour: Flavour) {
    let database = shared(flavour).database("lease");
    let stage = Stage::new();
    let (ready, go) = (stage.fifo("ready"), stage.fifo("go"));
    let holder = Dlock::on(
        &database,
        ["exec", "-a", "init", "--ttl", "10s", "--", "sh", "-c"],
    )
    .arg(r#"echo up > "$1"; read word < "$2"; exit 4"#)
    .arg("sh")
    .arg(&ready)
    .arg(&go)
    .start();
    read_message(&ready);
    let mut blocker = database.admin_conn();
    blocker
        .query_drop("BEGIN")
        .expect("a transaction can be started");
    blocker
        .query_drop("SELECT * FROM dlock_lock FOR UPDATE")
        .expect("the row can be locked");
    holder.wait_for_output("cannot renew init: ");
    blocker
        .query_drop("ROLLBACK")
        .expect("the transaction can be rolled back");
    holder.wait_for_output("is renewed again");
    write_message(&go, "on");
    assert_eq!(holder.wait().status, Some(4), "{flavour}");
}
