//! The server fails or refuses: it dies, restarts, kills, is read-only, locked, full, or has lost its tables.

use mysql::prelude::Queryable;
use mysql::{Conn, Opts};

use super::{Scene, on_each};
use crate::command::is_alive;
use crate::dlock::eventually;
use crate::proxy::Kind;
use crate::servers::{SESSIONS, Server};

/// Takes a fault of the server back.
type Undo = Box<dyn FnOnce()>;

/// A way in which the server refuses for as long as somebody lets it.
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
    admin.query_drop(set).expect("root may");
    Box::new(move || {
        let reset = "SET GLOBAL read_only=0";
        admin.query_drop(reset).expect("root may");
    })
}

fn read_lock(server: &Server, _: &Scene) -> Undo {
    let mut admin = server.admin();
    let lock = "FLUSH TABLES WITH READ LOCK";
    admin.query_drop(lock).expect("root may");
    Box::new(move || admin.query_drop("UNLOCK TABLES").expect("root may"))
}

fn row_lock(_: &Server, scene: &Scene) -> Undo {
    row_locked(scene)
}

fn row_locked(scene: &Scene) -> Undo {
    let mut admin = scene.database.admin_conn();
    admin.query_drop("BEGIN").expect("begins");
    let lock = "SELECT token FROM dlock_lock FOR UPDATE";
    eventually("the row can be locked", || admin.query_drop(lock).is_ok());
    Box::new(move || drop(admin))
}

/// Ends the connection behind the proxy and takes its place, and every other.
fn full(server: &Server, scene: &Scene) -> Undo {
    // Before it is full: a connection that is turned away takes root's extra place for a moment.
    let mut admin = server.admin();
    let options = Opts::from_url(&scene.database.url()).expect("a URL");
    let mut crowd = Vec::new();
    let limit = "SET GLOBAL max_connections=10";
    admin.query_drop(limit).expect("root may");
    eventually("the server is full", || {
        Conn::new(options.clone())
            .map(|conn| crowd.push(conn))
            .is_err()
    });
    // Right after a renewal, so that there is time until the next.
    let asked = scene.proxy.asked(Kind::Renew);
    scene.proxy.wait_asked(Kind::Renew, asked + 1);
    scene.proxy.reset();
    eventually("the place is taken", || {
        Conn::new(options.clone())
            .map(|conn| crowd.push(conn))
            .is_ok()
    });
    Box::new(move || {
        let reset = "SET GLOBAL max_connections=151";
        admin.query_drop(reset).expect("root may");
        drop(crowd);
    })
}

#[test]
fn a_server_that_refuses_for_less_than_the_lease_never_touches_the_command() {
    on_each(|flavour| {
        let server = Server::start(flavour, &[]);
        for (name, refuse) in REFUSALS {
            println!("{flavour}, {name}");
            let scene = Scene::on(&server);
            let holder = scene.holder(&[]);
            let undo = refuse(&server, &scene);
            holder.running.heard("cannot renew init: ");
            undo();
            holder.running.heard("init is renewed again after ");
            holder.unharmed();
            scene.free();
            scene.over(&["holder"]);
        }
    });
}

