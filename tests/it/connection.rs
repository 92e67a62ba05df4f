//! Tests of the connection to the server: the sources of the settings and their precedence, the cost of a connection,
//! and the privileges that an account needs.

mod addresses;
mod cost;
mod grants;
mod sources;

pub(crate) use sources::private;

use std::fs;

use testkit::cli_runner::Dlock;
use testkit::command::Stage;
use testkit::servers::{Database, shared};

use crate::faults::on_each;

/// Returns the actions in `database` that have been granted at least once and are free, sorted by name.
#[track_caller]
fn actions(database: &Database) -> Vec<String> {
    database
        .rows("SELECT action FROM dlock_lock WHERE token > 0 AND owner_id IS NULL ORDER BY action")
}

/// Runs each of `runs` with its name as the action and `true` as the command. Asserts that exactly these actions were
/// granted in `database`.
#[track_caller]
fn all_reach(database: &Database, runs: impl IntoIterator<Item = (&'static str, Dlock)>) {
    let mut names = Vec::new();
    for (name, dlock) in runs {
        let dlock = dlock.env("DLOCK_OPT_ACTION", name);
        let outcome = dlock.args(["--", "true"]).run();
        let end = (outcome.status, &*outcome.stderr);
        assert_eq!(end, (Some(0), ""), "{name}");
        names.push(name);
    }
    names.sort_unstable();
    assert_eq!(actions(database), names);
}

/// Returns a `dlock exec` without an action that does not wait for the lock. With -q, an attempt that times out on a busy
/// machine prints nothing.
fn bare() -> Dlock {
    Dlock::new(["exec", "-q", "--nonblock", "--connect-timeout=30s"])
}

/// `versions` tests that no command but setup changes existing tables.
#[test]
fn concurrent_first_execs_create_the_tables_and_all_run() {
    on_each(|flavour| {
        let database = shared(flavour).database("together");
        let stage = Stage::new();
        let path = stage.write("count", 0o600, "0\n");
        let count = path.display();
        let command = format!("read -r n <{count} || n=0; echo $((n + 1)) >{count}");
        let exec = ["exec", "-q", "-a", "init", "--", "sh", "-c", &command];
        let runs = [(); 8].map(|()| Dlock::on(&database, exec).start());
        for run in runs {
            run.wait().expect(0, "", "");
        }
        let ran = fs::read_to_string(path).expect("the file exists");
        assert_eq!(ran, "8\n", "{flavour}");
        let tables: Vec<String> = database.rows("SHOW TABLES");
        let wanted = "fence history lock schema slot success waiter".split(' ');
        let wanted: Vec<String> = wanted.map(|it| format!("dlock_{it}")).collect();
        assert_eq!(tables, wanted, "{flavour}");
        let versions: Vec<u32> = database.rows("SELECT version FROM dlock_schema");
        assert_eq!(versions, [3], "{flavour}");
    });
}
