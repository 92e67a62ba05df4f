//! An operator ends a lease, closes an action, opens it again: nobody is hurt, everybody is told.

use mysql::prelude::Queryable;

use crate::dlock::{Dlock, Outcome, eventually};
use crate::history::{endings, runs};
use crate::servers::{Database, Flavour, shared};
use crate::terminal::Terminal;
use crate::tree::Holder;

/// Runs `claim` on a fresh database of each kind of server.
fn everywhere(claim: impl Fn(&Database)) {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("release");
        Dlock::on(&database, ["setup", "-q"])
            .run()
            .expect(0, "", "");
        claim(&database);
    }
}

/// `release` of `init` by alice, who is not asked.
fn release(database: &Database, options: &[&str]) -> Outcome {
    Dlock::on(database, ["release", "-a", "init", "--yes"])
        .args(["--holder", "alice", "--reason", "it hangs"])
        .args(options)
        .run()
}

fn token(database: &Database) -> u64 {
    let token = "SELECT token FROM dlock_lock WHERE action='init'";
    let found = database.admin_conn().query_first(token);
    found.expect("it can be read").expect("there is a row")
}

/// The one lock of `status --json`.
fn status(database: &Database) -> serde_json::Value {
    let outcome = Dlock::on(database, ["status", "--json", "init"]).run();
    let document: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    document["locks"][0].clone()
}

fn try_once(database: &Database) -> Outcome {
    Dlock::on(database, ["exec", "-n", "-a", "init", "--", "echo", "ran"]).run()
}

#[test]
fn a_released_holder_stops_its_command_at_once_and_the_next_starts_when_it_is_dead() {
    everywhere(|database| {
        // It would renew in ten seconds, and its lease would be over in a minute.
        let holder = Holder::start(database, &["--ttl", "1m", "--grace", "1s"]);
        let next = holder.next(database);
        let before = token(database);
        let outcome = release(database, &[]);
        outcome.expect(0, "", "init is released: ");
        assert!(
            outcome.stderr.contains("stops its command now"),
            "{outcome:?}"
        );
        assert!(outcome.stderr.contains("held and renewing"), "{outcome:?}");
        let outcome = holder.running.wait();
        let lost = "lost init: released by alice because it hangs; stopping the command";
        outcome.expect(76, "", lost);
        let times = outcome.stderr.matches(lost).count();
        assert_eq!(times, 1, "it asked again: {outcome:?}");
        next.wait().expect(0, "alone\n", "init is held by");
        assert!(token(database) > before);
        let runs = runs(database, &[]);
        assert_eq!(
            endings(&runs),
            [("exited", Some(0)), ("broken", None), ("released", None)]
        );
        assert_eq!(runs[2]["holder"], "alice");
        assert_eq!(runs[2]["note"], "it hangs");
        assert_eq!(runs[1]["token"], before);
    });
}

#[test]
fn a_release_of_a_frozen_holder_lets_nobody_in_before_its_lease_is_over() {
    everywhere(|database| {
        let holder = Holder::start(database, &["--ttl", "6s", "--grace", "1s"]);
        holder.running.signal("STOP");
        let next = holder.next(database);
        release(database, &[]).expect(0, "", "init is released: ");
        try_once(database).expect(75, "", "released by alice because it hangs");
        let seen = status(database);
        assert_eq!(seen["state"], "broken", "{seen}");
        assert_eq!(seen["diagnosis"], "broken", "{seen}");
        release(database, &[]).expect(0, "", "init is released: released by alice");
        next.wait().expect(0, "alone\n", "init is held by");
        holder.running.signal("CONT");
        holder.running.wait().expect(76, "", "cannot keep init: ");
        assert_eq!(
            endings(&runs(database, &[])),
            [("exited", Some(0)), ("broken", None), ("released", None)],
            "who took over has not recorded the run a second time"
        );
    });
}

#[test]
fn a_command_that_ends_before_its_holder_knows_leaves_the_action_free() {
    everywhere(|database| {
        let holder = Holder::start(database, &["--ttl", "1m"]);
        let broken = "UPDATE dlock_lock SET token=token+1,broken_at=UTC_TIMESTAMP(6)";
        database
            .admin_conn()
            .query_drop(broken)
            .expect("it can be changed");
        holder.let_go();
        let outcome = holder.running.wait();
        outcome.expect(
            76,
            "",
            "init was released by an operator before the command had ended",
        );
        try_once(database).expect(0, "ran\n", "");
    });
}

#[test]
fn nothing_is_done_to_another_grant_than_the_one_that_was_shown() {
    everywhere(|database| {
        let holder = Holder::start(database, &[]);
        let before = token(database);
        let outcome = release(database, &["--token", "17"]);
        outcome.expect(76, "", &format!("init has token {before} by now"));
        assert_eq!(token(database), before);
        let token = before.to_string();
        release(database, &["--token", &token]).expect(0, "", "init is released: ");
        holder.running.wait().expect(76, "", "released by alice");
    });
}

#[test]
fn what_nobody_holds_cannot_be_released_and_a_status_says_so() {
    everywhere(|database| {
        release(database, &[]).expect(66, "", "init is unknown: nobody has ever held it");
        release(database, &["--reopen"]).expect(66, "", "init is not closed");
        try_once(database).expect(0, "ran\n", "");
        release(database, &[]).expect(66, "", "there is nothing to release: init is free");
    });
}

#[test]
fn a_lease_that_is_only_kept_is_free_at_once() {
    everywhere(|database| {
        Dlock::on(
            database,
            ["exec", "-a", "init", "--min-hold=1h", "--", "true"],
        )
        .run()
        .expect(0, "", "");
        try_once(database).expect(75, "", "kept by --min-hold");
        release(database, &[]).expect(0, "", "init is released");
        try_once(database).expect(0, "ran\n", "");
    });
}

