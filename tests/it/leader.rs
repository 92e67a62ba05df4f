//! `dlock leader` and `dlock note`: who leads, and what the leader says.

use mysql::prelude::Queryable;
use serde_json::{Value, json};
use testkit::cli_runner::{Dlock, Running, eventually};
use testkit::command::write_message;
use testkit::holder::{Holder, token};
use testkit::on_each_flavour;
use testkit::proxy::{AcceptMode, Fault, Kind, Proxy};
use testkit::servers::{Database, Flavour, Server, shared};

use crate::serve::Page;

/// Runs `test` with a new database on each server.
fn on_both(test: impl Fn(Database)) {
    for flavour in Flavour::ALL {
        test(shared(flavour).database("leader"));
    }
}

fn leader(database: &Database, options: &[&str]) -> Dlock {
    Dlock::on(database, ["leader", "init"]).args(options)
}

/// Returns the field `leader` of the JSON, which has this exit status.
#[track_caller]
fn leader_json(database: &Database, status: i32) -> Value {
    let outcome = leader(database, &["--json"]).run();
    assert_eq!(outcome.status, Some(status), "{outcome:?}");
    let mut document: Value = serde_json::from_str(&outcome.stdout).expect("one JSON object");
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

/// Waits until `follower` has printed `text`.
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
    let count = database.admin_conn().query_first(sessions);
    count.expect("root has the privilege").expect("one row")
}

/// Returns the name of the lock for which followers wait. None if the session of the leader does not own it.
fn holder_lock(database: &Database) -> Option<String> {
    let name = "CONCAT('dlock-holder:',HEX(owner_id))";
    let query = format!("SELECT {name} FROM dlock_lock WHERE session_id=IS_USED_LOCK({name})");
    let found = database.admin_conn().query_first(query);
    found.expect("the table exists")
}

fn setup(database: &Database) {
    Dlock::on(database, ["exec", "init", "--", "true"])
        .run()
        .expect(0, "", "");
}

on_each_flavour!(leader_is_the_holder_with_a_live_exclusive_lease);
fn leader_is_the_holder_with_a_live_exclusive_lease(flavour: Flavour) {
    let database = shared(flavour).database("leader");
    leader(&database, &[]).run().expect(78, "", "tables");
    setup(&database);
    Dlock::on(&database, ["leader", "other"])
        .run()
        .expect(66, "", "other is unknown");
    leader(&database, &[])
        .run()
        .expect(66, "", "init has no leader");
    assert_eq!(leader_json(&database, 66), Value::Null);

    let options = ["--holder=10.0.0.7:80\nx", "--note=primary"];
    let holder = Holder::on(&database, &options);
    leader(&database, &[])
        .run()
        .expect(0, "10.0.0.7:80\\u{a}x\n", "");
    let found = leader_json(&database, 0);
    let since = found["since"].as_str().expect("a time");
    assert!(humantime::parse_rfc3339(since).is_ok(), "{since}");
    let expected = json!({
        "holder": "10.0.0.7:80\nx", "note": "primary", "token": token(&database),
        "host": found["host"], "pod": "", "since": since,
    });
    assert_eq!(found, expected);
    let operator = ["release", "init", "--yes"];
    Dlock::on(&database, operator).run().expect(0, "", "init");
    leader(&database, &[])
        .run()
        .expect(66, "", "init has no leader");
    drop(holder);

    let min_hold = ["exec", "other", "--min-hold=1h", "--", "true"];
    Dlock::on(&database, min_hold).run().expect(0, "", "");
    let other = Dlock::on(&database, ["leader", "other"]).run();
    other.expect(66, "", "other has no leader");

    let shared = Holder::on(&database, &["--shared", "--action=shared"]);
    let outcome = Dlock::on(&database, ["leader", "shared"]).run();
    outcome.expect(66, "", "several holders, so it has no leader");
    shared.end();
}

/// The documented query returns the same leader.
#[test]
fn documented_query_returns_the_leader() {
    let manual = include_str!("../../man/dlock-protocol.7");
    let (_, query) = manual
        .split_once("SELECT holder,note,token")
        .expect("the query");
    let (query, _) = query.split_once(";\n").expect("the end of the query");
    let query = format!("SELECT holder,note,token{query}").replace('?', "'init'");
    on_both(|database| {
        setup(&database);
        let found = || {
            let row = database.admin_conn().query_first(&query);
            row.expect("the query is valid") as Option<(Vec<u8>, Vec<u8>, u64)>
        };
        assert_eq!(found(), None);
        let holder = Holder::on(&database, &["--holder=A", "--note=primary"]);
        let expected = (b"A".to_vec(), b"primary".to_vec(), token(&database));
        assert_eq!(found(), Some(expected));
        let operator = ["release", "init", "--yes"];
        Dlock::on(&database, operator).run().expect(0, "", "init");
        assert_eq!(found(), None);
        drop(holder);
        let wait = Dlock::on(&database, ["wait", "init"]).run();
        assert_eq!(wait.status, Some(0), "{wait:?}");
        let holder = Holder::on(&database, &["--shared"]);
        assert_eq!(found(), None);
        holder.end();
        let min_hold = ["exec", "init", "--min-hold=1h", "--", "true"];
        Dlock::on(&database, min_hold).run().expect(0, "", "");
        assert_eq!(found(), None);
    });
}