#[test]
fn a_server_that_refuses_for_longer_stops_the_command_before_anybody_else_runs() {
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

#[test]
fn a_server_that_crashes_or_restarts_within_the_lease_never_touches_the_command() {
    on_each(|flavour| {
        let mut server = Server::start(flavour, &[]);
        for is_graceful in [false, true] {
            println!("{flavour}, graceful: {is_graceful}");
            let scene = Scene::on(&server);
            let holder = scene.holder(&["--ttl", "20s"]);
            let waiter = scene.faulty("waiter", &[], "").start();
            scene.queued();
            if is_graceful {
                server.admin().query_drop("SHUTDOWN").expect("root may");
                let pid = server.pid().to_string();
                eventually("the server has gone", || !is_alive(&pid));
            }
            server.restart();
            holder.running.heard("init is renewed again after ");
            holder.unharmed();
            assert_eq!(waiter.wait().status, Some(0), "{flavour}: the waiter");
            scene.over(&["holder", "waiter"]);
        }
    });
}

#[test]
fn a_server_that_crashes_and_stays_away_stops_the_command() {
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
fn a_query_or_a_connection_that_is_killed_is_tried_again_by_holder_and_waiter() {
    on_each(|flavour| {
        for kill in ["KILL QUERY", "KILL"] {
            println!("{flavour}, {kill}");
            let scene = Scene::new(flavour);
            let holder = scene.holder(&["--ttl", "10s"]);
            let waiter = scene.faulty("waiter", &[], "").start();
            scene.proxy.wait_asked(Kind::Stand, 1);
            let mut admin = scene.database.admin_conn();
            // The waiter, in the middle of its wait at the gate, and the holder, in the middle of a renewal.
            killed(&mut admin, &scene, kill, "GET_LOCK");
            scene.proxy.wait_asked(Kind::Stand, 2);
            let undo = row_locked(&scene);
            killed(&mut admin, &scene, kill, "renewals");
            holder.running.heard("cannot renew init: ");
            undo();
            holder.running.heard("init is renewed again after ");
            holder.unharmed();
            assert_eq!(waiter.wait().status, Some(0), "{flavour}, {kill}");
            scene.over(&["holder", "waiter"]);
        }
    });
}

/// Kills what the account does that says `text`, as soon as it does so.
#[track_caller]
fn killed(admin: &mut Conn, scene: &Scene, kill: &str, text: &str) {
    let find = format!(
        "SELECT id FROM {SESSIONS} AS p WHERE user='{}' AND info LIKE '%{text}%'",
        scene.database.user
    );
    eventually(text, || {
        let session: Option<u64> = admin.query_first(&find).expect("root may");
        // It may be over by now.
        session.is_some_and(|session| admin.query_drop(format!("{kill} {session}")).is_ok())
    });
}

/// Deadlock, lock wait, error during commit, disk full, read-only, killed, a node without its cluster, and what a
/// cluster or a proxy says of named locks.
const ERRORS: [u16; 8] = [1213, 1205, 1180, 1021, 1290, 1317, 1047, 1105];

/// Lets every change of the row fail with `code`.
fn failing(scene: &Scene, code: u16) -> Undo {
    let mut admin = scene.database.admin_conn();
    let trigger = format!(
        "CREATE TRIGGER refuse BEFORE UPDATE ON dlock_lock FOR EACH ROW \
         SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO={code},MESSAGE_TEXT='refused'"
    );
    admin.query_drop(trigger).expect("root may");
    Box::new(move || admin.query_drop("DROP TRIGGER refuse").expect("root may"))
}

#[test]
fn an_attempt_that_the_server_answers_with_an_error_is_made_again() {
    on_each(|flavour| {
        let scene = Scene::new(flavour);
        for code in ERRORS {
            println!("{flavour}, {code}");
            let undo = failing(&scene, code);
            let asked = scene.proxy.asked(Kind::Attempt);
            let late = scene.faulty("late", &[], "").start();
            scene.proxy.wait_asked(Kind::Attempt, asked + 2);
            undo();
            assert_eq!(late.wait().status, Some(0), "{flavour}, {code}");
        }
        scene.over(&["late"; ERRORS.len()]);
    });
}

#[test]
fn a_renewal_that_the_server_answers_with_an_error_never_touches_the_command() {
    on_each(|flavour| {
        let scene = Scene::new(flavour);
        // Creating and dropping a trigger may take a busy server a second.
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
fn a_holder_whose_table_is_dropped_or_whose_row_is_deleted_stops_in_time() {
    on_each(|flavour| {
        for loss in ["DROP TABLE dlock_lock", "DELETE FROM dlock_lock"] {
            println!("{flavour}, {loss}");
            let scene = Scene::new(flavour);
            let holder = scene.stubborn_holder("3s");
            let mut admin = scene.database.admin_conn();
            eventually("nobody is in the way", || admin.query_drop(loss).is_ok());
            let outcome = holder.running.wait();
            outcome.expect(76, "term\n", "cannot keep init: ");
            assert_eq!(
                scene.contender().wait().status,
                Some(0),
                "{flavour}, {loss}"
            );
            scene.over(&["holder", "contender"]);
        }
    });
}
