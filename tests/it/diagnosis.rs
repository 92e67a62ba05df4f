//! Tests of the diagnosis, the explanation of the state of a lock that `status` prints. Each test creates the real
//! cause: a holder that is frozen or killed, or a waiter that is dead. The module `cron` tests
//! leases that are held for `--min-hold`, and the module `clocks` tests incorrect clocks.

use serde_json::Value;
use testkit::cli_runner::{Dlock, eventually};
use testkit::holder::{Holder, status};
use testkit::on_each_flavour;
use testkit::servers::{Database, Flavour, shared};

use crate::history::{endings, runs};

/// Waits until the diagnosis is `word`, asserts that the text of the diagnosis starts with `start` and contains `part`,
/// and returns the status object.
#[track_caller]
fn wait_for_diagnosis(database: &Database, word: &str, start: &str, part: &str) -> Value {
    let mut object = Value::Null;
    eventually(&format!("the diagnosis is {word}"), || {
        object = status(database);
        object["diagnosis"] == word
    });
    let text = object["diagnosis_text"].as_str().expect("a string");
    assert!(text.starts_with(start) && text.contains(part), "{object}");
    object
}

on_each_flavour!(a_holder_is_reported_as_renewing_and_a_frozen_one_as_not_renewing);
fn a_holder_is_reported_as_renewing_and_a_frozen_one_as_not_renewing(flavour: Flavour) {
    let database = &shared(flavour).database("diagnosis");
    let pod = Dlock::on(database, ["exec"])
        .env("POD_NAME", "app-7d4f")
        .env("POD_NAMESPACE", "shop");
    // A renewal is overdue after 3 s.
    let holder = Holder::start(pod, &["--ttl=12s"]);
    database.wait_until("renewals>1 FROM dlock_lock");
    let seen = wait_for_diagnosis(database, "renewing", "held and renewing", "");
    assert_eq!(seen["session_alive"], true, "{seen}");
    let command = seen["command"].as_str().unwrap_or_default();
    assert!(command.starts_with("sh -c '"), "{seen}");
    let pod = [&seen["pod"], &seen["namespace"]];
    assert_eq!(pod, ["app-7d4f", "shop"], "{seen}");
    holder.running.signal("STOP");
    database.wait_until("renewed_at<UTC_TIMESTAMP(6)-INTERVAL 4 SECOND FROM dlock_lock");
    let (start, part) = ("not renewed for ", "the holder is frozen or cut off");
    let seen = wait_for_diagnosis(database, "not-renewing", start, part);
    assert_eq!(seen["state"], "held", "{seen}");
    assert_eq!(seen["session_alive"], true, "{seen}");
    let release = ["release", "-a", "init", "--yes", "--operator=alice"];
    let outcome = Dlock::on(database, release).run();
    let effect = "so its command may not stop at once; its lease ends in ";
    outcome.expect(0, "", effect);
    let start = "released by alice; not renewed for ";
    wait_for_diagnosis(database, "revoked", start, part);
}

on_each_flavour!(a_killed_holder_is_reported_as_gone_until_its_lease_expires);
fn a_killed_holder_is_reported_as_gone_until_its_lease_expires(flavour: Flavour) {
    let database = &shared(flavour).database("diagnosis");
    // In a pod, the host name is the name of the pod.
    let pod = Dlock::on(database, ["exec"]).env("KUBERNETES_SERVICE_HOST", "10.0.0.1");
    let holder = Holder::start(pod, &["--ttl=5m"]);
    let waiter = Dlock::on(database, ["exec", "-a", "init", "--", "true"]).start();
    waiter.wait_for_output("; you are next");
    holder.running.crash();
    let gone = "connection is gone: the holder is dead or cut off, can be taken over in ";
    waiter.wait_for_output(gone);
    waiter.signal("TERM");
    assert_eq!(waiter.wait().status, Some(143));
    let start = "holder's connection is gone (last renewal ";
    let seen = wait_for_diagnosis(database, "gone", start, "can be taken over in ");
    assert_eq!(seen["session_alive"], false, "{seen}");
    assert_eq!(seen["pod"], seen["host"], "{seen}");
    let next = Dlock::on(database, ["status", "init"]).run().stdout;
    assert!(next.starts_with("init: gone\n"), "{next}");
    let advice = "\nnext: You need not do anything: ";
    assert!(next.contains(advice), "{next}");
    // Only a living holder would renew the lease again.
    database.run("UPDATE dlock_lock SET expires_at=UTC_TIMESTAMP(6)-INTERVAL 1 SECOND");
    let seen = wait_for_diagnosis(database, "expired", "expired ", "can be taken over");
    assert_eq!(seen["state"], "expired", "{seen}");
    // A release leaves no lease behind, so a second one has nothing to do.
    let release = || Dlock::on(database, ["release", "-a", "init", "--yes"]).run();
    assert_eq!(release().status, Some(0));
    assert_eq!(release().status, Some(66));
    wait_for_diagnosis(database, "free", "free", "");
    let runs = runs(database, &[]);
    let mut outcomes: Vec<_> = endings(&runs).iter().map(|(outcome, _)| *outcome).collect();
    outcomes.sort_unstable();
    assert_eq!(outcomes, ["released", "revoked"]);
}

on_each_flavour!(a_dead_waiter_is_ahead_of_nobody_and_leaves_with_the_last_grant);
fn a_dead_waiter_is_ahead_of_nobody_and_leaves_with_the_last_grant(flavour: Flavour) {
    let database = &shared(flavour).database("diagnosis");
    let holder = Holder::on(database, &[]);
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
    let old = "enqueued_at<UTC_TIMESTAMP(6)-INTERVAL 1100000 MICROSECOND";
    database.wait_until(format!("COUNT(*)=2 FROM dlock_waiter WHERE {old}"));
    let third = waiter();
    third.wait_for_output("; 1 ahead of you");
    assert_eq!(holder.end().status, Some(3));
    for waiter in [second, third] {
        waiter.wait().expect(0, "ran\n", "dlock: acquired init in ");
    }
    assert_eq!(sessions(), [Value::Null; 0]);
    Dlock::on(database, ["status"]).expect(0, "nothing is held, and there are no waiters\n", "");
    // The next grant without a wait removes the entry, which is only hidden until then.
    waiter().wait().expect(0, "ran\n", "");
    let entries: u64 = database.value("SELECT COUNT(*) FROM dlock_waiter");
    assert_eq!(entries, 0);
}
