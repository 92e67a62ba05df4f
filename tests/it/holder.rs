//! A holder of `init` whose command runs until the test lets it end, and functions that read its row.

use std::path::PathBuf;

use mysql::prelude::Queryable;

use crate::cli_runner::{Dlock, Outcome, Running};
use crate::command::{Stage, heard, tell};
use crate::servers::Database;

/// A run whose command exits with 3 when the test lets it end.
pub(crate) struct Holder {
    pub(crate) running: Running,
    stage: Stage,
}

impl Holder {
    /// Starts the holder on `database` with `options` of exec, and returns when the command runs.
    #[track_caller]
    pub(crate) fn on(database: &Database, options: &[&str]) -> Self {
        Self::start(Dlock::on(database, ["exec"]), options)
    }

    /// Starts the holder with `dlock`, a `dlock exec`, and more `options`, and returns when the command runs.
    #[track_caller]
    pub(crate) fn start(dlock: Dlock, options: &[&str]) -> Self {
        let stage = Stage::new();
        let (ready, go) = (stage.fifo("ready"), stage.fifo("go"));
        let running = dlock
            .args(["-a", "init"])
            .args(options)
            .args(["--", "sh", "-c"])
            .arg(r#"echo up > "$1"; read word < "$2"; exit 3"#)
            .arg("sh")
            .arg(&ready)
            .arg(&go)
            .start();
        assert_eq!(heard(&ready), "up");
        Self { running, stage }
    }

    /// Returns the fifo that the command reads before it ends.
    pub(crate) fn go(&self) -> PathBuf {
        self.stage.path("go")
    }

    /// Lets the command end and waits for dlock to end.
    #[track_caller]
    pub(crate) fn end(self) -> Outcome {
        tell(&self.go(), "on");
        self.running.wait()
    }
}

/// Returns the column `name` of the only row. None means NULL.
#[track_caller]
fn column(database: &Database, name: &str) -> Option<u64> {
    let query = format!("SELECT {name} FROM dlock_lock");
    let row = database.admin_conn().query_first(query);
    row.expect("the table exists").expect("the row exists")
}

/// Returns the token of the last grant.
#[track_caller]
pub(crate) fn token(database: &Database) -> u64 {
    column(database, "token").expect("the column is never NULL")
}

/// Returns the number of renewals of the lease.
#[track_caller]
pub(crate) fn renewals(database: &Database) -> u64 {
    column(database, "renewals").expect("the column is never NULL")
}

/// Returns true if no process holds the lease.
#[track_caller]
pub(crate) fn is_free(database: &Database) -> bool {
    column(database, "owner_id IS NULL") == Some(1)
}

/// Gives the lease to a foreign owner id that no dlock process has.
#[track_caller]
pub(crate) fn steal(database: &Database) {
    database
        .admin_conn()
        .query_drop(
            "UPDATE dlock_lock SET owner_id=REPEAT('t',16), token=token+1, holder='a thief'",
        )
        .expect("the row can be changed");
}
