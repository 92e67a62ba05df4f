//! `dlock leader` and `dlock note`: who leads, and what the leader says.

use mysql::prelude::Queryable;
use serde_json::{Value, json};
use testkit::cli_runner::{Dlock, Running, eventually};
use testkit::command::write_message;
use testkit::holder::{Holder, token};
use testkit::on_each_flavour;
use testkit::proxy::{AcceptMode, Fault, Kind, Proxy};
use testkit::servers::{Database, Flavour, shared};
use testkit::sql::Sql;

use crate::faults::on_each;
use crate::serve::Page;

/// Runs `test` with a new database with tables on each server, in parallel.
fn on_both(test: impl Fn(Database) + Sync) {
    on_each(|flavour| {
        let database = shared(flavour).database("leader");
        setup(&database);
        test(database);
    });
}

fn leader(database: &Database, options: &[&str]) -> Dlock {
    Dlock::on(database, ["leader", "init"]).args(options)
}

/// Returns the field `leader` of the JSON, which has this exit status.
#[track_caller]
fn leader_json(database: &Database, status: i32) -> Value {
    let outcome = leader(database, &["--json"]).run().exited(status);
    let mut document = outcome.json();
    assert_eq!(document["action"], "init");
    assert_eq!(document["read_only"], false);
    document["leader"].take()
}

/// Starts a follower, and waits until it has printed its first line.
fn follower(database: &Database, options: &[&str]) -> Running {
    let follower = leader(database, &["--follow"]).args(options).start();
    printed(&follower, "\n");
    follower
}

#[track_caller]
fn printed(follower: &Running, text: &str) {
    eventually(&format!("{text:?} is printed"), || {
        follower.stdout_so_far().contains(text)
    });
}

/// Returns the number of sessions that wait on the server for the end of a leader.
fn waiting(database: &Database) -> u64 {
    let sessions = "SELECT COUNT(*) FROM information_schema.processlist \
         WHERE db=DATABASE() AND info LIKE '%dlock-holder%' AND state='User lock'";
    database.value(sessions)
}

/// Returns the name of the lock for which followers wait. None if the session of the leader does not own it.
fn holder_lock(database: &Database) -> Option<String> {
    let name = "CONCAT('dlock-holder:',HEX(owner_id))";
    let query = format!("SELECT {name} FROM dlock_lock WHERE session_id=IS_USED_LOCK({name})");
    database.first(query)
}

#[track_caller]
fn has_none(database: &Database, name: &str, why: &str) {
    Dlock::on(database, ["leader", name]).expect(66, "", &format!("{name} {why}"));
    assert_eq!(documented(database, name), None);
}

fn setup(database: &Database) {
    Dlock::on(database, ["exec", "init", "--", "true"]).expect(0, "", "");
}

/// Returns the leader of `name` as the documented query returns it.
fn documented(database: &Database, name: &str) -> Option<(Vec<u8>, Vec<u8>, u64)> {
    let manual = include_str!("../../man/dlock-protocol.7");
    let (_, query) = manual
        .split_once("SELECT holder,note,token")
        .expect("the query");
    let (query, _) = query.split_once(";\n").expect("the end of the query");
    let query = format!("SELECT holder,note,token{query}").replace('?', &format!("'{name}'"));
    database.first(query)
}

