//! The server fails or refuses requests: the server crashes, restarts, kills queries or connections, is read-only or
//! locked, has no free connection, returns errors, or has lost dlock's tables.

use mysql::prelude::Queryable;
use mysql::{Conn, Opts};
use testkit::cli_runner::eventually;
use testkit::command::is_alive;
use testkit::proxy::{AcceptMode, Kind};
use testkit::servers::{SESSIONS, Server, shared};
use testkit::sql::Sql;

use super::{Scene, on_each};

const RENEWED: &str = "init is renewed again after ";

type Undo = Box<dyn FnOnce()>;

/// A name and a function that makes the server refuse requests until the returned [`Undo`] runs.
type Refusal = (&'static str, fn(&Server, &Scene) -> Undo);

const REFUSALS: [Refusal; 4] = [
    ("read-only", |server, _| {
        let set = "SET GLOBAL read_only=1";
        changed(server.admin(), set, "SET GLOBAL read_only=0")
    }),
    ("FLUSH TABLES WITH READ LOCK", |server, _| {
        let lock = "FLUSH TABLES WITH READ LOCK";
        changed(server.admin(), lock, "UNLOCK TABLES")
    }),
    ("the row is locked (1205)", row_lock),
    ("too many connections (1040)", full),
];

/// Runs `statement` as root, and returns an [`Undo`] that runs `undo` in the same session.
fn changed(mut admin: Conn, statement: &str, undo: &'static str) -> Undo {
    eventually(statement, || admin.query_drop(statement).is_ok());
    Box::new(move || admin.run(undo))
}

fn row_lock(_: &Server, scene: &Scene) -> Undo {
    let mut admin = scene.database.admin_conn();
    // A deadlock ends the transaction, so each attempt begins a new one.
    eventually("the row can be locked", || {
        let mut statements = ["BEGIN", "SELECT token FROM dlock_lock FOR UPDATE"].iter();
        statements.all(|statement| admin.query_drop(statement).is_ok())
    });
    Box::new(move || drop(admin))
}

/// Resets the holder's connection and opens all connections that the server allows, which prevents a reconnect.
fn full(server: &Server, scene: &Scene) -> Undo {
    // Connects before the server is full, since each rejected connection briefly occupies the extra connection for
    // root.
    let mut admin = server.admin();
    let options = Opts::from_url(&scene.database.url()).expect("a URL");
    let mut others = Vec::new();
    let mut connects = || {
        let conn = Conn::new(options.clone());
        conn.map(|conn| others.push(conn)).is_ok()
    };
    admin.run("SET GLOBAL max_connections=10");
    eventually("the server is full", || !connects());
    // Resets the connection right after a renewal, so that enough time is left before the next renewal.
    scene.proxy.wait_more(Kind::Renew, 1);
    // The holder cannot reconnect before the last connection is taken.
    scene.proxy.door(AcceptMode::Silent);
    scene.proxy.reset();
    eventually("the last connection is taken", &mut connects);
    // The server may also have closed a connection of an earlier case.
    eventually("the server is full again", || !connects());
    let connections = scene.proxy.connections();
    scene.proxy.door(AcceptMode::Open);
    scene.proxy.wait_connections(connections + 1);
    Box::new(move || {
        admin.run("SET GLOBAL max_connections=151");
        drop(others);
    })
}

#[test]
fn a_refusal_stops_the_command_only_if_it_is_longer_than_the_lease() {
    on_each(|flavour| {
        let server = Server::start(flavour, &[]);
        for (name, refuse) in REFUSALS {
            println!("{flavour}, {name}");
            let scene = Scene::on(&server);
            let holder = scene.holder(&["--ttl", "10s"]);
            let undo = refuse(&server, &scene);
            holder.running.wait_for_output("cannot renew init: ");
            undo();
            holder.running.wait_for_output(RENEWED);
            holder.unharmed();
            scene.free();

            let (contender, undo) = scene.stops_if(|| refuse(&server, &scene));
            undo();
            assert_eq!(contender.wait().status, Some(0), "{flavour}, {name}");
            scene.over(&["holder", "holder", "contender"]);
        }
    });
}

/// `queue::waiters_are_all_granted_after_a_server_restart_and_a_contender_waits_for_a_server` has waiters, which acquire
/// nothing for a ttl.
#[test]
fn a_restart_does_not_affect_the_command_and_a_server_that_stays_down_stops_it() {
    on_each(|flavour| {
        let mut server = Server::start(flavour, &[]);
        let scene = Scene::on(&server);
        for is_graceful in [false, true] {
            println!("{flavour}, graceful: {is_graceful}");
            let holder = scene.holder(&["--ttl", "1m"]);
            if is_graceful {
                server.run("SHUTDOWN");
                let pid = server.pid().to_string();
                eventually("the server has exited", || !is_alive(&pid));
            }
            server.restart();
            holder.running.wait_for_output(RENEWED);
            holder.unharmed();
        }
        let holder = scene.stubborn_holder("3s");
        let waiter = scene.exec("waiter", &["--wait", "1s"], "").start();
        scene.queued();
        drop(server);
        let outcome = holder.running.wait();
        outcome.expect(76, "term\n", "cannot keep init: ");
        waiter.wait().expect(75, "", "gave up after 1s");
        scene.over(&["holder"; 3]);
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
            // Kills the query or session in which the waiter waits, and then the query or session in which the holder
            // renews.
            kill_session(&scene, kill, "GET_LOCK");
            scene.proxy.wait_asked(Kind::WaitTurn, 2);
            let undo = row_lock(shared(flavour), &scene);
            kill_session(&scene, kill, "renewals");
            holder.running.wait_for_output("cannot renew init: ");
            undo();
            holder.running.wait_for_output(RENEWED);
            holder.unharmed();
            assert_eq!(waiter.wait().status, Some(0), "{flavour}, {kill}");
            scene.over(&["holder", "waiter"]);
        }
    });
}

