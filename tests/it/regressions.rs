//! Regression tests for violations of the guarantees that a review found. Each was reproduced before it was fixed. The
//! tests run on both servers.
//!
//! - `grant`: the response to a grant is lost, or is an error.
//! - `revoked`: a lease is revoked by an operator or taken over.
//! - `session`: a session is shared with another client, or its id is used by a foreign session.

mod grant;
mod revoked;
mod session;

use std::time::{Duration, Instant};

use mysql::prelude::{FromRow, Queryable};

use crate::cli_runner::{Outcome, Running};
use crate::faults::Scene;
use crate::servers::Database;

/// Waits until `running` exits, for at most `limit`. Returns None if it still runs after `limit`; the process is then
/// killed.
fn ends_within(mut running: Running, limit: Duration) -> Option<Outcome> {
    let until = Instant::now() + limit;
    while !running.is_over() {
        if Instant::now() >= until {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Some(running.wait())
}

/// Returns the first row of `query`.
#[track_caller]
fn one<T: FromRow>(database: &Database, query: &str) -> T {
    let row = database.admin_conn().query_first(query);
    row.expect("root has all privileges").expect("a row exists")
}

/// Asserts that no two commands ran at the same time.
#[track_caller]
fn no_overlap(scene: &Scene, name: &str) {
    let witness = scene.witness();
    assert!(
        !witness.contains("overlap"),
        "two commands ran together ({name}): {witness:?}"
    );
}
