//! Tests of mutual exclusion with real processes. The commands corrupt a file if two of them run at the same time.

use std::fs;
use std::path::Path;
use std::thread;

use testkit::cli_runner::Dlock;
use testkit::command::Stage;
use testkit::servers::{Series, shared};

const CONTENDERS: usize = 20;

/// A shell script that reads a number from the file `$1`, sleeps, and writes the number plus one to the file.
const INCREMENT: &str = r#"n=$(cat "$1"); sleep 0.02; echo $((n + 1)) > "$1""#;

fn count_with(start: impl Fn(&Path) + Sync) -> usize {
    let stage = Stage::new();
    let counter = stage.path("counter");
    fs::write(&counter, "0\n").expect("the file can be written");
    thread::scope(|scope| {
        for _ in 0..CONTENDERS {
            scope.spawn(|| start(&counter));
        }
    });
    let text = fs::read_to_string(&counter).expect("the file can be read");
    text.trim().parse().unwrap_or(0)
}

#[test]
fn twenty_locked_processes_lose_no_increment() {
    for series in Series::ALL {
        let database = shared(series).database("count");
        let total = count_with(|counter| {
            let exec = Dlock::typed(&database, "exec -a count -- sh -c");
            exec.args([INCREMENT, "sh"]).arg(counter).run();
        });
        assert_eq!(total, CONTENDERS, "{series}");
    }
}

/// Shows that `twenty_locked_processes_lose_no_increment` can fail: without the lock, the same check detects lost
/// increments.
#[test]
fn twenty_unlocked_processes_lose_increments() {
    let total = count_with(|counter| {
        let sh = Dlock::of(Path::new("sh"), ["-c", INCREMENT, "sh"]);
        sh.arg(counter).run().exited(0);
    });
    assert!(total < CONTENDERS, "{total} of {CONTENDERS}");
}
