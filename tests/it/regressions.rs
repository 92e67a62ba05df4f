//! Holes in the promise that a review found, each of which was reproduced once. Both servers.
//!
//! - `grant`: the reply of a grant is lost, or is an error
//! - `revoked`: a lease is ended by an operator or taken away
//! - `session`: the session of another client or of a stranger

mod grant;
mod revoked;
mod session;

use std::time::{Duration, Instant};

use mysql::prelude::{FromRow, Queryable};

use crate::dlock::{Outcome, Running};
use crate::faults::Scene;
use crate::servers::Database;

/// Waits for the end of `running` for at most `limit`. None if it goes on; then it is killed.
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

/// The first row of `query`.
#[track_caller]
fn one<T: FromRow>(database: &Database, query: &str) -> T {
    let row = database.admin_conn().query_first(query);
    row.expect("root may").expect("there is a row")
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
