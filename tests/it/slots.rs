//! Tests of leases with a limit above 1: `dlock exec --slots` and `--shared`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::cli_runner::{Dlock, Running};
use testkit::command::Stage;
use testkit::each_server::everywhere;
use testkit::holder::status;
use testkit::on_each_flavour;
use testkit::proxy::Proxy;
use testkit::servers::{Database, Flavour, SESSIONS, shared};

use crate::history::runs;

/// A run whose command runs until the test ends it.
struct Held {
    running: Running,
    stage: Stage,
}

impl Held {
    #[track_caller]
    fn start(database: &Database, options: &[&str]) -> Self {
        let held = Self::waiting(database, options);
        held.begins();
        held
    }

    /// Starts a run with `options` that has to wait.
    fn waiting(database: &Database, options: &[&str]) -> Self {
        let stage = Stage::new();
        let exec = Dlock::typed(database, "exec init --ttl=6s").args(options);
        let script = r#"echo "$DLOCK_SLOT $DLOCK_TOKEN" > "$1"; read word < "$2"; exit 3"#;
        let running = stage.launch(exec, script);
        Self { running, stage }
    }

    /// Waits until the command runs. Returns its slot and its token.
    #[track_caller]
    fn begins(&self) -> (u32, u64) {
        let message = self.stage.told();
        let (slot, token) = message.split_once(' ').expect("two numbers");
        let slot = slot.parse().expect("a slot");
        (slot, token.parse().expect("a token"))
    }

    #[track_caller]
    fn end(self) {
        self.stage.let_go("on");
        self.running.wait().exited(3);
    }
}

/// Asserts that a run with `options` finds no place at once.
#[track_caller]
fn is_refused(database: &Database, options: &[&str], message: &str) {
    let dlock = Dlock::on(database, ["exec", "init", "-n"]).args(options);
    dlock.args(["--", "true"]).expect(75, "", message);
}

fn held(database: &Database) -> u64 {
    database.value("SELECT COUNT(*) FROM dlock_slot WHERE owner_id IS NOT NULL")
}

#[track_caller]
fn waits(database: &Database, count: u64) {
    database.wait_until(format!("COUNT(*)={count} FROM dlock_waiter"));
}

#[test]
fn each_command_gets_the_smallest_free_slot_up_to_the_smallest_limit() {
    everywhere(|database| {
        let start = |wanted, options: &[&str]| {
            let held = Held::waiting(database, options);
            assert_eq!(held.begins().0, wanted);
            held
        };
        let one = start(1, &["--slots=3", "--holder=a"]);
        let two = start(2, &["--slots=2", "--holder=b"]);
        is_refused(database, &["--shared"], "(2 of 2 slots)");
        is_refused(database, &["--slots=9"], "(2 of 2 slots)");
        is_refused(database, &[], "init is held by");

        let lock = status(database);
        let holders = lock["holders"].as_array().expect("an array");
        let fields = ["slot", "slots", "holder", "session_alive"];
        let shown = |it: &Value| fields.map(|field| it[field].clone());
        let shown: Vec<_> = holders.iter().map(shown).collect();
        let wanted = json!([[1, 3, "a", true], [2, 2, "b", true]]);
        assert_eq!(json!(shown), wanted, "{lock:#}");
        assert_eq!((&lock["slots"], &lock["holder"]), (&json!(2), &json!("a")));
        let details = Dlock::on(database, ["status", "init"]).run().stdout;
        for part in ["2 of 2 slots; all held and renewing", "1 of 3", "2 of 2"] {
            assert!(details.contains(part), "{details}");
        }
        Dlock::on(database, ["list"]).shows("a +1");

        one.end();
        let lock = status(database);
        assert_eq!(lock["holders"][0]["slot"], json!(2), "{lock:#}");
        let one = start(1, &["--shared"]);
        two.end();
        let two = start(2, &["--slots=3"]);
        is_refused(database, &["--slots=2"], "(2 of 3 slots)");
        let three = start(3, &["--shared"]);
        [one, two, three].into_iter().for_each(Held::end);
        let lock = status(database);
        let state = (&lock["state"], &lock["holders"]);
        assert_eq!(state, (&json!("free"), &json!([])));
        start(1, &[]).end();
        is_free(database);

        // If the last holder could not free the record, it still says that leases are in slots.
        start(1, &["--shared"]).end();
        database.run("UPDATE dlock_lock SET owner_id=REPEAT(CHAR(0),16),expires_at='9999-12-31'");
        assert_eq!(status(database)["state"], json!("free"));
        let free = "there is nothing to release: init is free";
        Dlock::typed(database, "release init --yes").expect(66, "", free);
        Dlock::typed(database, "wait init --timeout=0").expect(0, "", "");
        start(1, &[]).end();
        is_free(database);
    });
}

