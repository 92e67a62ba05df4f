//! `--server-sessions`: the sessions that a command leaves on the server have ended before another command starts.
//!
//! - `scene`: a command whose statement waits for a row lock of the test. The server does not notice that the client of
//!   such a statement is dead.
//! - `bystanders`: sessions of other programs, which dlock never ends
//! - `killed`: sessions of a command whose dlock is killed, and of the process of `dlock hold --pid`
//! - `limits`: sessions that dlock cannot find or cannot end
//! - `other_host`: sessions on a server to which dlock is not connected
//! - this file: who ends the sessions, and when
//!
//! A note that another session has got the id of a noted session is in the unit tests of `src/store/session`.

mod bystanders;
mod killed;
mod limits;
mod other_host;
mod scene;

use std::fs;

use testkit::cli_runner::{Running, eventually};
use testkit::command::{signal, write_message};
use testkit::holder::wait_renewals;
use testkit::on_each_flavour;
use testkit::servers::Flavour;

use self::bystanders::Bystander;
use self::scene::{COMMAND, Scene, below, beside};

const ENDED: &str = "ended 1 session that the command of init left on the server";
const ENDED_EARLIER: &str = "ended 1 session that an earlier run of init left on the server";

/// A ttl that ends during a test, and is long enough for a busy machine to note a session.
const SHORT: [&str; 2] = ["--ttl", "8s"];

on_each_flavour!(only_the_sessions_of_the_command_have_ended_when_dlock_exits);
fn only_the_sessions_of_the_command_have_ended_when_dlock_exits(flavour: Flavour) {
    let scene = Scene::new(flavour);
    // The same account, the same machine, the same statement, but not a process of the command.
    let mut bystander = scene.client_process();
    scene.wait_for_statements(1);
    // A session that the command inherits from dlock's caller.
    let mut caller = Bystander::on(&scene.database);
    let ends = |holder: Running, status: i32| {
        let outcome = holder.wait();
        assert_eq!(scene.statements(), 1, "{outcome:#?}");
        outcome.expect(status, "", ENDED);
        assert!(!scene.is_noted(), "{outcome:#?}");
    };

    let (holder, client) = scene.start_noted(scene.exec().inherit(caller.socket()), COMMAND);
    signal(client, "KILL");
    ends(holder, 137);
    (scene.dlock(["history", "init"])).shows("SIGKILL, ended 1 session ");

    // The command is a shell that fails after its client.
    let (holder, client) = scene.start_noted(scene.exec(), &below("exit 3"));
    signal(client, "KILL");
    ends(holder, 3);

    // The command succeeds, and leaves its client behind.
    let go = scene.stage.fifo("go");
    let command = beside(&format!("read word < '{}'", go.display()));
    let (holder, _) = scene.start_noted(scene.exec(), &command);
    write_message(&go, "on");
    ends(holder, 0);

    // dlock stops the command. The client of MySQL ignores SIGTERM while it waits for the server.
    let (holder, _) = scene.start(&["--max-runtime", "10s", "--stop-signal", "KILL"]);
    ends(holder, 124);
    caller.assert_is_alive();
    bystander.kill().expect("the client can be killed");
    bystander.wait().expect("the client is a child");
}

on_each_flavour!(
    with_wait_the_lease_is_renewed_until_the_statement_ends_and_the_success_is_recorded
);
fn with_wait_the_lease_is_renewed_until_the_statement_ends_and_the_success_is_recorded(
    flavour: Flavour,
) {
    let mut scene = Scene::new(flavour);
    let [go, metrics] = [scene.stage.fifo("go"), scene.stage.path("metrics")];
    let exec = scene
        .exec()
        .args(["--once", "--ttl", "6s", "--server-sessions", "wait"])
        .arg("--metrics-file")
        .arg(&metrics);
    let command = beside(&format!("read word < '{}'", go.display()));
    let (holder, _) = scene.start_noted(exec, &command);
    write_message(&go, "on");
    holder.wait_for_output("which the command of init left on the server, has ended");
    let renewals = || -> u64 {
        let text = fs::read_to_string(&metrics).unwrap_or_default();
        let mut lines = text.lines();
        let line = lines.find(|line| line.starts_with("dlock_renewals_total{"));
        let number = line.and_then(|line| line.rsplit(' ').next());
        number.map_or(0, |number| number.parse().expect("a number"))
    };
    let before = renewals();
    let busy = scene.next(&["--wait", "1s"]).run();
    busy.expect(75, "", "init is held by");
    // The lease that the command had has expired after seven more renewals, one each second.
    wait_renewals(&scene.database, 7);
    // The renewals of this time count too.
    eventually("renewals are counted", || renewals() > before + 2);
    assert_eq!(scene.statements(), 1);
    // Without a lease, dlock tries for two seconds. The server ends each try after one second.
    scene.lock_record_until_waited(3);
    holder.wait().expect(0, "", "has ended");
    assert!(scene.is_updated(), "the statement was killed");
    scene.next(&["--once"]).expect(0, "", "init was done by ");
}

