//! Tests of the subcommands that read from a read-only server, which is normally a replica.

use mysql::prelude::Queryable;
use mysql::{Conn, Opts};
use serde_json::Value;
use testkit::cli_runner::{Dlock, Outcome, eventually};
use testkit::holder::Holder;
use testkit::on_each_flavour;
use testkit::servers::{Database, Flavour, Server};

/// Message of `status` and `history` on a read-only server.
const MESSAGE: &str = "the server is read-only, probably a replica, and its data may be old";

/// Part of the message with which a check fails on a read-only server.
const REFUSAL: &str =
    "is read-only, probably a replica, and its data may be old; connect to the primary";

fn status(database: &Database, arguments: &[&str]) -> Outcome {
    Dlock::on(database, ["status"]).args(arguments).run()
}

fn history(database: &Database, arguments: &[&str]) -> Outcome {
    Dlock::on(database, ["history"]).args(arguments).run()
}

fn check(database: &Database, token: &str) -> Outcome {
    Dlock::on(database, ["check", "init", "--token", token]).run()
}

/// Returns the field `read_only` of the JSON of `status`.
fn field(database: &Database) -> Value {
    let outcome = status(database, &["--json"]);
    let document: Value = serde_json::from_str(&outcome.stdout).expect("the output is JSON");
    document["read_only"].clone()
}

/// Starts a server with a database that has a free action `init`.
fn server_with_tables(flavour: Flavour) -> (Server, Database) {
    // A separate server, because the variables are global.
    let server = Server::start(flavour, &[]);
    let database = server.database("replica");
    let run = Dlock::on(&database, ["exec", "-a", "init", "--", "true"]).run();
    run.expect(0, "", "");
    (server, database)
}

on_each_flavour!(status_and_history_report_a_read_only_server_and_checks_fail_there);
fn status_and_history_report_a_read_only_server_and_checks_fail_there(flavour: Flavour) {
    let (server, database) = server_with_tables(flavour);
    let mut root = server.admin();
    let variables: &[&str] = match flavour {
        Flavour::MariaDb => &["read_only"],
        Flavour::MySql => &["read_only", "super_read_only"],
    };
    for variable in variables {
        let mut set = |value| {
            root.query_drop(format!("SET GLOBAL {variable}={value}"))
                .expect("root has the privilege");
        };
        set("ON");
        for arguments in [&["init"][..], &["--all"], &["init", "--json"]] {
            let outcome = status(&database, arguments);
            assert_eq!(outcome.status, Some(0), "{flavour} {variable}");
            assert!(outcome.stderr.contains(MESSAGE), "{variable}: {outcome:?}");
        }
        assert_eq!(field(&database), true, "{flavour} {variable}");
        // There are no runs of the second action.
        for arguments in [&["init"][..], &["none"], &["--json"]] {
            let outcome = history(&database, arguments);
            assert_eq!(outcome.status, Some(0), "{flavour} {variable}");
            assert!(outcome.stderr.contains(MESSAGE), "{variable}: {outcome:?}");
        }
        let follower = Dlock::on(&database, ["history", "--follow"]).start();
        eventually("the message", || follower.stderr_so_far().contains(MESSAGE));
        let leader = Dlock::on(&database, ["leader", "init", "--json"]).run();
        assert_eq!(leader.status, Some(66), "{flavour} {variable}");
        assert!(leader.stderr.contains(MESSAGE), "{variable}: {leader:?}");
        assert!(leader.stdout.contains(r#""read_only":true"#), "{leader:?}");
        status(&database, &["init", "--check"]).expect(69, "", REFUSAL);
        check(&database, "1").expect(69, "", REFUSAL);
        let note = ["note", "text", "--action=init", "--token=1"];
        Dlock::on(&database, note).run().expect(69, "", REFUSAL);
        set("OFF");
        if *variable == "super_read_only" {
            // This variable also turns read_only on.
            root.query_drop("SET GLOBAL read_only=OFF")
                .expect("root has the privilege");
        }
    }
    let outcome = status(&database, &["init"]);
    assert!(!outcome.stderr.contains(MESSAGE), "{flavour}: {outcome:?}");
    assert_eq!(field(&database), false, "{flavour}");
    let outcome = history(&database, &["init"]);
    assert!(!outcome.stderr.contains(MESSAGE), "{flavour}: {outcome:?}");
    status(&database, &["init", "--check"]).expect(0, "", "");
    check(&database, "1").expect(76, "", "token 1 is not current");
}

on_each_flavour!(wait_and_an_inner_exec_do_not_trust_a_read_only_server);
fn wait_and_an_inner_exec_do_not_trust_a_read_only_server(flavour: Flavour) {
    let (server, database) = server_with_tables(flavour);
    let inner = |read_only: &str| {
        let mut root = server.admin();
        root.query_drop(format!("SET GLOBAL read_only={read_only}"))
            .expect("root has the privilege");
        // The variables of a command that ran under the present token.
        let exec = ["exec", "-a", "init", "--connect-timeout", "2s"];
        Dlock::on(&database, exec)
            .env("DLOCK_ACTION", "init")
            .env("DLOCK_TOKEN", "1")
            .env("DLOCK_DATABASE_ADDRESS", "another")
            .args(["--", "true"])
            .run()
    };
    inner("ON").expect(69, "", REFUSAL);
    let wait = ["wait", "init", "--connect-timeout", "2s"];
    Dlock::on(&database, wait).run().expect(69, "", REFUSAL);
    inner("OFF").expect(0, "", "");
    Dlock::on(&database, wait).run().expect(0, "", "");
}

on_each_flavour!(account_that_may_write_to_a_read_only_server_gets_no_lease_there);
/// A read-only server accepts the writes of some accounts, and dlock must refuse it also for them.
fn account_that_may_write_to_a_read_only_server_gets_no_lease_there(flavour: Flavour) {
    let (server, database) = server_with_tables(flavour);
    let mut root = server.admin();
    let privilege = match flavour {
        Flavour::MariaDb => "READ ONLY ADMIN",
        Flavour::MySql => "CONNECTION_ADMIN",
    };
    let account = format!("'{}'@'%'", database.user);
    root.query_drop(format!("GRANT {privilege} ON *.* TO {account}"))
        .expect("root may grant");
    let holder = Holder::on(&database, &["--ttl=3s", "--action=held"]);
    root.query_drop("SET GLOBAL read_only=ON")
        .expect("root has the privilege");
    // The account may still write.
    let url = database.url();
    let mut conn = Conn::new(Opts::from_url(&url).expect("a URL")).expect("a session");
    conn.query_drop("INSERT INTO dlock_lock (action) VALUES ('other')")
        .expect("the account may write");
    let refused = |words: &[&str]| {
        let outcome = Dlock::on(&database, words).run();
        outcome.expect(69, "", "is read-only, probably a replica, but dlock needs");
    };
    refused(&[
        "exec",
        "-a",
        "init",
        "--connect-timeout=2s",
        "--",
        "echo",
        "RAN",
    ]);
    refused(&["release", "init", "--pause=1h", "--yes"]);
    refused(&["forget", "init", "--once=k"]);
    // The open session of the holder does not renew the lease.
    let outcome = holder.running.wait();
    assert_eq!(outcome.status, Some(76), "{flavour}: {outcome:?}");
    root.query_drop("SET GLOBAL read_only=OFF")
        .expect("root has the privilege");
    Dlock::on(&database, ["exec", "-a", "init", "--", "echo", "RAN"])
        .run()
        .expect(0, "RAN\n", "");
}
