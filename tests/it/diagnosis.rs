//! What `status` says is the matter, each time with the real thing: a process that is frozen, killed or
//! cut off, a lease that lapsed or is only kept. Of one that was released `release` tells, of a clock
//! that was set `clocks`.

use serde_json::Value;

use crate::dlock::{Dlock, eventually};
use crate::proxy::{Flow, Proxy};
use crate::servers::{Database, Flavour, shared};
use crate::tree::Holder;

/// Short, so that a whole one goes by; long enough to see it while it does.
const TTL: [&str; 2] = ["--ttl", "6s"];

/// Runs `claim` on a fresh database of each kind of server.
fn everywhere(claim: impl Fn(&Database)) {
    for flavour in Flavour::ALL {
        claim(&shared(flavour).database("diagnosis"));
    }
}

/// How `status --json` shows the action.
fn status(database: &Database) -> Value {
    let outcome = Dlock::on(database, ["status", "--json", "init"]).run();
    let document: Value = serde_json::from_str(&outcome.stdout)
        .unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
    document["locks"][0].clone()
}

/// Waits for a diagnosis, which has to begin and to end with these words, and shows what else there is.
#[track_caller]
fn diagnosed(database: &Database, word: &str, begin: &str, end: &str) -> Value {
    let mut seen = Value::Null;
    eventually(&format!("it is {word}"), || {
        seen = status(database);
        seen["diagnosis"] == word
    });
    let text = seen["diagnosis_text"].as_str().expect("a text").to_owned();
    assert!(text.starts_with(begin), "{seen}");
    assert!(text.contains(end), "{seen}");
    seen
}

#[test]
fn a_holder_that_is_well_is_held_and_renewing() {
    everywhere(|database| {
        let holder = Holder::start(database, &TTL);
        eventually("it is renewed", || {
            status(database)["renewals"].as_u64() > Some(1)
        });
        let seen = diagnosed(database, "renewing", "held and renewing", "");
        assert_eq!(seen["session_alive"], true, "{seen}");
        assert_eq!(seen["command"], "sh", "{seen}");
        holder.let_go();
        holder.running.wait().expect(4, "", "");
        diagnosed(database, "free", "free", "");
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
        holder.running.wait().expect(4, "", "");
        // A pod is told its own name as that of its host.
        let in_cluster = exec().env("KUBERNETES_SERVICE_HOST", "10.0.0.1");
        let holder = Holder::start_with(in_cluster, &TTL);
        let seen = status(database);
        assert_eq!(seen["pod"], seen["host"], "{seen}");
        holder.let_go();
        holder.running.wait().expect(4, "", "");
    });
}

#[test]
fn a_frozen_process_is_told_by_its_silence() {
    everywhere(|database| {
        let holder = Holder::start(database, &TTL);
        holder.running.signal("STOP");
        let begin = "not renewing for ";
        let end = "its process is frozen or cut off; can be taken over in ";
        let seen = diagnosed(database, "silent", begin, end);
        assert_eq!(seen["state"], "held", "{seen}");
        assert_eq!(seen["session_alive"], true, "{seen}");
        holder.running.signal("CONT");
    });
}

#[test]
fn a_killed_process_is_told_by_its_connection_and_its_lease_lapses() {
    everywhere(|database| {
        let holder = Holder::start(database, &TTL);
        holder.running.signal("KILL");
        let begin = "holder's connection is gone, renewed ";
        let seen = diagnosed(database, "gone", begin, "can be taken over in ");
        assert_eq!(seen["session_alive"], false, "{seen}");
        let seen = diagnosed(database, "lapsed", "lapsed ", "can be taken over");
        assert_eq!(seen["state"], "lapsed", "{seen}");
    });
}

#[test]
fn a_holder_that_is_cut_off_looks_like_one_that_is_frozen() {
    everywhere(|database| {
        let proxy = Proxy::to(database.port);
        let through = Dlock::on(database, ["exec", "-a", "init"])
            .env("DLOCK_URL", database.url_through(proxy.port()));
        let holder = Holder::start_with(through, &TTL);
        proxy.both(Flow::Lose);
        diagnosed(database, "silent", "not renewing for ", "cut off");
        holder.running.wait().expect(76, "", "cannot keep init: ");
    });
}

#[test]
fn a_lease_that_is_only_kept_is_told_with_its_end() {
    everywhere(|database| {
        Dlock::on(
            database,
            ["exec", "-a", "init", "--min-hold=1h", "--", "true"],
        )
        .run()
        .expect(0, "", "");
        let seen = diagnosed(database, "kept", "kept by --min-hold until 20", "Z");
        assert_eq!(seen["state"], "held", "{seen}");
    });
}
