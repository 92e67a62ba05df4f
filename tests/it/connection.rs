//! Claims about reaching the database: by what the server is named and which name wins, what a connection costs, and
//! what an account must be allowed to do.
//!
//! - `sources`: flags, variables, urls and files, and which goes before which
//! - `addresses`: what a host name leads to
//! - `cost`: connections and packets
//! - `tables`: who makes them and who leaves them alone
//! - `grants`: what an account must be allowed

mod addresses;
mod cost;
mod grants;
mod sources;
mod tables;

use mysql::prelude::Queryable;

use crate::dlock::Dlock;
use crate::servers::{Database, Flavour};

/// The actions that `database` knows, by name.
#[track_caller]
fn actions(database: &Database) -> Vec<String> {
    let rows: Vec<Vec<u8>> = database
        .admin_conn()
        .query("SELECT action FROM dlock_lock WHERE token > 0 AND claim IS NULL ORDER BY action")
        .expect("the tables are there");
    rows.into_iter()
        .map(|name| String::from_utf8(name).expect("names are UTF-8"))
        .collect()
}

/// Runs `true` under a lock of its own for each of `runs`, and asserts that it happened in `database`.
#[track_caller]
fn all_reach(
    database: &Database,
    flavour: Flavour,
    runs: impl IntoIterator<Item = (&'static str, Dlock)>,
) {
    let mut names = Vec::new();
    for (name, dlock) in runs {
        let outcome = dlock
            .env("DLOCK_OPT_ACTION", name)
            .arg("--")
            .arg("true")
            .run();
        assert_eq!(
            (outcome.status, &*outcome.stderr),
            (Some(0), ""),
            "{flavour}, {name}"
        );
        names.push(name);
    }
    names.sort_unstable();
    assert_eq!(actions(database), names, "{flavour}");
}

/// `dlock exec` that does not stand in line and tries the server once; its action comes from the environment.
fn bare() -> Dlock {
    Dlock::new(["exec", "--nonblock", "--db-wait", "0"])
}