#[test]
fn follower_waits_on_the_server_and_prints_each_leader() {
    on_both(|database| {
        setup(&database);
        let follower = follower(&database, &[]);
        // The grant and the release alone lock and wake: no renewal arrives, and the session stays after the release.
        let proxy = Proxy::to(database.port);
        let exec = Dlock::new(["exec"]).env("DLOCK_URL", database.url_through(proxy.port()));
        let first = Holder::start(exec, &["--holder=A", "--ttl=10m"]);
        proxy.every(Kind::Renew, Fault::LoseRequest);
        let released = proxy.next(Kind::Release, Fault::HoldResponse);
        let lock = holder_lock(&database).expect("the grant takes the lock");
        let mut admin = database.admin_conn();
        printed(&follower, "A\n");
        eventually("the follower waits on the server", || {
            waiting(&database) == 1
        });
        let second = Dlock::on(
            &database,
            ["exec", "init", "--holder=B", "--", "sleep", "3600"],
        );
        let second = second.start();
        second.wait_for_output("you are next");
        let session = "SELECT session_id FROM dlock_lock";
        let session: Option<u64> = admin.query_first(session).expect("a query");
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
        follower.signal("TERM");
        let printed = follower.wait().stdout;
        // Between two leaders there may be a moment without one.
        let leaders: Vec<&str> = printed.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(leaders, ["A", "B"], "{printed}");
        assert!(!printed.contains("\n\n\n"), "only changes: {printed:?}");
    });
}

/// A leader takes the lock for which followers wait again after its connection was lost.
#[test]
fn followers_wait_for_a_leader_that_has_reconnected() {
    on_both(|database| {
        setup(&database);
        let proxy = Proxy::to(database.port);
        let exec = Dlock::new(["exec"]).env("DLOCK_URL", database.url_through(proxy.port()));
        let holder = Holder::start(exec, &["--holder=A", "--ttl=3s"]);
        let follower = follower(&database, &[]);
        eventually("the follower waits", || waiting(&database) == 1);
        proxy.reset();
        proxy.wait_connections(2);
        eventually("the follower waits for the new session", || {
            holder_lock(&database).is_some() && waiting(&database) == 1
        });
        holder.end();
        printed(&follower, "A\n\n");
    });
}

#[test]
fn revoked_leader_is_none_at_once_for_followers() {
    on_both(|database| {
        setup(&database);
        let stubborn = r#"trap "" TERM; echo up >&2; while :; do sleep 1; done"#;
        let exec = [
            "exec",
            "init",
            "--holder=A",
            "--ttl=10m",
            "--grace=90s",
            "--",
        ];
        let holder = Dlock::on(&database, exec).args(["sh", "-c", stubborn]);
        let mut holder = holder.start();
        holder.wait_for_output("up");
        let follower = follower(&database, &[]);
        eventually("the follower waits", || waiting(&database) == 1);
        let operator = ["release", "init", "--yes"];
        Dlock::on(&database, operator).run().expect(0, "", "init");
        printed(&follower, "A\n\n");
        assert!(!holder.is_over(), "its command runs");
    });
}

on_each_flavour!(many_followers_see_the_next_leader);
/// The sessions on the server wake the followers one after another, so all of them see the change.
fn many_followers_see_the_next_leader(flavour: Flavour) {
    let database = shared(flavour).database("leader");
    setup(&database);
    let first = Holder::on(&database, &["--holder=A"]);
    let followers: Vec<_> = (0..20).map(|_| follower(&database, &[])).collect();
    eventually("all followers wait", || waiting(&database) == 20);
    first.end();
    let second = Holder::on(&database, &["--holder=B"]);
    for follower in &followers {
        printed(follower, "B\n");
    }
    second.end();
}