#[track_caller]
fn is_free(database: &Database) {
    let count = database.value("SELECT COUNT(*) FROM dlock_lock WHERE owner_id IS NOT NULL");
    assert_eq!((count, held(database)), (0_u64, 0));
}

#[test]
fn contenders_with_different_limits_are_served_in_order() {
    everywhere(|database| {
        let reader = Held::start(database, &["--shared"]);
        let writer = Held::waiting(database, &[]);
        waits(database, 1);
        let readers = [2, 3].map(|count| {
            let waiting = Held::waiting(database, &["--shared"]);
            waits(database, count);
            waiting
        });
        reader.end();
        let (_, first) = writer.begins();
        let beside = held(database);
        assert_eq!(beside, 0, "readers wait behind the writer");
        writer.end();
        let [(_, second), (_, third)] = readers.each_ref().map(Held::begins);
        assert!(first < second.min(third) && second != third);
        readers.into_iter().for_each(Held::end);
        is_free(database);
    });
}

on_each_flavour!(lease_of_a_dead_holder_is_taken_over_after_its_ttl);
/// A crashed holder has no monitor either, so nobody releases its lease.
fn lease_of_a_dead_holder_is_taken_over_after_its_ttl(flavour: Flavour) {
    let two = &["--slots=2"][..];
    let database = shared(flavour).database("slots");
    let mut slots = Vec::new();
    for (before, next, is_full) in [(two, two, true), (two, &[], false), (&[], two, false)] {
        let dead = Held::start(&database, before);
        let other = is_full.then(|| Held::start(&database, two));
        dead.running.crash();
        let begin = Instant::now();
        let next = Held::start(&database, next);
        let took = begin.elapsed();
        assert!(took > Duration::from_secs(1), "{flavour}: {took:?}");
        next.end();
        if let Some(other) = other {
            other.end();
        }
        is_free(&database);
        let lost = "SELECT slot FROM dlock_history WHERE outcome='lost' ORDER BY token";
        let lost: Vec<Option<u32>> = database.rows(lost);
        slots.push((!before.is_empty()).then_some(1));
        assert_eq!(lost, slots, "{flavour}");
    }
    // `kill -9` of dlock alone leaves the monitor, which releases the lease.
    let killed = Held::start(&database, &["--shared", "--ttl=1h"]);
    killed.running.signal("KILL");
    Held::start(&database, &[]).end();
    is_free(&database);
}

/// Waits until the command of `held` is stopped because its lease is revoked.
#[track_caller]
fn is_stopped(held: Held) {
    held.running.wait().expect(76, "", "released by");
}

#[test]
fn release_names_a_slot_a_token_or_all_holders() {
    everywhere(|database| {
        let release = |options: &[&str]| {
            let release = Dlock::typed(database, "release init --yes --operator=ops");
            release.args(options).run()
        };
        let [one, two, three] =
            [(); 3].map(|()| Held::waiting(database, &["--shared", "--ttl=1h"]));
        let [_, token, _] = [&one, &two, &three].map(Held::begins);
        let ambiguous = "init has 3 holders: add --slot N for one of them, or --all";
        release(&[]).expect(64, "", ambiguous);
        release(&["--slot=9"]).expect(66, "", "slot 9 of init is not held");
        release(&["--token=9"]).expect(76, "", "run dlock status and try again");
        let by_token = format!("--token={}", token.1);
        let released = release(&[&by_token]);
        released.expect(0, "", &format!("slot {} of init is released", token.0));
        is_stopped(two);
        let all = "all 2 slots of init are released: the holders stop their commands now";
        release(&["--all"]).expect(0, "", all);
        is_stopped(one);
        is_stopped(three);
        is_free(database);
        let entries = runs(database, &["init"]);
        for (outcome, by) in [("revoked", json!("ops")), ("released", json!(null))] {
            let of_outcome = entries.iter().filter(|it| it["outcome"] == outcome);
            let slots = of_outcome.map(|it| (it["slot"].as_u64(), it["revoked_by"] == by));
            let mut slots: Vec<_> = slots.collect();
            slots.sort_unstable();
            let wanted = [1, 2, 3].map(|slot| (Some(slot), true));
            assert_eq!(slots, wanted, "{entries:#?}");
        }
        release(&["--slot=1"]).expect(66, "", "there is nothing to release");
        Held::start(database, &["--slots=2"]).end();
        Held::start(database, &[]).end();
        let ended = "SELECT slot FROM dlock_history WHERE outcome='exited' ORDER BY token";
        let ended: Vec<Option<u32>> = database.rows(ended);
        assert_eq!(ended, [Some(1), None]);
    });
}

