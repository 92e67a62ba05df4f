//! Tests of `dlock release`: an operator revokes a lease, or pauses and resumes an action. Two commands never run at
//! the same time, and the holder and the waiters print the operator's name.

use mysql::prelude::Queryable;
use testkit::cli_runner::{Dlock, Outcome};
use testkit::each_server::{everywhere, set_up};
use testkit::holder::{status, token};
use testkit::on_each_flavour;
use testkit::servers::{Database, Flavour, shared};
use testkit::terminal::Terminal;

use crate::history::{endings, runs};
use crate::tree::Holder;

/// Runs `dlock release` for `init` as the operator alice, without asking for confirmation.
fn release(database: &Database, options: &[&str]) -> Outcome {
    Dlock::on(database, ["release", "-a", "init", "--yes"])
        .args(["--operator", "alice", "--reason", "it hangs"])
        .args(options)
        .run()
}

fn try_once(database: &Database) -> Outcome {
    Dlock::on(database, ["exec", "-n", "-a", "init", "--", "echo", "ran"]).run()
}

/// Asserts that a contender is granted the lease. An earlier contender that has given up has the queue lock until the
/// server has ended its session, so this contender may wait.
#[track_caller]
fn is_granted(database: &Database) {
    Dlock::typed(database, "exec --wait=10s -q init -- echo ran").expect(0, "ran\n", "");
}

#[test]
fn revoked_holder_stops_its_command_before_the_next_command_starts() {
    everywhere(|database| {
        // The next renewal is due in ten seconds, and the lease expires in a minute.
        let holder = Holder::start(database, &["--ttl", "1m", "--grace", "1s"]);
        let next = holder.next(database);
        let before = token(database);
        let outcome = release(database, &[]);
        for part in [
            "init is released: ",
            "stops its command now",
            "held and renewing",
        ] {
            outcome.expect(0, "", part);
        }
        let outcome = holder.running.wait();
        let lost = "lost init: released by alice (reason: it hangs); stopping the command";
        outcome.expect(76, "", lost);
        let times = outcome.stderr.matches(lost).count();
        assert_eq!(times, 1, "the loss is reported more than once: {outcome:?}");
        next.wait().expect(0, "alone\n", "init is held by");
        assert!(token(database) > before);
        let runs = runs(database, &[]);
        let wanted = [("exited", Some(0)), ("revoked", None), ("released", None)];
        assert_eq!(endings(&runs), wanted);
        assert_eq!(runs[2]["holder"], "alice");
        assert_eq!(runs[2]["note"], "it hangs");
        assert_eq!(runs[1]["token"], before);
    });
}

on_each_flavour!(revoked_lease_of_a_frozen_holder_is_not_granted_before_it_expires);
fn revoked_lease_of_a_frozen_holder_is_not_granted_before_it_expires(flavour: Flavour) {
    let database = &set_up(flavour);
    let holder = Holder::start(database, &["--ttl", "6s", "--grace", "1s"]);
    holder.running.signal("STOP");
    let next = holder.next(database);
    release(database, &[]).expect(0, "", "init is released: ");
    try_once(database).expect(75, "", "released by alice (reason: it hangs)");
    let seen = status(database);
    assert_eq!(seen["state"], "revoked", "{seen}");
    assert_eq!(seen["diagnosis"], "revoked", "{seen}");
    release(database, &[]).expect(0, "", "init is released: released by alice");
    next.wait().expect(0, "alone\n", "init is held by");
    (holder.running.wait_after("CONT")).expect(76, "", "cannot keep init: ");
    // The contender that took over does not record the run again.
    let wanted = [("exited", Some(0)), ("revoked", None), ("released", None)];
    assert_eq!(endings(&runs(database, &[])), wanted);
}

#[test]
fn release_changes_only_the_lease_that_the_operator_means() {
    everywhere(|database| {
        let unknown = "init is unknown: no process has held it, or it was removed";
        release(database, &[]).expect(66, "", unknown);
        release(database, &["--resume"]).expect(66, "", "init is not paused");
        is_granted(database);
        release(database, &[]).expect(66, "", "there is nothing to release: init is free");

        let holder = Holder::start(database, &["--grace", "1s"]);
        let before = token(database);
        let now = format!("init has token {before} now");
        release(database, &["--token", "17"]).expect(76, "", &now);
        assert_eq!(token(database), before);
        let current = before.to_string();
        release(database, &["--token", &current]).expect(0, "", "init is released: ");
        holder.running.wait().expect(76, "", "released by alice");

        Dlock::typed(database, "exec -a init --min-hold=1h -- true").expect(0, "", "");
        try_once(database).expect(75, "", "held for --min-hold");
        release(database, &[]).expect(0, "", "init is released");
        is_granted(database);
    });
}