#[test]
fn a_closed_action_is_had_by_nobody_until_it_is_open_again() {
    everywhere(|database| {
        release(database, &["--hold-off", "1h"]).expect(0, "", "init is closed for 1h");
        try_once(database).expect(75, "", "init is closed for another 59m");
        Dlock::on(database, ["status", "--check", "init"])
            .run()
            .expect(75, "", "");
        let seen = status(database);
        assert_eq!(seen["state"], "closed", "{seen}");
        assert_eq!(seen["operator"], "alice", "{seen}");
        let table = Dlock::on(database, ["status"]).run().stdout;
        assert!(table.contains("by alice because it hangs"), "{table}");
        let waiter = Dlock::on(database, ["exec", "-a", "init", "--", "echo", "ran"]).start();
        waiter.heard("init is closed for another 59m");
        let free = Dlock::on(database, ["wait", "init"]).start();
        free.heard("init is closed for another");
        release(database, &["--reopen"]).expect(0, "", "init is open again");
        waiter.wait().expect(0, "ran\n", "init is closed");
        free.wait().expect(0, "", "init is closed");
        assert_eq!(
            endings(&runs(database, &[])),
            [("exited", Some(0)), ("reopened", None), ("closed", None)]
        );
    });
}

#[test]
fn an_action_that_is_closed_while_it_is_held_is_had_by_nobody_after_its_holder() {
    everywhere(|database| {
        let holder = Holder::start(database, &["--grace", "1s"]);
        release(database, &["--hold-off", "1h"]).expect(0, "", "init is closed for 1h: ");
        holder.running.wait().expect(76, "", "released by alice");
        assert!(holder.witness.is_alone());
        try_once(database).expect(75, "", "init is closed for another 59m");
        release(database, &["--hold-off", "1us"]).expect(0, "", "init is closed");
        try_once(database).expect(0, "ran\n", "");
    });
}

#[test]
fn a_closed_action_is_had_by_nobody_when_a_dead_holders_lease_is_over() {
    everywhere(|database| {
        let holder = Holder::start(database, &["--ttl", "3s"]);
        holder.running.signal("KILL");
        release(database, &["--hold-off", "1h"]).expect(0, "", "init is closed for 1h: ");
        eventually("the lease has lapsed", || {
            status(database)["state"] == "lapsed"
        });
        let seen = status(database);
        assert!(seen["takeable_in_ms"].as_u64() > Some(3_000_000), "{seen}");
        Dlock::on(database, ["status", "--check", "init"])
            .run()
            .expect(75, "", "");
        // Longer than a lapsed lease is left alone.
        Dlock::on(database, ["wait", "init", "--timeout=6s"])
            .run()
            .expect(75, "", "closed for another 59m");
        try_once(database).expect(75, "", "closed for another 59m");
        release(database, &["--reopen"]).expect(0, "", "init is open again");
        try_once(database).expect(0, "ran\n", "");
    });
}

#[test]
fn who_may_not_end_the_holders_session_is_obeyed_with_the_next_renewal() {
    everywhere(|database| {
        let mut other = database.clone();
        other.user = format!("other_{}", database.user);
        let account = format!("'{}'@'%'", other.user);
        let pattern = database.name.replace('_', "\\_");
        for statement in [
            format!("CREATE USER {account} IDENTIFIED BY '{}'", other.password),
            format!("GRANT ALL ON `{pattern}`.* TO {account}"),
        ] {
            database
                .admin_conn()
                .query_drop(statement)
                .expect("root may");
        }
        // Renewed every second.
        let holder = Holder::start(database, &["--ttl", "6s", "--grace", "1s"]);
        let outcome = release(&other, &[]);
        outcome.expect(0, "", "stops its command within 2s");
        let outcome = holder.running.wait();
        outcome.expect(76, "", "lost init: released by alice because it hangs");
        assert!(!outcome.stderr.contains("has closed"), "{outcome:?}");
    });
}

#[test]
fn a_transaction_of_a_released_command_fails_at_its_fence() {
    everywhere(|database| {
        let holder = Holder::start(database, &["--fence", "--ttl", "1m"]);
        holder.running.signal("STOP");
        let before = token(database);
        let check = Dlock::on(database, ["check", "-a", "init", "--sql"])
            .env("DLOCK_TOKEN", before.to_string())
            .run()
            .stdout;
        let mut command = database.admin_conn();
        // What fails is the row, so it has to be read.
        let mut checked = || command.query_first::<String, _>(&check);
        checked().expect("the token is current");
        release(database, &[]).expect(0, "", "init is released: ");
        let error = checked().expect_err("the token is stale");
        assert!(error.to_string().contains("1242"), "{error}");
        holder.running.signal("CONT");
    });
}

#[test]
fn an_operator_is_asked_and_only_a_yes_is_a_yes() {
    let database = shared(Flavour::MariaDb).database("release");
    let holder = Holder::start(&database, &[]);
    let before = token(&database);
    Dlock::on(&database, ["release", "-a", "init"])
        .run()
        .expect(64, "", "nobody can be asked here: give --yes");
    let mut terminal = Terminal::shell(&database);
    for answer in ["", "n", "yesterday"] {
        terminal.enters("$dlock release -a init; echo \"status $?\"");
        terminal.sees("diagnosis");
        terminal.sees("release init? [y/N]");
        terminal.enters(answer);
        terminal.sees("init is left as it is");
        terminal.sees("status 64");
    }
    assert_eq!(token(&database), before);
    terminal.enters("$dlock release -a init; echo \"status $?\"");
    terminal.sees("release init? [y/N]");
    terminal.enters("y");
    terminal.sees("status 0");
    holder
        .running
        .wait()
        .expect(76, "", "lost init: released by ");
}
