//! Tests of leases with a limit above 1: `dlock exec --slots` and `--shared`. Only `dlock-mutant` has these options yet.

use std::time::{Duration, Instant};

use mysql::prelude::Queryable;

use crate::cli_runner::{Dlock, Running, eventually};
use crate::command::{Stage, read_message, write_message};
use crate::mutants::program;
use crate::servers::{Database, Flavour, shared};

/// Returns a run of the program that has the options.
fn dlock(database: &Database, arguments: &[&str]) -> Dlock {
    Dlock::of(&program(), arguments).env("DLOCK_URL", database.url())
}

/// A run whose command runs until the test ends it.
struct Held {
    running: Running,
    stage: Stage,
}

impl Held {
    /// Starts a run with `options`, and waits until its command runs.
    #[track_caller]
    fn start(database: &Database, options: &[&str]) -> Self {
        let held = Self::waiting(database, options);
        held.begins();
        held
    }

    /// Starts a run with `options` that has to wait.
    fn waiting(database: &Database, options: &[&str]) -> Self {
        let stage = Stage::new();
        let (ready, go) = (stage.fifo("ready"), stage.fifo("go"));
        let script = r#"echo "$DLOCK_TOKEN" > "$1"; read word < "$2"; exit 3"#;
        let running = dlock(database, &["exec", "init", "--ttl=3s"])
            .args(options)
            .args(["--", "sh", "-c", script, "sh"])
            .args([&ready, &go])
            .start();
        Self { running, stage }
    }

    /// Waits until the command runs. Returns its token.
    #[track_caller]
    fn begins(&self) -> u64 {
        let token = read_message(&self.stage.path("ready"));
        token.parse().expect("a token")
    }

    #[track_caller]
    fn end(self) {
        write_message(&self.stage.path("go"), "on");
        let outcome = self.running.wait();
        assert_eq!(outcome.status, Some(3), "{outcome:?}");
    }
}

/// Asserts that a run with `options` finds no place at once.
#[track_caller]
fn is_refused(database: &Database, options: &[&str], message: &str) {
    let dlock = dlock(database, &["exec", "init", "-n"]).args(options);
    dlock.args(["--", "true"]).run().expect(75, "", message);
}

/// Returns the number of slots that are held.
fn held(database: &Database) -> u64 {
    let query = "SELECT COUNT(*) FROM dlock_slot WHERE owner_id IS NOT NULL";
    let count = database.admin_conn().query_first(query);
    count.expect("the table exists").expect("a number")
}

/// Waits until `count` contenders wait.
#[track_caller]
fn waits(database: &Database, count: u64) {
    let query = "SELECT COUNT(*) FROM dlock_waiter";
    let mut admin = database.admin_conn();
    eventually("the contenders wait", || {
        admin.query_first(query).expect("the table exists") == Some(count)
    });
}

#[test]
fn the_smallest_limit_decides_how_many_commands_run() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("slots");
        let one = Held::start(&database, &["--shared"]);
        let two = Held::start(&database, &["--slots=2"]);
        is_refused(&database, &["--shared"], "(2 of 2 slots)");
        is_refused(&database, &["--slots=9"], "(2 of 2 slots)");
        is_refused(&database, &[], "init is held by");
        two.end();
        let three = Held::start(&database, &["--slots=3"]);
        is_refused(&database, &["--slots=2"], "(2 of 3 slots)");
        let four = Held::start(&database, &["--shared"]);
        for run in [one, three, four] {
            run.end();
        }
        Held::start(&database, &[]).end();
        is_free(&database);
    }
}

/// Asserts that nobody holds the action, and that no slot is in use.
#[track_caller]
fn is_free(database: &Database) {
    let query = "SELECT COUNT(*) FROM dlock_lock WHERE owner_id IS NOT NULL";
    let count: Option<u64> = database.admin_conn().query_first(query).expect("a table");
    assert_eq!((count, held(database)), (Some(0), 0));
}

#[test]
fn contenders_with_different_limits_are_served_in_order() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("slots");
        let reader = Held::start(&database, &["--shared"]);
        let writer = Held::waiting(&database, &[]);
        waits(&database, 1);
        let readers = [2, 3].map(|count| {
            let waiting = Held::waiting(&database, &["--shared"]);
            waits(&database, count);
            waiting
        });
        reader.end();
        let first = writer.begins();
        assert_eq!(
            held(&database),
            0,
            "{flavour}: readers wait behind the writer"
        );
        writer.end();
        let tokens = [readers[0].begins(), readers[1].begins()];
        assert!(
            first < tokens[0] && tokens[0] != tokens[1],
            "{flavour}: {tokens:?}"
        );
        for reader in readers {
            reader.end();
        }
        is_free(&database);
    }
}

/// A dead holder has no monitor either, so nobody releases its lease.
#[test]
fn lease_of_a_dead_holder_is_taken_over_after_its_ttl() {
    let two = &["--slots=2"][..];
    for flavour in Flavour::ALL {
        for (before, next, is_full) in [(two, two, true), (two, &[], false), (&[], two, false)] {
            let database = shared(flavour).database("slots");
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
            let lost = "SELECT COUNT(*) FROM dlock_history WHERE outcome='lost'";
            let lost: Option<u64> = database.admin_conn().query_first(lost).expect("a table");
            assert_eq!(lost, Some(1), "{flavour}");
        }
    }
}

/// `kill -9` of dlock alone leaves the monitor, which releases the lease.
#[test]
fn slot_of_a_killed_dlock_is_released_by_its_monitor() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("slots");
        let killed = Held::start(&database, &["--shared", "--ttl=1h"]);
        killed.running.signal("KILL");
        Held::start(&database, &[]).end();
        is_free(&database);
    }
}

#[test]
fn tables_without_slots_are_refused_and_not_changed() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("slots");
        dlock(&database, &["setup", "-q"]).run().expect(0, "", "");
        let mut admin = database.admin_conn();
        for statement in ["DROP TABLE dlock_slot", "UPDATE dlock_schema SET version=2"] {
            admin.query_drop(statement).expect("root may do this");
        }
        let exec = ["exec", "init", "--shared", "--", "true"];
        let refused = dlock(&database, &exec).run();
        refused.expect(78, "", "have schema version 2: run dlock setup");
        dlock(&database, &["exec", "init", "--", "true"])
            .run()
            .expect(0, "", "");
        dlock(&database, &["setup", "-q"]).run().expect(0, "", "");
        dlock(&database, &exec).run().expect(0, "", "");
    }
}
