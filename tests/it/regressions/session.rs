//! Tests of two clients that share one server session, and of a foreign session that gets the id of the holder's former
//! session.

use mysql::Conn;
use testkit::cli_runner::{Dlock, eventually};
use testkit::command::{Stage, write_message};
use testkit::holder::Holder;
use testkit::multiplexer;
use testkit::proxy::{AcceptMode, Proxy};
use testkit::servers::{Database, Server};
use testkit::sql::{Sql, connect};
use testkit::terminal::Terminal;

use super::no_overlap;
use crate::faults::{Scene, on_each};

/// The two clients share all state of the session, including the queue lock. When the command of one client ends, no
/// contender may start its command while the command of the other client runs.
#[test]
fn clients_that_share_a_session_never_run_two_commands_of_one_action() {
    on_each(|flavour| {
        let scene = Scene::new(flavour);
        let shared = multiplexer::to(scene.database.port);
        let shared = scene.database.through(shared);
        // The client for `other` waits in the queue and is granted its action. After that, the client for `init` does
        // the same.
        let other_first = Holder::on(&scene.database, &["--action=other"]);
        let stage = Stage::new();
        let exec = Dlock::typed(&shared, "exec -q -a other --ttl 10m");
        let script = r#"echo up > "$1"; read -r word < "$2"; exit 4"#;
        let other = stage.launch(exec, script);
        scene.queued();
        other_first.end();
        assert_eq!(stage.told(), "up", "{flavour}");

        let first = Holder::on(&scene.database, &[]);
        let own = scene.stage.fifo("own");
        let script = r#"read -r word < "$3"; exit 4"#;
        let holder = scene.exec("holder", &[], script).arg(&own);
        let holder = holder.env("DLOCK_URL", shared.url()).start();
        scene.queued();
        first.end();
        eventually("the holder runs", || scene.witness() == "holder\n");

        let contender = scene.contender();
        scene.queued();
        let row = "SELECT token,renewals FROM dlock_lock WHERE action='init'";
        let (token, _): (u64, u64) = scene.database.value(row);
        stage.let_go("on");
        assert_eq!(other.wait().status, Some(4), "{flavour}");
        let (_, renewals): (u64, u64) = scene.database.value(row);
        eventually("the lease is renewed or taken over", || {
            let now: (u64, u64) = scene.database.value(row);
            now.0 != token || now.1 > renewals
        });
        no_overlap(&scene, &flavour.to_string());
        write_message(&own, "on");
        assert_eq!(holder.wait().status, Some(4), "{flavour}");
        assert_eq!(contender.wait().status, Some(0), "{flavour}");
        scene.over(&["holder", "contender"]);
    });
}

/// Opens connections until one of them has the session id `wanted`, and returns that connection.
#[track_caller]
fn foreign_session(database: &Database, wanted: u32) -> Conn {
    loop {
        let conn = connect(&database.url()).expect("the account can log in");
        let id = conn.connection_id();
        assert!(id <= wanted, "the server has already assigned the id {id}");
        if id == wanted {
            return conn;
        }
    }
}

#[test]
fn release_never_kills_a_foreign_session_with_the_holders_id() {
    on_each(|flavour| {
        let mut server = Server::start(flavour, &[]);
        let database = server.database("restarted");
        database.set_up();
        let proxy = Proxy::to(database.port);
        // After a restart, the server assigns session ids from 1. These connections increase the id of the holder's
        // session, so that other sessions can connect after the restart before the server assigns this id again.
        for _ in 0..60 {
            database.admin_conn();
        }
        let holder = Holder::on(&database.through(proxy.port()), &["--ttl", "10m"]);
        let session: u32 = database.value("SELECT session_id FROM dlock_lock");
        let mut terminal = Terminal::shell(&database);
        terminal.enters("$dlock release -a init; echo \"status $?\"");
        terminal.sees("release init? [y/N]");
        proxy.door(AcceptMode::Refused);
        server.restart();
        let mut foreign_session = foreign_session(&database, session);
        terminal.enters("y").sees("status ");
        // The foreign session was not killed.
        assert_eq!(foreign_session.value::<u64>("SELECT 1"), 1);
        // Dropping the holder removes the fifo that the command reads.
        drop(holder);
    });
}