#[test]
fn follower_survives_an_outage_and_says_that_it_knows_nothing() {
    let mut server = Server::start(Flavour::MariaDb, &[]);
    let database = server.database("leader");
    setup(&database);
    let proxy = Proxy::to(database.port);
    let url = database.url_through(proxy.port());
    let through = |arguments: &[&str]| Dlock::new(arguments).env("DLOCK_URL", &url);
    let follower = through(&["leader", "init", "--follow", "--json"]).start();
    printed(&follower, r#""leader":null"#);
    proxy.door(AcceptMode::Refused);
    proxy.reset();
    printed(&follower, r#"{"action":"init","unknown":"#);
    through(&["leader", "init"])
        .run()
        .expect(69, "", "127.0.0.1");
    server.restart();
    proxy.retarget(server.port());
    proxy.door(AcceptMode::Open);
    eventually("the follower prints the state again", || {
        follower.stdout_so_far().ends_with("\"read_only\":false}\n")
    });
    let holder = Holder::on(&server.same(&database), &["--holder=A"]);
    printed(&follower, r#""holder":"A""#);
    holder.end();
}

/// Some servers have no named locks, or refuse them.
#[test]
fn follower_polls_without_named_locks() {
    on_both(|database| {
        setup(&database);
        let proxy = Proxy::rewriting(database.port, "GET_LOCK(", "NOT_LOCK(");
        let url = database.url_through(proxy.port());
        let follower = Dlock::new(["leader", "init", "--follow"]).env("DLOCK_URL", &url);
        let follower = follower.start();
        printed(&follower, "\n");
        let holder = Holder::start(Dlock::new(["exec"]).env("DLOCK_URL", &url), &["--holder=A"]);
        printed(&follower, "A\n");
        holder.end();
        printed(&follower, "A\n\n");
        assert_eq!(follower.stderr_so_far(), "");
    });
}

#[test]
fn wait_ends_with_the_first_leader() {
    on_both(|database| {
        setup(&database);
        let wait = leader(&database, &["--wait=10m"]).start();
        let holder = Holder::on(&database, &["--holder=A"]);
        wait.wait().expect(0, "A\n", "");
        holder.end();
        leader(&database, &["--wait=10ms"])
            .run()
            .expect(66, "", "init has no leader");
    });
}

on_each_flavour!(note_changes_only_the_own_current_lease);
fn note_changes_only_the_own_current_lease(flavour: Flavour) {
    let database = shared(flavour).database("leader");
    let dlock = env!("CARGO_BIN_EXE_dlock");
    let both = format!("{dlock} note new && {dlock} leader a --json && {dlock} leader b --json");
    let several = [
        "exec",
        "-a",
        "a",
        "-a",
        "b",
        "--note=old",
        "--",
        "sh",
        "-c",
        &both,
    ];
    let outcome = Dlock::on(&database, several).run();
    assert_eq!(
        outcome.stdout.matches(r#""note":"new""#).count(),
        2,
        "{outcome:?}"
    );

    let shared = ["exec", "s", "--shared", "--note=old", "--"];
    let in_slot = format!("{dlock} note new && {dlock} status s --json");
    let other = Holder::on(&database, &["--shared", "--action=s", "--note=other"]);
    let outcome = Dlock::on(&database, shared)
        .args(["sh", "-c", &in_slot])
        .run();
    let holders = |text: &str| {
        let document: Value = serde_json::from_str(text).expect("JSON");
        let holders = document["locks"][0]["holders"].clone();
        let holders = holders.as_array().expect("an array").clone();
        holders
            .into_iter()
            .map(|it| it["note"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(holders(&outcome.stdout), ["other", "new"], "{outcome:?}");
    other.end();

    let holder = Holder::on(&database, &["--note=mine"]);
    let token = token_of(&database, "init");
    let note = |token: u64| {
        let token = token.to_string();
        Dlock::on(
            &database,
            ["note", "late", "--action=init", "--token", &token],
        )
        .run()
    };
    note(token - 1).expect(76, "", "is not current");
    assert_eq!(leader_json(&database, 0)["note"], "mine");
    note(token).expect(0, "", "");
    assert_eq!(leader_json(&database, 0)["note"], "late");
    holder.end();
    note(token).expect(76, "", "is not current");
    Dlock::on(&database, ["note", "x"])
        .run()
        .expect(64, "", "--token");
}

fn token_of(database: &Database, action: &str) -> u64 {
    let query = format!("SELECT token FROM dlock_lock WHERE action='{action}'");
    let token = database.admin_conn().query_first(query);
    token.expect("the table exists").expect("the row exists")
}

on_each_flavour!(page_answers_who_leads);
fn page_answers_who_leads(flavour: Flavour) {
    let database = shared(flavour).database("leader");
    setup(&database);
    let page = Page::on(&database, &[]);
    assert_eq!(page.json("/leader?action=init")["leader"], Value::Null);
    assert_eq!(page.get("/leader?action=other").status, 404);
    assert_eq!(page.get("/leader").status, 400);
    let holder = Holder::on(&database, &["--holder=A"]);
    let printed = leader(&database, &["--json"]).run().stdout;
    let printed: Value = serde_json::from_str(&printed).expect("JSON");
    eventually("the page shows the leader", || {
        page.json("/leader?action=init") == printed
    });
    holder.end();
}