#[test]
fn pause_revokes_all_slots_and_a_min_hold_keeps_each() {
    everywhere(|database| {
        let held = [(); 2].map(|()| Held::start(database, &["--slots=2", "--ttl=1h"]));
        let release =
            |option: &str| Dlock::on(database, ["release", "init", "--yes", option]).run();
        release("--pause=1h").expect(0, "", "init is paused for 1h");
        // The holders may still be stopping their commands.
        release("--resume").expect(0, "", "init is resumed");
        held.into_iter().for_each(is_stopped);
        release("--pause=1h").expect(0, "", "init is paused for 1h");
        is_refused(database, &["--slots=2"], "init is paused for another");
        is_refused(database, &[], "init is paused for another");
        assert_eq!(status(database)["state"], json!("paused"));
        release("--resume").expect(0, "", "init is resumed");

        // The rate limit of the manual: at most two runs within the time.
        let options = ["--slots=2", "--min-hold=1h"];
        for _ in 0..2 {
            Held::start(database, &options).end();
        }
        is_refused(database, &options, "(2 of 2 slots)");
        release("--slot=1").expect(0, "", "slot 1 of init is released");
        Held::start(database, &["--slots=2"]).end();
    });
}

#[test]
fn success_in_a_slot_counts_for_every_limit() {
    everywhere(|database| {
        for (name, once) in [("a", "--once=v1"), ("b", "--once-per=1h")] {
            let run = |limit: &[&str]| {
                let dlock = Dlock::on(database, ["exec", name, once]).args(limit);
                dlock.args(["--", "echo", "ran"]).run()
            };
            run(&["--slots=2"]).expect(0, "ran\n", "");
            for limit in [&["--slots=2"][..], &["--shared"], &[]] {
                run(limit).expect(0, "", "not run again");
            }
        }
    });
}

/// Both runs have started before one of them succeeds.
#[test]
fn successes_in_two_slots_at_once_both_count() {
    everywhere(|database| {
        for (name, once) in [("a", "--once=v1"), ("b", "--once-per=1h")] {
            let runs = [(); 2].map(|()| {
                let stage = Stage::new();
                let exec = Dlock::on(database, ["exec", name, "--slots=2", once]);
                let script = r#"echo up > "$1"; read word < "$2""#;
                (stage.start(exec, script), stage)
            });
            for (run, stage) in runs {
                stage.let_go("on");
                run.wait().expect(0, "", "");
            }
        }
    });
}

#[test]
fn inner_dlock_runs_under_an_outer_one_that_accepts_fewer_holders() {
    let database = shared(Flavour::of_this_test()).database("slots");
    let nested = |outer: &str, inner: &str| {
        let script = format!(
            r#"echo "$DLOCK_TOKEN"; "$dlock" exec init --wait=2s {inner} -- sh -c 'echo "$DLOCK_TOKEN"'"#
        );
        let dlock = Dlock::on(&database, ["exec", "init"]).args(outer.split_whitespace());
        let dlock = dlock.env("dlock", env!("CARGO_BIN_EXE_dlock"));
        dlock.args(["--", "sh", "-c", &script]).run()
    };
    for (outer, inner) in [
        ("", "--shared"),
        ("--slots=2", "--slots=2"),
        ("--slots=2", "--shared"),
        ("", ""),
    ] {
        let outcome = nested(outer, inner);
        let tokens: Vec<_> = outcome.stdout.lines().collect();
        let is_inside = tokens.len() == 2 && tokens[0] == tokens[1];
        let is_good = outcome.status == Some(0) && is_inside;
        assert!(is_good, "{inner} inside {outer}: {outcome:?}");
    }
    let exclusive =
        "an exclusive lock inside it would wait for it for ever: use --slots 3 here too";
    let two = "and --slots 2 inside it would wait for it for ever";
    for (outer, inner, wanted) in [
        ("--shared", "", "holds init with --shared"),
        ("--slots=3", "", exclusive),
        ("--slots=3", "--slots=2", two),
    ] {
        let outcome = nested(outer, inner);
        assert_eq!(outcome.status, Some(64), "{outcome:?}");
        assert!(outcome.stderr.contains(wanted), "{outcome:?}");
    }
}

on_each_flavour!(waiter_for_room_is_served_although_the_server_waits_for_an_hour);
/// A server measures a wait with its clock. If this clock is set back by an hour, MySQL waits an hour longer.
fn waiter_for_room_is_served_although_the_server_waits_for_an_hour(flavour: Flavour) {
    let database = shared(flavour).database("slots");
    let holders = [0, 1].map(|_| Held::start(&database, &["--slots=2"]));
    let proxy = Proxy::rewriting(database.port, "*POW(1.002,look)", "+3600           ");
    let proxied = database.through(proxy.port());
    let waiter = Dlock::typed(&proxied, "exec init --ttl=3s -- true").start();
    let sleeps = format!(
        "COUNT(*)>0 FROM {SESSIONS} AS s WHERE info LIKE '%SELECT look FROM %' AND id<>CONNECTION_ID()"
    );
    database.wait_until(&sleeps);
    holders.into_iter().for_each(Held::end);
    assert_eq!(waiter.wait().status, Some(0));
}
