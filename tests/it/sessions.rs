//! Tests of the check that determines whether another contender's session is alive, with four-byte characters in the
//! process list and without a process list.

use std::thread;

use mysql::prelude::Queryable;
use testkit::cli_runner::{Dlock, Running};
use testkit::each_server::everywhere;
use testkit::holder::{Holder, status};
use testkit::servers::{Database, Flavour, SESSIONS, Server};
use testkit::sql::connect;

/// Starts a holder of `init` and a waiter for `init`.
fn holder_and_waiter(database: &Database) -> (Holder, Running) {
    let holder = Holder::on(database, &[]);
    let waiter = Dlock::on(database, ["exec", "-q", "-a", "init", "--", "true"]).start();
    database.wait_until("COUNT(*)=1 FROM dlock_waiter");
    (holder, waiter)
}

/// Returns the field `alive` of the waiter in `status --json`.
#[track_caller]
fn is_alive(database: &Database) -> serde_json::Value {
    status(database)["waiters"][0]["alive"].clone()
}

#[track_caller]
fn end(holder: Holder, waiter: Running) {
    assert_eq!(holder.end().status, Some(3));
    assert_eq!(waiter.wait().status, Some(0));
}

#[test]
fn four_byte_characters_in_the_process_list_hide_no_session() {
    everywhere(|database| {
        let (holder, waiter) = holder_and_waiter(database);
        let mut busy = connect(&database.url()).expect("the account can log in");
        let session = busy.connection_id();
        let busy_thread = thread::spawn(move || {
            // The statement fails when the test kills the session.
            let _ = busy.query_drop("SELECT SLEEP(60),'\u{1f469}'");
        });
        database.wait_until(format!(
            "COUNT(*)=1 FROM {SESSIONS} AS p WHERE id={session} AND info LIKE '%SLEEP(60)%'"
        ));
        assert_eq!(is_alive(database), true);
        let doctor = Dlock::on(database, ["doctor"]).run();
        assert!(!doctor.stdout.contains("3854"), "{doctor:?}");
        database.run(format!("KILL {session}"));
        busy_thread.join().expect("the thread ends");
        end(holder, waiter);
    });
}

#[test]
fn waiter_is_not_reported_dead_without_a_process_list() {
    let server = Server::start(Flavour::MySql, &["--performance-schema=OFF"]);
    let database = server.database("sessions");
    let (holder, waiter) = holder_and_waiter(&database);
    assert!(is_alive(&database).is_null());
    end(holder, waiter);
}
