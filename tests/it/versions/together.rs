//! Programs of two schema versions compete for one action while the tables are upgraded.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use testkit::cli_runner::Dlock;
use testkit::command::Stage;
use testkit::holder::Holder;
use testkit::servers::Flavour;

use crate::faults::on_each;

use super::{next, recorded, set_up};

const GRANTS: usize = 150;

/// Number of contenders that run each program. Each contender repeats `exec` until the number of grants is reached.
const CONTENDERS: usize = 4;

/// Script that creates a file and deletes it. The script fails if the file exists, because another command then runs.
const ALONE: &str = r#"set -C; : > "$1" && exec rm "$1""#;

const EXEC: [&str; 6] = ["exec", "-q", "-a", "init", "--history", "100000"];

#[test]
fn two_schema_versions_share_the_grants_of_an_action_without_overlap() {
    on_each(compete);
}

fn compete(flavour: Flavour) {
    let database = &set_up(flavour);
    let stage = Stage::new();
    let witness = stage.path("witness");
    let witness = witness.to_str().expect("the path is UTF-8");
    let holder = Holder::on(database, &["-q"]);

    let started = &AtomicUsize::new(0);
    let contend = move |is_new: bool| {
        let mut granted = 0;
        while started.fetch_add(1, Ordering::Relaxed) < GRANTS {
            let dlock = match is_new {
                true => next(database, EXEC),
                false => Dlock::on(database, EXEC),
            };
            // No run is refused, and no two commands overlap.
            let command = dlock.args(["--", "sh", "-c", ALONE, "sh", witness]);
            command.expect(0, "", "");
            granted += 1;
        }
        granted
    };
    let [by_old, by_new]: [usize; 2] = thread::scope(|scope| {
        let mut contenders = [Vec::new(), Vec::new()];
        contenders[0].extend((0..CONTENDERS).map(|_| scope.spawn(move || contend(false))));
        database.wait_until(format!("COUNT(*)={CONTENDERS} FROM dlock_waiter"));
        next(database, ["setup"]).expect(0, "", "upgraded from schema version 3 to 4");
        contenders[1].extend((0..CONTENDERS).map(|_| scope.spawn(move || contend(true))));
        holder.end().expect(3, "", "");
        contenders.map(|program| {
            let granted = program.into_iter().map(thread::ScopedJoinHandle::join);
            let granted = granted.map(|count| count.expect("every exec ends with 0"));
            granted.sum()
        })
    });

    assert_eq!(by_old + by_new, GRANTS, "{flavour}");
    // Waiters are served in order, so each program gets about half of the grants.
    let least = by_old.min(by_new);
    assert!(least > GRANTS / 5, "{flavour}: {by_old} and {by_new}");
    let granted: [usize; 2] = [3, 4].map(|version| {
        database.value(format!(
            "SELECT COUNT(DISTINCT token) FROM dlock_history WHERE recorder={version} AND outcome='exited'"
        ))
    });
    assert_eq!(granted, [by_old + 1, by_new], "{flavour}");
    assert_eq!(recorded(database), [(4, 1)], "{flavour}");
}
