//! Two programs on one session of the server, or one session id that names two sessions.

use mysql::prelude::Queryable;
use mysql::{Conn, Opts};

use super::{no_overlap, one};
use crate::command::{Stage, heard, tell};
use crate::dlock::{Dlock, eventually};
use crate::faults::{Scene, on_each};
use crate::holder::Holder;
use crate::multiplexer;
use crate::proxy::{Door, Proxy};
use crate::servers::{Database, Server};
use crate::terminal::Terminal;

/// The queue lock and everything else that a session has belong to both clients. When one of them ends its command, no
/// contender may start while the command of the other runs.
#[test]
fn two_clients_of_one_session_never_let_two_commands_run() {
    on_each(|flavour| {
        let scene = Scene::new(flavour);
        let shared = scene
            .database
            .url_through(multiplexer::to(scene.database.port));
        // Both wait in line, one after the other, and are granted.
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
        assert_eq!(heard(&ready), "up", "{flavour}");

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
        let (token, _): (u64, u64) = one(&scene.database, row);
        tell(&go, "on");
        assert_eq!(other.wait().status, Some(4), "{flavour}");
        let (_, renewals): (u64, u64) = one(&scene.database, row);
        eventually("the lease is renewed or another's", || {
            let now: (u64, u64) = one(&scene.database, row);
            now.0 != token || now.1 > renewals
        });
        no_overlap(&scene, &flavour.to_string());
        tell(&own, "on");
        assert_eq!(holder.wait().status, Some(4), "{flavour}");
        assert_eq!(contender.wait().status, Some(0), "{flavour}");
        scene.over(&["holder", "contender"]);
    });
}

/// Connects until the server has given the id `wanted` to a session, and returns that.
#[track_caller]
fn stranger(database: &Database, wanted: u32) -> Conn {
    let account = Opts::from_url(&database.url()).expect("a URL");
    loop {
        let conn = Conn::new(account.clone()).expect("the account may log in");
        let id = conn.connection_id();
        assert!(id <= wanted, "the server has come to {id} already");
        if id == wanted {
            return conn;
        }
    }
}

#[test]
fn an_operators_release_never_ends_a_session_that_has_the_holders_id_since_a_restart() {
    on_each(|flavour| {
        let mut server = Server::start(flavour, &[]);
        let database = server.database("restarted");
        let setup = Dlock::on(&database, ["setup", "-q"]).run();
        setup.expect(0, "", "");
        let proxy = Proxy::to(database.port);
        // Ids begin anew with a restart: this leaves room for those who come before the stranger.
        for _ in 0..60 {
            database.admin_conn();
        }
        let through = Dlock::on(&database, ["exec"]);
        let through = through.env("DLOCK_URL", database.url_through(proxy.port()));
        let holder = Holder::start(through, &["--ttl", "10m"]);
        let session: u32 = one(&database, "SELECT session_id FROM dlock_lock");
        let mut terminal = Terminal::shell(&database);
        terminal.enters("$dlock release -a init; echo \"status $?\"");
        terminal.sees("release init? [y/N]");
        proxy.door(Door::Refused);
        server.restart();
        let mut stranger = stranger(&database, session);
        terminal.enters("y");
        terminal.sees("status ");
        let answer = stranger.query_first::<u64, _>("SELECT 1");
        assert!(
            matches!(answer, Ok(Some(1))),
            "{flavour}: the stranger's session is ended: {answer:?}"
        );
        // Its command reads a fifo that goes with it.
        drop(holder);
    });
}
