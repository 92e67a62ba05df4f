//! Tests of the diagnosis, the explanation of the state of a lock that `status` prints. Each test creates the real
//! cause: a holder that is frozen, killed or cut off from the server, or a lease that has expired or is held for
//! `--min-hold`. The module `release` tests revoked leases, and the module `clocks` tests incorrect clocks.

use mysql::prelude::Queryable;
use serde_json::Value;
use testkit::cli_runner::{Dlock, eventually};
use testkit::on_each_flavour;
use testkit::proxy::{Flow, Proxy};
use testkit::servers::{Database, Flavour, shared};

use crate::tree::{Holder, LEFT};

/// A ttl that is short enough for a test to wait for the expiry, and long enough to observe the lease before its
/// expiry.
const TTL: [&str; 2] = ["--ttl", "6s"];

/// Runs `test` with a new database on each kind of server.
fn everywhere(test: impl Fn(&Database)) {
    for flavour in Flavour::ALL {
        test(&shared(flavour).database("diagnosis"));
    }
}

/// Returns the JSON object of `init` in the output of `status --json`.
fn status(database: &Database) -> Value {
    let outcome = Dlock::on(database, ["status", "--json", "init"]).run();
    let document: Value = serde_json::from_str(&outcome.stdout)
        .unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
    document["locks"][0].clone()
}

/// Waits until the diagnosis is `word`, asserts that the text of the diagnosis starts with `start` and contains `part`,
/// and returns the status object.
#[track_caller]
fn wait_for_diagnosis(database: &Database, word: &str, start: &str, part: &str) -> Value {
    let mut object = Value::Null;
    eventually(&format!("the diagnosis is {word}"), || {
        object = status(database);
        object["diagnosis"] == word
    });
    let text = object["diagnosis_text"]
        .as_str()
        .expect("a string")
        .to_owned();
    assert!(text.starts_with(start), "{object}");
    assert!(text.contains(part), "{object}");
    object
}

#[test]
fn a_healthy_holder_is_reported_as_held_and_renewing() {
    everywhere(|database| {
        let holder = Holder::start(database, &TTL);
        eventually("the lease is renewed", || {
            status(database)["renewals"].as_u64() > Some(1)
        });
        let seen = wait_for_diagnosis(database, "renewing", "held and renewing", "");
        assert_eq!(seen["session_alive"], true, "{seen}");
        let command = seen["command"].as_str().unwrap_or_default();
        assert!(command.starts_with("sh -c '"), "{seen}");
        holder.let_go();
        holder.running.wait().expect(4, "", LEFT);
        wait_for_diagnosis(database, "free", "free", "");
    });
}

#[test]
fn a_holder_in_kubernetes_is_shown_with_its_pod_and_namespace() {
    everywhere(|database| {
        let exec = || Dlock::on(database, ["exec", "-a", "init"]);
        let in_pod = exec()
            .env("POD_NAME", "app-7d4f")
            .env("POD_NAMESPACE", "shop");
        let holder = Holder::start_with(in_pod, &TTL);
        let seen = status(database);
        assert_eq!(
            [&seen["pod"], &seen["namespace"]],
            ["app-7d4f", "shop"],
            "{seen}"
        );
        holder.let_go();
        holder.running.wait().expect(4, "", LEFT);
        // In a pod, the host name is the name of the pod.
        let in_cluster = exec().env("KUBERNETES_SERVICE_HOST", "10.0.0.1");
        let holder = Holder::start_with(in_cluster, &TTL);
        let seen = status(database);
        assert_eq!(seen["pod"], seen["host"], "{seen}");
        holder.let_go();
        holder.running.wait().expect(4, "", LEFT);
    });
}

#[test]
fn a_frozen_process_is_reported_as_not_renewing() {
    everywhere(|database| {
        let holder = Holder::start(database, &TTL);
        holder.running.signal("STOP");
        let start = "not renewed for ";
        let part = "the holder is frozen or cut off";
        let seen = wait_for_diagnosis(database, "not-renewing", start, part);
        assert_eq!(seen["state"], "held", "{seen}");
        assert_eq!(seen["session_alive"], true, "{seen}");
        let release = ["release", "-a", "init", "--yes", "--operator=alice"];
        let outcome = Dlock::on(database, release).run();
        let effect = "so its command may not stop at once; its lease ends in ";
        outcome.expect(0, "", effect);
        wait_for_diagnosis(
            database,
            "revoked",
            "released by alice; not renewed for ",
            part,
        );
        holder.running.signal("CONT");
    });
}

