//! The server fails or refuses requests: the server crashes, restarts, kills queries or connections, is read-only or
//! locked, has no free connection, returns errors, or has lost dlock's tables.

use mysql::prelude::Queryable;
use mysql::{Conn, Opts};
use testkit::cli_runner::eventually;
use testkit::command::is_alive;
use testkit::proxy::Kind;
use testkit::servers::{SESSIONS, Server};

use super::{Scene, on_each};

/// Undoes a fault of the server.
type Undo = Box<dyn FnOnce()>;

/// A name and a function that makes the server refuse requests until the returned [`Undo`] runs.
type Refusal = (&'static str, fn(&Server, &Scene) -> Undo);

const REFUSALS: [Refusal; 4] = [
    ("read-only", read_only),
    ("FLUSH TABLES WITH READ LOCK", read_lock),
    ("the row is locked (1205)", row_lock),
    ("too many connections (1040)", full),
];

fn read_only(server: &Server, _: &Scene) -> Undo {
    let mut admin = server.admin();
    let set = "SET GLOBAL read_only=1";
    admin.query_drop(set).expect("root has the privilege");
    Box::new(move || {
        let reset = "SET GLOBAL read_only=0";
        admin.query_drop(reset).expect("root has the privilege");
    })
}

fn read_lock(server: &Server, _: &Scene) -> Undo {
    let mut admin = server.admin();
    let lock = "FLUSH TABLES WITH READ LOCK";
    admin.query_drop(lock).expect("root has the privilege");
    Box::new(move || {
        admin
            .query_drop("UNLOCK TABLES")
            .expect("root has the privilege");
    })
}

fn row_lock(_: &Server, scene: &Scene) -> Undo {
    row_locked(scene)
}

fn row_locked(scene: &Scene) -> Undo {
    let mut admin = scene.database.admin_conn();
    admin.query_drop("BEGIN").expect("root has the privilege");
    let lock = "SELECT token FROM dlock_lock FOR UPDATE";
    eventually("the row can be locked", || admin.query_drop(lock).is_ok());
    Box::new(move || drop(admin))
}

/// Resets the holder's connection and opens all connections that the server allows, which prevents a reconnect.
fn full(server: &Server, scene: &Scene) -> Undo {
    // Connects before the server is full, since each rejected connection briefly occupies the extra connection for
    // root.
    let mut admin = server.admin();
    let options = Opts::from_url(&scene.database.url()).expect("a URL");
    let mut others = Vec::new();
    let limit = "SET GLOBAL max_connections=10";
    admin.query_drop(limit).expect("root has the privilege");
    eventually("the server is full", || {
        Conn::new(options.clone())
            .map(|conn| others.push(conn))
            .is_err()
    });
    // Resets the connection right after a renewal, so that enough time is left before the next renewal.
    let asked = scene.proxy.asked(Kind::Renew);
    scene.proxy.wait_asked(Kind::Renew, asked + 1);
    scene.proxy.reset();
    eventually("the last connection is taken", || {
        Conn::new(options.clone())
            .map(|conn| others.push(conn))
            .is_ok()
    });
    Box::new(move || {
        let reset = "SET GLOBAL max_connections=151";
        admin.query_drop(reset).expect("root has the privilege");
        drop(others);
    })
}

#[test]
fn a_refusal_shorter_than_the_lease_does_not_affect_the_command() {
    on_each(|flavour| {
        let server = Server::start(flavour, &[]);
        for (name, refuse) in REFUSALS {
            println!("{flavour}, {name}");
            let scene = Scene::on(&server);
            let holder = scene.holder(&[]);
            let undo = refuse(&server, &scene);
            holder.running.wait_for_output("cannot renew init: ");
            undo();
            holder
                .running
                .wait_for_output("init is renewed again after ");
            holder.unharmed();
            scene.free();
            scene.over(&["holder"]);
        }
    });
}

#[test]
fn a_refusal_longer_than_the_lease_stops_the_command() {
    on_each(|flavour| {
        let server = Server::start(flavour, &[]);
        for (name, refuse) in REFUSALS {
            println!("{flavour}, {name}");
            let scene = Scene::on(&server);
            let holder = scene.stubborn_holder("3s");
            let contender = scene.contender();
            scene.queued();
            let undo = refuse(&server, &scene);
            let outcome = holder.running.wait();
            outcome.expect(76, "term\n", "cannot keep init: ");
            undo();
            assert_eq!(contender.wait().status, Some(0), "{flavour}, {name}");
            scene.over(&["holder", "contender"]);
        }
    });
}

/// `waiting::waiter_and_holder_survive_a_server_restart` has a waiter, which acquires nothing for a ttl.
#[test]
fn a_server_restart_within_the_lease_does_not_affect_the_command() {
    on_each(|flavour| {
        let mut server = Server::start(flavour, &[]);
        for is_graceful in [false, true] {
            println!("{flavour}, graceful: {is_graceful}");
            let scene = Scene::on(&server);
            let holder = scene.holder(&["--ttl", "1m"]);
            if is_graceful {
                server
                    .admin()
                    .query_drop("SHUTDOWN")
                    .expect("root has the privilege");
                let pid = server.pid().to_string();
                eventually("the server has exited", || !is_alive(&pid));
            }
            server.restart();
            holder
                .running
                .wait_for_output("init is renewed again after ");
            holder.unharmed();
            scene.over(&["holder"]);
        }
    });
}

#[test]
fn a_crashed_server_that_stays_down_stops_the_command() {
    on_each(|flavour| {
        let server = Server::start(flavour, &[]);
        let scene = Scene::on(&server);
        let holder = scene.stubborn_holder("3s");
        let waiter = scene.exec("waiter", &["--wait", "1s"], "").start();
        scene.queued();
        server.stop();
        let outcome = holder.running.wait();
        outcome.expect(76, "term\n", "cannot keep init: ");
        waiter.wait().expect(75, "", "gave up after 1s");
        scene.over(&["holder"]);
    });
}

#[test]
fn holder_and_waiter_retry_a_killed_query_or_connection() {
    on_each(|flavour| {
        for kill in ["KILL QUERY", "KILL"] {
            println!("{flavour}, {kill}");
            let scene = Scene::new(flavour);
            let holder = scene.holder(&["--ttl", "10s"]);
            let waiter = scene.faulty("waiter", &[], "").start();
            scene.proxy.wait_asked(Kind::WaitTurn, 1);
            let mut admin = scene.database.admin_conn();
            // Kills the query or session in which the waiter waits, and then the query or session in which the holder
            // renews.
            kill_session(&mut admin, &scene, kill, "GET_LOCK");
            scene.proxy.wait_asked(Kind::WaitTurn, 2);
            let undo = row_locked(&scene);
            kill_session(&mut admin, &scene, kill, "renewals");
            holder.running.wait_for_output("cannot renew init: ");
            undo();
            holder
                .running
                .wait_for_output("init is renewed again after ");
            holder.unharmed();
            assert_eq!(waiter.wait().status, Some(0), "{flavour}, {kill}");
            scene.over(&["holder", "waiter"]);
        }
    });
}

/// Waits until a session of the account runs a query that contains `text`, and runs the statement `kill` with the id
/// of this session.
#[track_caller]
fn kill_session(admin: &mut Conn, scene: &Scene, kill: &str, text: &str) {
    let find = format!(
        "SELECT id FROM {SESSIONS} AS p WHERE user='{}' AND info LIKE '%{text}%'",
        scene.database.user
    );
    eventually(text, || {
        let session: Option<u64> = admin.query_first(&find).expect("root has the privilege");
        // The kill fails if the session has ended by now.
        session.is_some_and(|session| admin.query_drop(format!("{kill} {session}")).is_ok())
    });
}

/// Error codes: deadlock, lock wait timeout, error during commit, disk full, read-only, query killed, node without its
/// cluster, and the error that a cluster or a proxy returns for named locks.
const ERRORS: [u16; 8] = [1213, 1205, 1180, 1021, 1290, 1317, 1047, 1105];

/// Makes every update of the row fail with `code`.
fn failing(scene: &Scene, code: u16) -> Undo {
    let mut admin = scene.database.admin_conn();
    let trigger = format!(
        "CREATE TRIGGER refuse BEFORE UPDATE ON dlock_lock FOR EACH ROW \
         SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO={code},MESSAGE_TEXT='refused'"
    );
    admin.query_drop(trigger).expect("root has the privilege");
    Box::new(move || {
        admin
            .query_drop("DROP TRIGGER refuse")
            .expect("root has the privilege");
    })
}

#[test]
fn an_attempt_that_fails_with_a_server_error_is_retried() {
    on_each(|flavour| {
        let scene = Scene::new(flavour);
        for code in ERRORS {
            println!("{flavour}, {code}");
            let undo = failing(&scene, code);
            let asked = scene.proxy.asked(Kind::TryAcquire);
            let late = scene.faulty("late", &[], "").start();
            scene.proxy.wait_asked(Kind::TryAcquire, asked + 2);
            undo();
            assert_eq!(late.wait().status, Some(0), "{flavour}, {code}");
        }
        scene.over(&["late"; ERRORS.len()]);
    });
}

#[test]
fn a_server_error_during_a_renewal_does_not_affect_the_command() {
    on_each(|flavour| {
        let scene = Scene::new(flavour);
        // The ttl is long, since a busy server may take a second to create or drop a trigger.
        let holder = scene.holder(&["--ttl", "10s"]);
        for code in ERRORS {
            println!("{flavour}, {code}");
            let undo = failing(&scene, code);
            let asked = scene.proxy.asked(Kind::Renew);
            scene.proxy.wait_asked(Kind::Renew, asked + 2);
            undo();
            scene.renewed();
        }
        holder.unharmed();
        scene.free();
    });
}

#[test]
fn a_dropped_table_stops_the_holder_in_time() {
    on_each(|flavour| {
        let scene = Scene::new(flavour);
        let holder = scene.stubborn_holder("3s");
        let mut admin = scene.database.admin_conn();
        eventually("no other session locks the table", || {
            admin.query_drop("DROP TABLE dlock_lock").is_ok()
        });
        let outcome = holder.running.wait();
        outcome.expect(76, "term\n", "cannot keep init: ");
        assert_eq!(scene.contender().wait().status, Some(0), "{flavour}");
        scene.over(&["holder", "contender"]);
    });
}

#[test]
fn a_deleted_record_is_written_again_by_the_holder() {
    on_each(|flavour| {
        let scene = Scene::new(flavour);
        let holder = scene.stubborn_holder("3s");
        let mut admin = scene.database.admin_conn();
        eventually("no other session locks the row", || {
            admin.query_drop("DELETE FROM dlock_lock").is_ok()
        });
        holder.running.wait_for_output("init is renewed again");
        let outcome = holder.end();
        outcome.expect(4, "", "the database has lost the grant of init");
        assert_eq!(scene.contender().wait().status, Some(0), "{flavour}");
        scene.over(&["holder", "contender"]);
    });
}