on_each_flavour!(leader_is_the_holder_with_a_live_exclusive_lease);
/// The page and the documented query return the same leader, and waiting ends with the first one.
fn leader_is_the_holder_with_a_live_exclusive_lease(flavour: Flavour) {
    let database = shared(flavour).database("leader");
    leader(&database, &[]).expect(78, "", "tables");
    setup(&database);
    has_none(&database, "other", "is unknown");
    has_none(&database, "init", "has no leader");
    assert_eq!(leader_json(&database, 66), Value::Null);
    leader(&database, &["--wait=10ms"]).expect(66, "", "init has no leader");
    let first = leader(&database, &["--wait=10m"]).start();
    let page = Page::on(&database, &[]);
    assert_eq!(page.json("/leader?action=init")["leader"], Value::Null);
    assert_eq!(page.get("/leader?action=other").status, 404);
    assert_eq!(page.get("/leader").status, 400);

    let options = ["--holder=10.0.0.7:80\nx", "--note=primary"];
    let holder = Holder::on(&database, &options);
    let line = "10.0.0.7:80\\u{a}x\n";
    first.wait().expect(0, line, "");
    leader(&database, &[]).expect(0, line, "");
    let found = leader_json(&database, 0);
    let since = found["since"].as_str().expect("a time");
    assert!(humantime::parse_rfc3339(since).is_ok(), "{since}");
    let expected = json!({
        "holder": "10.0.0.7:80\nx", "note": "primary", "token": token(&database),
        "host": found["host"], "pod": "", "since": since,
    });
    assert_eq!(found, expected);
    eventually("the page shows the leader", || {
        page.json("/leader?action=init")["leader"] == expected
    });
    let row = (
        b"10.0.0.7:80\nx".to_vec(),
        b"primary".to_vec(),
        token(&database),
    );
    assert_eq!(documented(&database, "init"), Some(row));
    Dlock::typed(&database, "release init --yes").expect(0, "", "init");
    has_none(&database, "init", "has no leader");
    drop(holder);

    Dlock::typed(&database, "exec other --min-hold=1h -- true").expect(0, "", "");
    has_none(&database, "other", "has no leader");

    let shared = Holder::on(&database, &["--shared", "--action=shared"]);
    has_none(
        &database,
        "shared",
        "is held by several holders, so it has no leader",
    );
    shared.end();
}

#[test]
fn follower_waits_on_the_server_and_prints_each_leader() {
    on_both(|database| {
        let follower = follower(&database, &[]);
        // The grant and the release alone lock and wake: no renewal arrives, and the session stays after the release.
        let proxy = Proxy::to(database.port);
        let first = Holder::on(
            &database.through(proxy.port()),
            &["--holder=A", "--ttl=10m"],
        );
        proxy.every(Kind::Renew, Fault::LoseRequest);
        let released = proxy.next(Kind::Release, Fault::HoldResponse);
        let lock = holder_lock(&database).expect("the grant takes the lock");
        let mut admin = database.admin_conn();
        printed(&follower, "A\n");
        eventually("the follower waits", || waiting(&database) == 1);
        let second = Dlock::typed(&database, "exec init --holder=B -- sleep 3600").start();
        second.wait_for_output("you are next");
        let session: Option<u64> = admin.first("SELECT session_id FROM dlock_lock");
        write_message(&first.go(), "on");
        eventually("the release frees the lock before the session ends", || {
            let ended_last = "SELECT IS_FREE_LOCK(?) AND EXISTS(SELECT 1 FROM information_schema.processlist WHERE id=?)";
            let found = admin.exec_first(ended_last, (&lock, session));
            found.expect("a query") == Some(true)
        });
        printed(&follower, "B\n");
        released.let_go();
        assert_eq!(first.running.wait().status, Some(3));
        eventually("the follower waits again", || waiting(&database) == 1);
        second.signal("TERM");
        printed(&follower, "B\n\n");
        let printed = follower.wait_after("TERM").stdout;
        // Between two leaders there may be a moment without one.
        let leaders: Vec<&str> = printed.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(leaders, ["A", "B"], "{printed}");
        assert!(!printed.contains("\n\n\n"), "only changes: {printed:?}");
    });
}

