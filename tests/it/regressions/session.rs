//! Tests of two clients that share one server session, and of a foreign session that gets the id of the holder's former
//! session.

use mysql::prelude::Queryable;
use mysql::{Conn, Opts};
use testkit::cli_runner::{Dlock, eventually};
use testkit::command::{Stage, read_message, write_message};
use testkit::holder::Holder;
use testkit::multiplexer;
use testkit::proxy::{AcceptMode, Proxy};
use testkit::servers::{Database, Server};
use testkit::terminal::Terminal;

use super::no_overlap;
use crate::faults::{Scene, on_each};

/// The two clients share all state of the session, including the queue lock. When the command of one client ends, no
/// contender may start its command while the command of the other client runs.
#[test]
fn clients_that_share_a_session_never_run_two_commands_of_one_action() {
    on_each(|flavour| {
        let scene = Scene::new(flavour);
        let shared = scene
            .database
            .url_through(multiplexer::to(scene.database.port));
        // The client for `other` waits in the queue and is granted its action. After that, the client for `init` does
        // the same.
        let other_first = Holder::on(&scene.database, &["-a", "other"]);
        let stage = Stage::new();
        let [ready, go] = ["ready", "go"].map(|name| stage.fifo(name));
        let script = r#"echo up > "$1"; read -r word < "$2"; exit 4"#;
        let other = Dlock::new(["exec", "-q", "-a", "other", "--ttl", "10m"])
            .env("DLOCK_URL", &shared)
            .args(["--", "sh", "-c", script, "sh"])
            .arg(&ready)
            .arg(&go)
            .start();
        scene.queued();
        other_first.end();
        assert_eq!(read_message(&ready), "up", "{flavour}");

        let first = Holder::on(&scene.database, &[]);
        let own = scene.stage.fifo("own");
        let script = r#"read -r word < "$3"; exit 4"#;
        let holder = scene.exec("holder", &[], script).env("DLOCK_URL", &shared);
        let holder = holder.arg(&own).start();
        scene.queued();
        first.end();
        eventually("the holder runs", || scene.witness() == "holder\n");

        let contender = scene.contender();
        scene.queued();
        let row = "SELECT token,renewals FROM dlock_lock WHERE action='init'";
        let (token, _): (u64, u64) = scene.database.value(row);
        write_message(&go, "on");
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
    let account = Opts::from_url(&database.url()).expect("the URL is valid");
    loop {
        let conn = Conn::new(account.clone()).expect("the account can log in");
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
        let through = Dlock::on(&database, ["exec"]);
        let through = through.env("DLOCK_URL", database.url_through(proxy.port()));
        let holder = Holder::start(through, &["--ttl", "10m"]);
        let session: u32 = database.value("SELECT session_id FROM dlock_lock");
        let mut terminal = Terminal::shell(&database);
        terminal.enters("$dlock release -a init; echo \"status $?\"");
        terminal.sees("release init? [y/N]");
        proxy.door(AcceptMode::Refused);
        server.restart();
        let mut foreign_session = foreign_session(&database, session);
        terminal.enters("y");
        terminal.sees("status ");
        let response = foreign_session.query_first::<u64, _>("SELECT 1");
        assert!(
            matches!(response, Ok(Some(1))),
            "{flavour}: the foreign session was killed: {response:?}"
        );
        // Dropping the holder removes the fifo that the command reads.
        drop(holder);
    });
}
