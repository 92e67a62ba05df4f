//! Tests of the connection to the server: the sources of the settings and their precedence, the cost of a connection,
//! and the privileges that an account needs.
//!
//! - `sources`: flags, variables, URLs and files
//! - `addresses`: host names with several addresses
//! - `cost`: the number of connections and packets
//! - `tables`: which commands create or change the tables
//! - `grants`: the privileges that an account needs

mod addresses;
mod cost;
mod grants;
mod sources;
mod tables;

pub(crate) use sources::private;

use testkit::cli_runner::Dlock;
use testkit::servers::Database;

/// Returns the actions in `database` that have been granted at least once and are free, sorted by name.
#[track_caller]
fn actions(database: &Database) -> Vec<String> {
    let rows: Vec<Vec<u8>> = database
        .rows("SELECT action FROM dlock_lock WHERE token > 0 AND owner_id IS NULL ORDER BY action");
    rows.into_iter()
        .map(|name| String::from_utf8(name).expect("names are UTF-8"))
        .collect()
}

/// Runs each of `runs` with its name as the action and `true` as the command. Asserts that exactly these actions were
/// granted in `database`.
#[track_caller]
fn all_reach(database: &Database, runs: impl IntoIterator<Item = (&'static str, Dlock)>) {
    let mut names = Vec::new();
    for (name, dlock) in runs {
        let outcome = dlock
            .env("DLOCK_OPT_ACTION", name)
            .args(["--", "true"])
            .run();
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
