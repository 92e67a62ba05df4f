//! Tests on a read-only server, which is normally a replica: some subcommands read from it, and dlock grants nothing there.

use testkit::cli_runner::{Dlock, Outcome, eventually};
use testkit::holder::Holder;
use testkit::on_each_flavour;
use testkit::servers::{Database, Flavour, Server, shared};
use testkit::sql::{Sql, connect};

use crate::faults::on_each;
use crate::old_replica::{copy, read_only};

/// Message of subcommands that read from a read-only server.
const MESSAGE: &str = "the server is read-only, probably a replica, and its data may be old";

/// Part of the message with which a check fails on a read-only server.
const REFUSAL: &str =
    "is read-only, probably a replica, and its data may be old; connect to the primary";

/// Part of the message with which dlock refuses to write to a read-only server.
const NEEDS_PRIMARY: &str = "is read-only, probably a replica, but dlock needs the primary";

/// Creates a database in which `init` has been granted once.
#[track_caller]
fn database(server: &Server) -> Database {
    let database = server.database("replica");
    Dlock::typed(&database, "exec -q -a init -- true").expect(0, "", "");
    database
}

/// Runs an inner exec with the variables of a command that ran under the present token.
#[track_caller]
fn inner(database: &Database) -> Outcome {
    Dlock::typed(database, "exec -a init --connect-timeout=6s")
        .env("DLOCK_ACTION", "init")
        .env("DLOCK_TOKEN", "1")
        .env("DLOCK_DATABASE_ADDRESS", "another")
        .args(["--", "true"])
        .run()
}

#[test]
fn status_and_history_report_a_read_only_server_and_checks_fail_there() {
    on_each(|flavour| {
        let primary = database(shared(flavour));
        let replica = copy(&primary, read_only(flavour));
        // There are no runs of the action `none`.
        for (words, status) in [
            ("status init", 0),
            ("status --all", 0),
            ("status init --json", 0),
            ("history init", 0),
            ("history none", 0),
            ("history --json", 0),
            ("leader init --json", 66),
        ] {
            let outcome = Dlock::typed(&replica, words).run();
            outcome.expect(status, &outcome.stdout, MESSAGE);
            let on_primary = Dlock::typed(&primary, words).run();
            assert!(!on_primary.stderr.contains(MESSAGE), "{on_primary:#?}");
            if words.ends_with("init --json") {
                for (outcome, is_read_only) in [(outcome, true), (on_primary, false)] {
                    assert_eq!(outcome.json()["read_only"], is_read_only, "{outcome:#?}");
                }
            }
        }
        let follower = Dlock::on(&replica, ["history", "--follow"]).start();
        eventually("the message", || follower.stderr_so_far().contains(MESSAGE));
        for words in [
            "status init --check",
            "check init --token 1",
            "note text --action=init --token=1",
            "wait init --connect-timeout=6s",
        ] {
            Dlock::typed(&replica, words).expect(69, "", REFUSAL);
        }
        inner(&replica).expect(69, "", REFUSAL);
        Dlock::typed(&primary, "status init --check").expect(0, "", "");
        Dlock::typed(&primary, "check init --token 1").expect(76, "", "token 1 is not current");
        Dlock::typed(&primary, "wait init --connect-timeout=6s").expect(0, "", "");
        inner(&primary).expect(0, "", "");
    });
}

on_each_flavour!(account_that_may_write_to_a_read_only_server_gets_no_lease_there);
/// A read-only server accepts the writes of some accounts, and dlock must refuse it also for them.
fn account_that_may_write_to_a_read_only_server_gets_no_lease_there(flavour: Flavour) {
    // A separate server, because the variable is global.
    let server = Server::start(flavour, &[]);
    let (database, empty) = (database(&server), server.database("empty"));
    let privilege = match flavour {
        Flavour::MariaDb => "READ ONLY ADMIN",
        Flavour::MySql => "CONNECTION_ADMIN",
    };
    let account = format!("'{}'@'%'", database.user);
    server.run(format!("GRANT {privilege} ON *.* TO {account}"));
    let holder = Holder::on(&database, &["--ttl=6s", "--action=held"]);
    server.run("SET GLOBAL read_only=ON");
    // The account may still write.
    let mut session = connect(&database.url()).expect("a session");
    session.run("INSERT INTO dlock_lock (action) VALUES ('other')");
    let exec = "exec -a init --connect-timeout=2s -- echo RAN";
    for words in [
        exec,
        "exec -n -a new --connect-timeout=1s -- echo RAN",
        "release init --pause=1h --yes",
        "forget init --once=k",
    ] {
        Dlock::typed(&database, words).expect(69, "", NEEDS_PRIMARY);
    }
    Dlock::typed(&empty, exec).expect(69, "", NEEDS_PRIMARY);
    // The open session of the holder does not renew the lease.
    holder.running.wait().exited(76);

    // A waiter gets the lock when the server becomes writable.
    let waiter = Dlock::on(&database, ["exec", "-a", "init", "--", "echo", "ran"]).start();
    waiter.wait_for_output(&format!("{NEEDS_PRIMARY}; trying again"));
    server.run("SET GLOBAL read_only=OFF");
    waiter.wait().expect(0, "ran\n", "trying again");
    Dlock::typed(&empty, exec).expect(0, "RAN\n", "");
}