on_each_flavour!(statement_of_a_successful_command_continues);
fn statement_of_a_successful_command_continues(flavour: Flavour) {
    let scene = Scene::new(flavour);
    let go = scene.stage.fifo("go");
    let command = below(&format!("read word < '{}'; exit 0", go.display()));
    let (holder, client) = scene.start_noted(scene.exec(), &command);
    let waiter = scene.next(&[]).start_until("you are next");
    signal(client, "KILL");
    write_message(&go, "on");
    holder.wait().expect(0, "", "Killed");
    waiter.wait().expect(0, "1 statements\n", "init is held by");
    assert!(!scene.is_noted());

    // dlock waits only a moment for the list of sessions, which may be too short on a busy machine.
    let mut statements = 1;
    eventually("dlock reports the statement", || {
        let (holder, client) = scene.start_noted(scene.exec().arg("-v"), &below("exit 0"));
        signal(client, "KILL");
        statements += 1;
        let outcome = holder.wait().exited(0);
        (outcome.stderr).contains("still executes a statement on the server")
    });
    assert_eq!(scene.statements(), statements);
    assert!(!scene.is_noted());
}

on_each_flavour!(next_command_starts_after_the_statement_of_a_dead_holder_has_ended);
fn next_command_starts_after_the_statement_of_a_dead_holder_has_ended(flavour: Flavour) {
    let scene = Scene::new(flavour);
    let mut caller = Bystander::on(&scene.database);
    let exec = scene.exec().args(SHORT).inherit(caller.socket());
    let (holder, _) = scene.start_noted(exec, COMMAND);
    holder.crash();
    assert_eq!(scene.statements(), 1, "the statement outlives its client");
    scene.next(&[]).expect(0, "0 statements\n", ENDED_EARLIER);
    (scene.dlock(["history", "init"])).shows("exit 0, ended 1 session ");
    caller.assert_is_alive();
}

on_each_flavour!(a_program_without_the_safeguard_leaves_the_statement_alive);
/// Without the safeguard, the tests above would find the statement alive. This test shows that they would fail.
fn a_program_without_the_safeguard_leaves_the_statement_alive(flavour: Flavour) {
    let mut scene = Scene::new(flavour);
    scene.is_mutant = true;
    let (holder, client) = scene.start(&SHORT);
    signal(client, "KILL");
    holder.wait().expect(137, "", "");
    assert_eq!(scene.statements(), 1);
    scene.crash(&SHORT);
    let next = scene.next(&[]).run();
    next.expect(0, "2 statements\n", "init is held by");
}

on_each_flavour!(a_contender_waits_for_sessions_that_a_holder_did_not_want_to_be_killed);
/// While it waits, it renews its lease. After a failed renewal, it starts no command until another renewal succeeds.
fn a_contender_waits_for_sessions_that_a_holder_did_not_want_to_be_killed(flavour: Flavour) {
    let mut scene = Scene::new(flavour);
    scene.crash(&["--ttl", "4s", "--server-sessions", "wait"]);
    let next = scene.next(&["--ttl", "6s"]).start();
    next.wait_for_output("which an earlier run of init left on the server, has ended");
    scene.database.run(
        "CREATE TRIGGER refuse BEFORE UPDATE ON dlock_lock FOR EACH ROW SIGNAL SQLSTATE '45000'",
    );
    next.wait_for_output("cannot renew init");
    assert_eq!(scene.statements(), 1);
    scene.unlock();
    next.wait()
        .expect(69, "", "the lease of init cannot be renewed");
    assert!(scene.is_updated(), "the statement was killed");
}

on_each_flavour!(with_ignore_nothing_is_noted_or_awaited);
fn with_ignore_nothing_is_noted_or_awaited(flavour: Flavour) {
    const IGNORE: [&str; 2] = ["--server-sessions", "ignore"];
    let scene = Scene::new(flavour);
    let exec = scene.exec().args(IGNORE).args(["--ttl", "6s"]);
    let (holder, client) = scene.start_script(exec, COMMAND);
    wait_renewals(&scene.database, 3);
    assert!(!scene.is_noted());
    signal(client, "KILL");
    holder.wait().expect(137, "", "");
    assert_eq!(scene.statements(), 1);
    scene.next(&[]).expect(0, "1 statements\n", "");

    // The monitor of a killed dlock does not wait either. Without -q, the contender may print that it waits.
    let exec = scene.exec().args(IGNORE).args(["--ttl", "10m"]);
    let (holder, _) = scene.start_script(exec, COMMAND);
    holder.signal("KILL");
    let next = scene.next(&[&IGNORE[..], &["-q"]].concat()).run();
    next.expect(0, "2 statements\n", "");

    // A contender with this option ignores the sessions that an earlier run noted. The next contender ends them.
    scene.crash(&SHORT);
    let next = scene.next(&IGNORE).run();
    next.expect(0, "3 statements\n", "init is held by");
    scene.next(&[]).expect(0, "2 statements\n", ENDED_EARLIER);
}
