//! Tests that dlock stops the command if dlock cannot renew the lease in time, or if the lease is lost.

use testkit::cli_runner::{Dlock, Running};
use testkit::command::{Stage, is_alive, signal};
use testkit::holder::{steal, wait_renewals};
use testkit::on_each_flavour;
use testkit::servers::{Database, Flavour, Server, shared};

/// Starts a holder with a ttl of 6 s. Returns it with the process id of its command, which prints `term` on SIGTERM.
fn start(database: &Database, on_term: &str) -> (Running, String) {
    let exec = Dlock::typed(database, "exec -a init --ttl 6s");
    let trap = format!("trap 'echo term; {on_term}' TERM");
    let script = format!(r#"{trap}; echo $$ > "$1"; while :; do sleep 0.02; done"#);
    Stage::new().start_told(exec, &script)
}

on_each_flavour!(command_is_stopped_when_another_client_changes_the_owner_in_its_record);
fn command_is_stopped_when_another_client_changes_the_owner_in_its_record(flavour: Flavour) {
    let database = shared(flavour).database("lease");
    let free = |database: &Database| {
        database.run("UPDATE dlock_lock SET owner_id=NULL");
    };
    let taken = "lost init: init is held by a thief";
    let freed = "its record was freed by another session; stopping the command";
    let cases: [(_, fn(&Database), _); 3] = [
        ("exit 0", steal, taken),
        ("true", steal, taken),
        ("exit 0", free, freed),
    ];
    for (on_term, change, message) in cases {
        let (holder, pid) = start(&database, on_term);
        change(&database);
        holder.wait().expect(76, "term\n", message);
        assert!(!is_alive(&pid), "{flavour}: the command is alive");
        free(&database);
    }
}

/// The worst case is a server that accepts packets and never responds.
#[test]
fn command_is_stopped_before_a_lease_that_cannot_be_renewed_expires() {
    let server = Server::start(Flavour::of_this_test(), &[]);
    let database = server.database("lease");
    for on_term in ["exit 0", "true"] {
        let (holder, pid) = start(&database, on_term);
        wait_renewals(&database, 1);
        signal(server.pid(), "STOP");
        let outcome = holder.wait();
        signal(server.pid(), "CONT");
        outcome.expect(76, "term\n", "cannot keep init: ");
        assert!(!is_alive(&pid), "the command is alive");
    }
    // If the server stops responding before the release, the release only adds a message.
    let (holder, _) = start(&database, "exit 5");
    signal(server.pid(), "STOP");
    let outcome = holder.wait_after("TERM");
    signal(server.pid(), "CONT");
    outcome.expect(5, "term\n", "cannot release init: ");
}