#[test]
fn paused_action_is_not_granted_until_it_is_resumed() {
    everywhere(|database| {
        // The name may be misspelled.
        let unknown = "init is unknown: no process has held it, or it was removed; to pause it nevertheless, add --create";
        release(database, &["--pause", "1h"]).expect(66, "", unknown);
        let create = ["--pause", "1h", "--create"];
        release(database, &create).expect(0, "", "init is paused for 1h");
        try_once(database).expect(75, "", "init is paused for another 59m");
        Dlock::on(database, ["status", "--check", "init"]).expect(75, "", "");
        let seen = status(database);
        assert_eq!(seen["state"], "paused", "{seen}");
        assert_eq!(seen["operator"], "alice", "{seen}");
        Dlock::on(database, ["status"]).shows("by alice (reason: it hangs)");
        let waiter = Dlock::on(database, ["exec", "-a", "init", "--", "echo", "ran"])
            .start_until("init is paused for another 59m");
        let free = Dlock::on(database, ["wait", "init"]).start_until("init is paused for another");
        release(database, &["--resume"]).expect(0, "", "init is resumed");
        let outcome = waiter.wait();
        outcome.expect(0, "ran\n", "init is paused");
        assert!(!outcome.stderr.contains("next"), "{outcome:#?}");
        free.wait().expect(0, "", "init is paused");
        let wanted = [("exited", Some(0)), ("resumed", None), ("paused", None)];
        assert_eq!(endings(&runs(database, &[])), wanted);
    });
}

#[test]
fn action_paused_while_held_is_not_granted_after_its_holder() {
    everywhere(|database| {
        let holder = Holder::start(database, &["--grace", "1s"]);
        // After the server's clock was set back, the end of an old pause may be in the future again.
        let pause = "UPDATE dlock_lock SET paused_until=UTC_TIMESTAMP(6)+INTERVAL 1 HOUR";
        database.run(pause);
        let before = token(database);
        release(database, &["--resume"]).expect(66, "", "init is not paused");
        assert_eq!(token(database), before, "the lease is revoked");

        release(database, &["--pause", "1h"]).expect(0, "", "init is paused for 1h: ");
        holder.running.wait().expect(76, "", "released by alice");
        assert!(holder.witness.is_alone());
        try_once(database).expect(75, "", "init is paused for another 59m");
        release(database, &["--pause", "1us"]).expect(0, "", "init is paused");
        is_granted(database);
    });
}

on_each_flavour!(paused_action_is_not_granted_when_a_dead_holders_lease_expires);
fn paused_action_is_not_granted_when_a_dead_holders_lease_expires(flavour: Flavour) {
    let database = &set_up(flavour);
    let holder = Holder::start(database, &["--ttl", "3s"]);
    holder.running.crash();
    release(database, &["--pause", "1h"]).expect(0, "", "init is paused for 1h: ");
    database.wait_until("expires_at<UTC_TIMESTAMP(6) FROM dlock_lock");
    let seen = status(database);
    assert_eq!(seen["state"], "expired", "{seen}");
    assert!(seen["takeover_in_ms"].as_u64() > Some(3_000_000), "{seen}");
    Dlock::on(database, ["status", "--check", "init"]).expect(75, "", "");
    // The timeout is longer than the time after which a contender takes over an expired lease.
    Dlock::on(database, ["wait", "init", "--timeout=6s"]).expect(75, "", "paused for another 59m");
    try_once(database).expect(75, "", "paused for another 59m");
    release(database, &["--resume"]).expect(0, "", "init is resumed");
    is_granted(database);
}

#[test]
fn release_without_the_right_to_kill_takes_effect_at_the_next_renewal() {
    everywhere(|database| {
        let other = database.account("other");
        other.grant(&format!("ALL ON `{}`.*", other.name));
        // The lease is renewed every second.
        let holder = Holder::start(database, &["--ttl", "6s", "--grace", "1s"]);
        release(&other, &[]).expect(0, "", "stops its command at its next renewal");
        let outcome = holder.running.wait();
        outcome.expect(76, "", "lost init: released by alice (reason: it hangs)");
        assert!(!outcome.stderr.contains("has closed"), "{outcome:?}");
    });
}

#[test]
fn transaction_of_a_revoked_command_fails_at_its_fence() {
    everywhere(|database| {
        let holder = Holder::start(database, &["--fence", "--ttl", "1m"]);
        holder.running.signal("STOP");
        let before = token(database);
        let check = Dlock::on(database, ["check", "-a", "init", "--sql"])
            .env("DLOCK_TOKEN", before.to_string())
            .run()
            .stdout;
        let mut command = database.admin_conn();
        // The server reports the failed check when it evaluates the row, so the client must read the row.
        let mut checked = || command.query_first::<String, _>(&check);
        checked().expect("the token is current");
        release(database, &[]).expect(0, "", "init is released: ");
        let error = checked().expect_err("the token is stale");
        assert!(error.to_string().contains("1242"), "{error}");
        holder.running.signal("CONT");
    });
}

#[test]
fn release_asks_for_confirmation_and_accepts_only_yes() {
    let database = shared(Flavour::MariaDb).database("release");
    let holder = Holder::start(&database, &["--grace", "1s"]);
    let before = token(&database);
    let unconfirmed = "stdin is not a terminal, so --yes is required";
    Dlock::typed(&database, "release -a init").expect(64, "", unconfirmed);
    let mut terminal = Terminal::shell(&database);
    for answer in ["", "n", "yesterday"] {
        terminal.enters("$dlock release -a init; echo \"status $?\"");
        terminal.sees("diagnosis").sees("release init? [y/N]");
        terminal.enters(answer).sees("init is unchanged");
        terminal.sees("status 64");
    }
    assert_eq!(token(&database), before);
    terminal.enters("$dlock release -a init; echo \"status $?\"");
    terminal.sees("release init? [y/N]");
    terminal.enters("y").sees("status 0");
    (holder.running.wait()).expect(76, "", "lost init: released by ");
}