on_each_flavour!(a_killed_holder_is_reported_as_gone_and_its_lease_expires);
fn a_killed_holder_is_reported_as_gone_and_its_lease_expires(flavour: Flavour) {
    let database = &shared(flavour).database("diagnosis");
    let holder = Holder::start(database, &TTL);
    holder.running.crash();
    let start = "holder's connection is gone (last renewal ";
    let seen = wait_for_diagnosis(database, "gone", start, "can be taken over in ");
    assert_eq!(seen["session_alive"], false, "{seen}");
    let next = Dlock::on(database, ["status", "init"]).run().stdout;
    assert!(next.starts_with("init: gone\n"), "{next}");
    assert!(
        next.contains("\nnext: You need not do anything: "),
        "{next}"
    );
    let seen = wait_for_diagnosis(database, "expired", "expired ", "can be taken over");
    assert_eq!(seen["state"], "expired", "{seen}");
    // A release leaves no lease behind, so a second one has nothing to do.
    let release = || Dlock::on(database, ["release", "-a", "init", "--yes"]).run();
    eventually("the rule for a take-over allows the release", || {
        release().status == Some(66)
    });
    wait_for_diagnosis(database, "free", "free", "");
    let entry = crate::history::runs(database, &[]);
    let outcomes: Vec<_> = crate::history::endings(&entry)
        .into_iter()
        .map(|(it, _)| it)
        .collect();
    assert!(
        outcomes.contains(&"revoked") && outcomes.contains(&"released"),
        "{outcomes:?}"
    );
}

#[test]
fn a_dead_waiter_is_ahead_of_nobody_and_leaves_with_the_last_grant() {
    everywhere(|database| {
        let holder = Holder::start(database, &TTL);
        let waiter = || Dlock::on(database, ["exec", "-a", "init", "--", "echo", "ran"]).start();
        let dead = waiter();
        dead.wait_for_output("; you are next");
        let second = waiter();
        second.wait_for_output("; 1 ahead of you");
        dead.signal("KILL");
        let sessions = || {
            let waiters = status(database)["waiters"].clone();
            let sessions = waiters.as_array().expect("an array").iter();
            sessions.map(|it| it["alive"].clone()).collect::<Vec<_>>()
        };
        eventually("the session has ended", || {
            sessions() == [Value::Bool(false), Value::Bool(true)]
        });
        // An entry that is older than a second is compared with the sessions.
        eventually("the entry is old enough", || {
            status(database)["waiters"][0]["waited_ms"].as_u64() > Some(1100)
        });
        let third = waiter();
        third.wait_for_output("; 1 ahead of you");
        holder.let_go();
        holder.running.wait().expect(4, "", LEFT);
        for waiter in [second, third] {
            waiter.wait().expect(0, "ran\n", "dlock: acquired init in ");
        }
        assert_eq!(sessions(), [Value::Null; 0]);
        let active = Dlock::on(database, ["status"]).run();
        active.expect(0, "nothing is held, and there are no waiters\n", "");
        // The next grant without a wait removes the entry, which is only hidden until then.
        let entries = || -> Option<u64> {
            let count = "SELECT COUNT(*) FROM dlock_waiter";
            database
                .admin_conn()
                .query_first(count)
                .expect("root may read")
        };
        waiter().wait().expect(0, "ran\n", "");
        assert_eq!(entries(), Some(0));
    });
}

on_each_flavour!(the_first_waiter_of_a_dead_holder_says_that_it_is_gone);
fn the_first_waiter_of_a_dead_holder_says_that_it_is_gone(flavour: Flavour) {
    let database = &shared(flavour).database("diagnosis");
    let holder = Holder::start(database, &["--ttl", "1m"]);
    let waiter = Dlock::on(database, ["exec", "-a", "init", "--", "true"]).start();
    waiter.wait_for_output("; you are next");
    holder.running.crash();
    waiter.wait_for_output(
        "connection is gone: the holder is dead or cut off, can be taken over in ",
    );
}

on_each_flavour!(a_holder_that_is_cut_off_is_reported_like_a_frozen_holder);
fn a_holder_that_is_cut_off_is_reported_like_a_frozen_holder(flavour: Flavour) {
    let database = &shared(flavour).database("diagnosis");
    let proxy = Proxy::to(database.port);
    let through = Dlock::on(database, ["exec", "-a", "init"])
        .env("DLOCK_URL", database.url_through(proxy.port()));
    let holder = Holder::start_with(through, &TTL);
    proxy.both(Flow::Lose);
    wait_for_diagnosis(database, "not-renewing", "not renewed for ", "cut off");
    holder.running.wait().expect(76, "", "cannot keep init: ");
}

#[test]
fn a_lease_held_for_min_hold_is_reported_with_its_end_time() {
    everywhere(|database| {
        Dlock::on(
            database,
            ["exec", "-a", "init", "--min-hold=1h", "--", "true"],
        )
        .run()
        .expect(0, "", "");
        let seen = wait_for_diagnosis(database, "min-hold", "held for --min-hold until 20", "Z");
        assert_eq!(seen["state"], "held", "{seen}");
    });
}