/// A leader takes the lock for which followers wait again after its connection was lost. A revocation frees it at once. The
/// sessions on the server wake the followers one after another, so all of them see the change.
#[test]
fn many_followers_wait_for_a_leader_that_has_reconnected_until_it_is_revoked() {
    on_both(|database| {
        let proxy = Proxy::to(database.port);
        let stubborn = r#"trap "" TERM; echo up >&2; while :; do sleep 1; done"#;
        let exec = "exec init --holder=A --ttl=60s --grace=30s -- sh -c";
        let exec = Dlock::typed(&database.through(proxy.port()), exec);
        let mut holder = exec.arg(stubborn).start_until("up");
        let followers: Vec<_> = (0..8).map(|_| follower(&database, &[])).collect();
        eventually("all followers wait", || waiting(&database) == 8);
        proxy.reset();
        proxy.wait_connections(2);
        eventually("the followers wait for the new session", || {
            holder_lock(&database).is_some() && waiting(&database) == 8
        });
        Dlock::typed(&database, "release init --yes").expect(0, "", "init");
        for follower in &followers {
            printed(follower, "A\n\n");
        }
        assert!(!holder.is_over(), "its command runs");
    });
}

#[test]
fn follower_survives_an_outage_and_says_that_it_knows_nothing() {
    let database = shared(Flavour::of_this_test()).database("leader");
    setup(&database);
    let proxy = Proxy::to(database.port);
    let proxied = database.through(proxy.port());
    let follower = leader(&proxied, &["--follow", "--json"]).start();
    printed(&follower, r#""leader":null"#);
    proxy.door(AcceptMode::Refused);
    proxy.reset();
    printed(&follower, r#"{"action":"init","unknown":"#);
    leader(&proxied, &[]).expect(69, "", "127.0.0.1");
    proxy.door(AcceptMode::Open);
    eventually("the follower prints the state again", || {
        follower.stdout_so_far().ends_with("\"read_only\":false}\n")
    });
    let holder = Holder::on(&database, &["--holder=A"]);
    printed(&follower, r#""holder":"A""#);
    holder.end();
}

/// Some servers have no named locks, or refuse them.
#[test]
fn follower_polls_without_named_locks() {
    on_both(|database| {
        let proxy = Proxy::rewriting(database.port, "GET_LOCK(", "NOT_LOCK(");
        let proxied = database.through(proxy.port());
        let follower = follower(&proxied, &[]);
        let holder = Holder::on(&proxied, &["--holder=A"]);
        printed(&follower, "A\n");
        holder.end();
        printed(&follower, "A\n\n");
        assert_eq!(follower.stderr_so_far(), "");
    });
}

on_each_flavour!(note_changes_only_the_own_current_lease);
fn note_changes_only_the_own_current_lease(flavour: Flavour) {
    let database = shared(flavour).database("leader");
    let dlock = env!("CARGO_BIN_EXE_dlock");
    let both = format!("{dlock} note new && {dlock} leader a --json && {dlock} leader b --json");
    let several = Dlock::typed(&database, "exec -a a -a b --note=old");
    let outcome = several.args(["--", "sh", "-c", &both]).run();
    let changed = outcome.stdout.matches(r#""note":"new""#).count();
    assert_eq!(changed, 2, "{outcome:?}");

    let in_slot = format!("{dlock} note new && {dlock} status s --json");
    let other = Holder::on(&database, &["--shared", "--action=s", "--note=other"]);
    let outcome = Dlock::typed(&database, "exec s --shared --note=old -- sh -c");
    let outcome = outcome.arg(in_slot).run();
    let document = outcome.json();
    let notes = [0, 1].map(|holder| &document["locks"][0]["holders"][holder]["note"]);
    assert_eq!(notes, ["other", "new"], "{outcome:?}");
    other.end();

    let holder = Holder::on(&database, &["--note=mine"]);
    let token: u64 = database.value("SELECT token FROM dlock_lock WHERE action='init'");
    let note = |token: u64| {
        let note = Dlock::typed(&database, "note late --action=init --token");
        note.arg(token.to_string()).run()
    };
    note(token - 1).expect(76, "", "is not current");
    assert_eq!(leader_json(&database, 0)["note"], "mine");
    note(token).expect(0, "", "");
    assert_eq!(leader_json(&database, 0)["note"], "late");
    holder.end();
    note(token).expect(76, "", "is not current");
    Dlock::typed(&database, "note x").expect(64, "", "--token");
}
