//! What is known of others' sessions, whatever they do and whatever the server tells of them.

use std::thread;

use mysql::prelude::Queryable;
use mysql::{Conn, Opts};

use crate::dlock::{Dlock, Running, eventually};
use crate::holder::Holder;
use crate::servers::{Database, Flavour, SESSIONS, Server, shared};

/// A holder of `init` and somebody who stands in line behind it.
fn line(database: &Database) -> (Holder, Running) {
    let holder = Holder::on(database, &[]);
    let waiter = Dlock::on(database, ["exec", "-q", "-a", "init", "--", "true"]).start();
    let mut admin = database.admin_conn();
    eventually("somebody waits", || {
        let places: Option<u64> = admin
            .query_first("SELECT COUNT(*) FROM dlock_waiter")
            .expect("the tables are there");
        places == Some(1)
    });
    (holder, waiter)
}

/// Whether the waiter is alive, as `status` tells.
#[track_caller]
fn is_alive(database: &Database) -> serde_json::Value {
    let status = Dlock::on(database, ["status", "--json", "init"]).run();
    let status: serde_json::Value =
        serde_json::from_str(&status.stdout).unwrap_or_else(|error| panic!("{error}: {status:?}"));
    status["locks"][0]["waiters"][0]["alive"].clone()
}

#[track_caller]
fn end(holder: Holder, waiter: Running) {
    assert_eq!(holder.end().status, Some(3));
    assert_eq!(waiter.wait().status, Some(0));
}

#[test]
fn a_session_that_says_something_in_four_bytes_hides_nobody() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("sessions");
        let (holder, waiter) = line(&database);
        let account = Opts::from_url(&database.url()).expect("a URL");
        let mut busy = Conn::new(account).expect("the account may log in");
        let session = busy.connection_id();
        let saying = thread::spawn(move || {
            // Ended by the test.
            let _ = busy.query_drop("SELECT SLEEP(60),'\u{1f469}'");
        });
        let mut admin = database.admin_conn();
        let says = format!(
            "SELECT COUNT(*) FROM {SESSIONS} AS p WHERE id={session} AND info LIKE '%SLEEP(60)%'"
        );
        eventually("it says so", || {
            let found: Option<u64> = admin.query_first(&says).expect("root may");
            found == Some(1)
        });
        assert_eq!(is_alive(&database), true, "{flavour}");
        let doctor = Dlock::on(&database, ["doctor"]).run();
        assert!(!doctor.stdout.contains("3854"), "{flavour}: {doctor:?}");
        admin
            .query_drop(format!("KILL {session}"))
            .expect("root may");
        saying.join().expect("it is over");
        end(holder, waiter);
    }
}

#[test]
fn where_the_server_keeps_no_list_of_sessions_nobody_is_taken_for_dead() {
    let server = Server::start(Flavour::MySql, &["--performance-schema=OFF"]);
    let database = server.database("sessions");
    let (holder, waiter) = line(&database);
    assert!(is_alive(&database).is_null());
    end(holder, waiter);
}
