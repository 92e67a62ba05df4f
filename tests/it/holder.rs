//! A holder of `init` whose command goes on until the test says so, and what the table says of it.

use std::path::PathBuf;

use mysql::prelude::Queryable;

use crate::command::{Stage, heard, tell};
use crate::dlock::{Dlock, Outcome, Running};
use crate::servers::Database;

/// A run whose command ends with 3 when it is told to.
pub(crate) struct Holder {
    pub(crate) running: Running,
    stage: Stage,
}

impl Holder {
    /// On `database`, with `options` of `exec`.
    #[track_caller]
    pub(crate) fn on(database: &Database, options: &[&str]) -> Self {
        Self::start(Dlock::on(database, ["exec"]), options)
    }

    /// By `dlock`, which is `dlock exec`, with more `options`. Comes back when the command runs.
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

    /// What the command waits for.
    pub(crate) fn go(&self) -> PathBuf {
        self.stage.path("go")
    }

    /// Lets the command end.
    #[track_caller]
    pub(crate) fn end(self) -> Outcome {
        tell(&self.go(), "on");
        self.running.wait()
    }
}

/// The one row's column `name`.
#[track_caller]
fn column(database: &Database, name: &str) -> Option<u64> {
    let query = format!("SELECT {name} FROM dlock_lock");
    let row = database.admin_conn().query_first(query);
    row.expect("the table is there").expect("the row is there")
}

/// The token of the last grant.
#[track_caller]
pub(crate) fn token(database: &Database) -> u64 {
    column(database, "token").expect("it is never NULL")
}

/// How often the lease has been renewed.
#[track_caller]
pub(crate) fn renewals(database: &Database) -> u64 {
    column(database, "renewals").expect("it is never NULL")
}

/// Whether nobody has the lease.
#[track_caller]
pub(crate) fn is_free(database: &Database) -> bool {
    column(database, "claim IS NULL") == Some(1)
}

/// Gives the lease to somebody who is not dlock.
#[track_caller]
pub(crate) fn steal(database: &Database) {
    database
        .admin_conn()
        .query_drop("UPDATE dlock_lock SET claim=REPEAT('t',16), token=token+1, holder='a thief'")
        .expect("the row can be changed");
}