/// Waits until a session of the account runs a query that contains `text`, and runs the statement `kill` with the id
/// of this session.
#[track_caller]
fn kill_session(scene: &Scene, kill: &str, text: &str) {
    let mut admin = scene.database.admin_conn();
    let find = format!(
        "SELECT id FROM {SESSIONS} AS p WHERE user='{}' AND info LIKE '%{text}%'",
        scene.database.user
    );
    eventually(text, || {
        let session: Option<u64> = admin.first(&find);
        // The kill fails if the session has ended by now.
        session.is_some_and(|session| admin.query_drop(format!("{kill} {session}")).is_ok())
    });
}

/// Error codes: deadlock, lock wait timeout, error during commit, disk full, read-only, query killed, node without its
/// cluster, and the error that a cluster or a proxy returns for named locks.
const ERRORS: [u16; 8] = [1213, 1205, 1180, 1021, 1290, 1317, 1047, 1105];

/// Makes every update of the row fail with `code`.
fn failing(scene: &Scene, code: u16) -> Undo {
    let trigger = format!(
        "CREATE TRIGGER refuse BEFORE UPDATE ON dlock_lock FOR EACH ROW \
         SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO={code},MESSAGE_TEXT='refused'"
    );
    changed(scene.database.admin_conn(), &trigger, "DROP TRIGGER refuse")
}

#[test]
fn an_attempt_or_renewal_that_fails_with_a_server_error_is_retried() {
    on_each(|flavour| {
        let scene = Scene::new(flavour);
        for code in ERRORS {
            println!("{flavour}, {code}");
            let undo = failing(&scene, code);
            let asked = scene.proxy.asked(Kind::TryAcquire);
            // The ttl is long, since a busy server may take a second to create or drop a trigger.
            let holder = scene.start("holder", &["--ttl", "10s"], "");
            scene.proxy.wait_asked(Kind::TryAcquire, asked + 2);
            undo();
            let holder = holder.up();

            let undo = failing(&scene, code);
            scene.proxy.wait_more(Kind::Renew, 2);
            undo();
            scene.renewed();
            holder.unharmed();
        }
        scene.free();
        scene.over(&["holder"; ERRORS.len()]);
    });
}

#[test]
fn a_deleted_record_is_written_again_and_a_dropped_table_stops_the_holder_in_time() {
    on_each(|flavour| {
        let scene = Scene::new(flavour);
        let mut admin = scene.database.admin_conn();
        let mut change = |statement: &str| {
            eventually(statement, || admin.query_drop(statement).is_ok());
        };
        let holder = scene.holder(&[]);
        // Another session may lock the row or the table.
        change("DELETE FROM dlock_lock");
        holder.running.wait_for_output("init is renewed again");
        let outcome = holder.end();
        outcome.expect(4, "", "the database has lost the grant of init");
        assert_eq!(scene.contender().wait().status, Some(0), "{flavour}");

        let holder = scene.stubborn_holder("3s");
        change("DROP TABLE dlock_lock");
        let outcome = holder.running.wait();
        outcome.expect(76, "term\n", "cannot keep init: ");
        assert_eq!(scene.contender().wait().status, Some(0), "{flavour}");
        scene.over(&["holder", "contender", "holder", "contender"]);
    });
}
