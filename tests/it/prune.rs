//! Tests of `dlock prune`, which removes locks that nobody has used for a long time.

use testkit::cli_runner::{Dlock, Outcome};
use testkit::holder::Holder;
use testkit::servers::{Database, Flavour, shared};
use testkit::sql::Sql;
use testkit::terminal::Terminal;

use crate::faults::on_each;

#[track_caller]
fn exec(database: &Database, name: &str, options: &[&str]) {
    let exec = Dlock::on(database, ["exec", name]).args(options);
    exec.args(["--", "true"]).expect(0, "", "");
}

/// Moves everything that is recorded about all locks `days` days into the past.
fn grow_older(database: &Database, days: u32) {
    let micros = u64::from(days) * 86_400_000_000;
    database.run(format!(
        "UPDATE dlock_lock SET token=token-{micros},acquired_at=acquired_at-INTERVAL {days} DAY,\
         released_at=released_at-INTERVAL {days} DAY,paused_until=paused_until-INTERVAL {days} DAY \
         WHERE token>{micros};\
         UPDATE dlock_history SET token=token-{micros},started_at=started_at-INTERVAL {days} DAY,\
         ended_at=ended_at-INTERVAL {days} DAY WHERE token>{micros}"
    ));
}

fn names(database: &Database) -> Vec<String> {
    let document = Dlock::typed(database, "list --json").run().json();
    let locks = document["locks"].as_array().expect("a list").iter();
    let names = locks.filter_map(|lock| lock["action"].as_str());
    names.map(str::to_owned).collect()
}

/// Removes the locks that nobody has used for 30 days.
const OLD: [&str; 3] = ["--older-than", "30d", "--yes"];

fn prune(database: &Database, arguments: &[&str]) -> Outcome {
    Dlock::on(database, ["prune"]).args(arguments).run()
}

#[test]
fn unused_locks_are_removed_with_their_history_and_others_are_kept() {
    on_each(|flavour| {
        let database = shared(flavour).database("prune");
        for name in ["PR-1", "PR-%", "PR-9 old", "other", "init", "fenced"] {
            exec(&database, name, &[]);
        }
        exec(&database, "fenced", &["--fence"]);
        exec(&database, "other", &["--shared"]);
        exec(&database, "done", &["--once"]);
        let pause = "release paused --yes --create --pause 100d";
        Dlock::typed(&database, pause).expect(0, "", "paused");
        grow_older(&database, 40);
        // These are used now, although their last run is old.
        let holder = Holder::on(&database, &[]);
        exec(&database, "new", &[]);
        let all = names(&database);

        let dry = ["PR-*", "--older-than", "30d", "--dry-run"];
        prune(&database, &dry).expect(
            0,
            "",
            "PR-%  last used 40d ago\nPR-1  last used 40d ago\nPR-9 old  last used 40d ago\n\
             dlock: 3 locks would be removed\n",
        );
        let older = ["--older-than", "50d", "--yes"];
        prune(&database, &older).expect(0, "", "dlock: there is no lock to remove\n");
        let unconfirmed = "stdin is not a terminal, so --yes is required";
        prune(&database, &OLD[..2]).expect(64, "", unconfirmed);
        assert_eq!(names(&database), all);

        // % is no wildcard.
        prune(&database, &[&["PR-%"], &OLD[..]].concat()).expect(0, "", "dlock: removed 1 lock\n");
        prune(&database, &OLD).expect(0, "", "dlock: removed 4 locks\n");
        assert_eq!(names(&database), ["done", "init", "new", "paused"]);
        for table in ["dlock_history", "dlock_fence", "dlock_slot"] {
            let count = format!("SELECT COUNT(*) FROM {table} WHERE action IN ('other','fenced')");
            assert_eq!(database.value::<u64>(count), 0, "{flavour}: {table}");
        }
        let done = prune(&database, &[&["done", "--done"], &OLD[..]].concat());
        done.expect(0, "", "dlock: removed 1 lock\n");
        exec(&database, "done", &["--once"]);
        assert_eq!(holder.end().status, Some(3));
    });
}

#[test]
fn token_of_a_lock_that_was_removed_grows_although_the_clock_was_set_back() {
    on_each(|flavour| {
        let database = shared(flavour).database("prune");
        exec(&database, "init", &[]);
        grow_older(&database, 40);
        let token = |name: &str| -> u64 {
            database.value(format!(
                "SELECT token FROM dlock_lock WHERE action='{name}'"
            ))
        };
        let before = token("init");
        prune(&database, &OLD).expect(0, "", "removed 1 lock");
        // The server's clock is as good as set back: the tokens of other locks are ahead of it.
        let ahead = 1_u64 << 60;
        assert!(token("") > before, "{flavour}: {}", token(""));
        database.run(format!(
            "UPDATE dlock_lock SET token={ahead} WHERE action=''"
        ));
        exec(&database, "init", &[]);
        assert!(token("init") > ahead, "{flavour}");
        assert_eq!(names(&database), ["init"]);
    });
}

#[test]
fn lock_with_a_locked_fence_is_kept() {
    on_each(|flavour| {
        let database = shared(flavour).database("prune");
        exec(&database, "init", &["--fence"]);
        grow_older(&database, 40);
        let mut transaction = database.admin_conn();
        transaction.run("BEGIN; SELECT token FROM dlock_fence FOR UPDATE");
        let kept = "dlock: removed 0 locks; kept 1 lock, which is in use\n";
        prune(&database, &OLD).expect(0, "", kept);
        assert_eq!(names(&database), ["init"]);
    });
}

#[test]
fn prune_asks_at_a_terminal_and_needs_an_age() {
    let database = shared(Flavour::of_this_test()).database("prune");
    exec(&database, "init", &[]);
    grow_older(&database, 40);
    for (typed, wanted) in [("n", "nothing is removed"), ("y", "removed 1 lock")] {
        let mut terminal = Terminal::shell(&database);
        terminal.enters("$dlock prune --older-than 30d");
        terminal.sees("remove 1 lock with their history?");
        terminal.enters(typed).sees(wanted);
    }
    prune(&database, &[]).expect(64, "", "--older-than");
    for age in ["59m", "0s", "200y"] {
        prune(&database, &["--older-than", age]).expect(64, "", "must be between 1h and 36500d");
    }
}
