//! A job that many machines start. `--once-per` runs the job once in a period, and `--min-hold` holds the job's lock
//! for a minimum time.

use std::fs;

use testkit::cli_runner::{Dlock, eventually};
use testkit::command::Stage;
use testkit::each_server::{everywhere, set_up};
use testkit::holder::Holder;
use testkit::on_each_flavour;
use testkit::servers::{Database, Flavour};

use crate::logs::messages;

/// Returns a `dlock exec` for the action `job` whose command prints `ran` and exits with `status`.
fn job(database: &Database, options: &[&str], status: i32) -> Dlock {
    Dlock::on(database, ["exec", "-a", "job"])
        .args(options)
        .args(["--", "sh", "-c", &format!("echo ran; exit {status}")])
}

/// Sets the time of the latest success to `seconds` after the server's current time. A negative number sets a past
/// time.
fn shift(database: &Database, seconds: i64) {
    let to = format!("UTC_TIMESTAMP(6)+INTERVAL {seconds} SECOND");
    database.run(format!("UPDATE dlock_lock SET succeeded_at={to}"));
}

/// Returns the tokens of all runs. Each token is the time of the grant in microseconds since 1970.
fn tokens(database: &Database) -> Vec<u64> {
    database.rows("SELECT token FROM dlock_history ORDER BY token")
}

#[test]
fn a_job_that_succeeded_within_the_period_is_skipped_with_status_0() {
    everywhere(|database| {
        let per = ["--once-per=5m", "--holder=web-1"];
        let runs = |options: &[&str], status: i32| {
            job(database, options, status).expect(status, "ran\n", "");
        };
        runs(&per, 3);
        runs(&per, 0);
        let skipped = job(database, &per, 3).expect(0, "", "dlock: job was done by web-1 ");
        skipped.expect(0, "", "; not run again within 5m");
        shift(database, -299);
        job(database, &per, 3).expect(0, "", "was done by");
        shift(database, -301);
        runs(&per, 4);
        runs(&per, 0);
        // A success without --once-per also counts for later runs with --once-per.
        runs(&[], 0);
        job(database, &per, 3).expect(0, "", "was done by");
        // A success in the future does not prevent a run.
        shift(database, 3600);
        runs(&per, 0);
    });
}

#[test]
fn hosts_that_start_a_job_at_different_times_run_it_once() {
    everywhere(|database| {
        for tick in 1..=2 {
            let run = || job(database, &["--once-per=1m", "-q"], 0);
            let hosts = [(); 6].map(|()| run().start());
            let hosts = hosts.map(|host| host.wait().exited(0));
            let ran = hosts.iter().filter(|host| host.stdout == "ran\n");
            assert_eq!(ran.count(), 1);
            run().expect(0, "", "");
            assert_eq!(tokens(database).len(), tick);
            // Simulates the next minute.
            shift(database, -60);
        }
    });
}

on_each_flavour!(the_lock_is_held_for_min_hold_after_dlock_exits);
fn the_lock_is_held_for_min_hold_after_dlock_exits(flavour: Flavour) {
    let database = &set_up(flavour);
    // --min-hold is longer than the ttl, but contenders must not conclude that the holder is dead.
    let hold = "--ttl=5s --min-hold=8s --holder=web-1 --note=nightly";
    let hold: Vec<&str> = hold.split(' ').collect();
    job(database, &hold, 0).expect(0, "ran\n", "");
    job(database, &["-n"], 0).expect(75, "", ", held for --min-hold, nightly)");
    let status = || Dlock::on(database, ["status", "job"]).run().stdout;
    let text = status();
    assert!(text.contains("held for --min-hold until 20"), "{text}");
    let document = Dlock::on(database, ["status", "job", "--json"])
        .run()
        .json();
    let until = &document["locks"][0]["min_hold_until"];
    assert!(until.is_string(), "{document}");
    job(database, &[], 0).expect(0, "ran\n", "is held by web-1");
    let tokens = tokens(database);
    let [first, second] = tokens[..] else {
        panic!("expected two runs: {tokens:?}");
    };
    assert!(second - first >= 8_000_000, "after {} us", second - first);
    // A run whose lease was held for --min-hold is not recorded as lost.
    let outcomes: Vec<String> = database.rows("SELECT outcome FROM dlock_history");
    assert_eq!(outcomes, ["exited", "exited"]);
    // A command that runs for longer than --min-hold releases the lock when it ends.
    let long = Holder::on(database, &["--action=job", "--min-hold=200ms"]);
    database.wait_until("acquired_at<UTC_TIMESTAMP(6)-INTERVAL 400000 MICROSECOND FROM dlock_lock");
    long.end().expect(3, "", "");
    job(database, &["-n"], 0).expect(0, "ran\n", "");
    // When the --min-hold time has passed, `status` shows the lock as free, not as expired.
    job(database, &["--min-hold=1ms"], 0).expect(0, "ran\n", "");
    eventually("the lock is free", || status().contains("free"));
    job(database, &["-n"], 0).expect(0, "ran\n", "");
}

#[test]
fn a_run_says_until_when_its_lock_stays_held() {
    let database = &set_up(Flavour::of_this_test());
    let stage = Stage::new();
    let path = stage.path("until");
    let hook = format!(
        "--on-event=echo \"$DLOCK_MIN_HOLD_UNTIL\" >> {}",
        path.display()
    );
    let run = |options: &[&str]| {
        let run = job(database, &[&["-v", &*hook], options].concat(), 0).run();
        assert_eq!(run.status, Some(0), "{run:#?}");
        let hooks = fs::read_to_string(&path).expect("the hooks ran");
        (run.stderr, hooks)
    };
    let (text, hooks) = run(&["--log-format=json", "--min-hold=1h"]);
    let logged = messages(&text);
    let released = logged.iter().find(|message| message["event"] == "released");
    let released = released.expect("the release is logged");
    let until = released["min_hold_until"].as_str().expect("a time");
    humantime::parse_rfc3339(until).expect("the time is in RFC 3339");
    let message = format!("job stays held for --min-hold until {until}");
    assert_eq!(released["message"], message);
    // The hook for the grant gets no time.
    assert_eq!(hooks, format!("\n{until}\n"));
    let revoke = Dlock::on(database, ["release", "job", "--yes"]);
    revoke.run().exited(0);

    let (text, hooks) = run(&["--min-hold=1ms"]);
    assert!(text.contains("job is released"), "{text}");
    assert_eq!(hooks, format!("\n{until}\n\n\n"));
}
