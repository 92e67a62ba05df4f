//! A holder, normally of `init`, whose command runs until the test ends the command, and functions that read the row of `init`.

use std::path::PathBuf;

use mysql::prelude::Queryable;

use crate::cli_runner::{Dlock, Outcome, Running, eventually};
use crate::command::Stage;
use crate::servers::Database;

/// A `dlock exec` whose command runs until [`Holder::end`] and then exits with 3.
pub struct Holder {
    pub running: Running,
    stage: Stage,
}

impl Holder {
    /// Starts a holder on `database` with the options `options` of exec, and returns once the command runs.
    #[track_caller]
    pub fn on(database: &Database, options: &[&str]) -> Self {
        Self::start(Dlock::on(database, ["exec"]), options)
    }

    /// Adds `options`, the name `init` unless they contain `--action`, and the command to `dlock`, a `dlock exec`, and starts
    /// dlock. Returns once the command runs.
    #[track_caller]
    pub fn start(dlock: Dlock, options: &[&str]) -> Self {
        let stage = Stage::new();
        let has_name = options.iter().any(|option| option.starts_with("--action"));
        let name: &[&str] = if has_name { &[] } else { &["-a", "init"] };
        let script = r#"echo up > "$1"; read word < "$2"; exit 3"#;
        let running = stage.start(dlock.args(name).args(options), script);
        Self { running, stage }
    }

    /// Returns the path of the fifo from which the command reads a word before the command ends.
    pub fn go(&self) -> PathBuf {
        self.stage.path("go")
    }

    /// Lets the command end and waits for dlock to end.
    #[track_caller]
    pub fn end(self) -> Outcome {
        self.stage.let_go("on");
        self.running.wait()
    }
}

/// Returns the column `name` of the only row. None means that the column is NULL.
#[track_caller]
fn column(database: &Database, name: &str) -> Option<u64> {
    database.row(format!("SELECT {name} FROM dlock_lock"))
}

/// Returns the token of the latest grant.
#[track_caller]
pub fn token(database: &Database) -> u64 {
    column(database, "token").expect("the column is never NULL")
}

/// Returns the number of renewals of the current lease.
#[track_caller]
pub fn renewals(database: &Database) -> u64 {
    column(database, "renewals").expect("the column is never NULL")
}

/// Waits until the lease has been renewed `times` more times.
#[track_caller]
pub fn wait_renewals(database: &Database, times: u64) {
    let mut admin = database.admin_conn();
    let mut renewals = || -> u64 {
        let row = admin.query_first("SELECT renewals FROM dlock_lock");
        row.expect("the table exists").expect("the row exists")
    };
    let before = renewals();
    eventually("the lease is renewed", || renewals() >= before + times);
}

/// Returns the record of `init` from `dlock status --json`.
#[track_caller]
pub fn status(database: &Database) -> serde_json::Value {
    let outcome = Dlock::on(database, ["status", "--json", "init"]).run();
    outcome.json()["locks"][0].clone()
}

/// Returns true if the lock is free.
#[track_caller]
pub fn is_free(database: &Database) -> bool {
    column(database, "owner_id IS NULL") == Some(1)
}

/// Replaces the owner id in the row with an owner id that no dlock process has, and increases the token.
#[track_caller]
pub fn steal(database: &Database) {
    let steal = "UPDATE dlock_lock SET owner_id=REPEAT('t',16), token=token+1, holder='a thief'";
    database.execute(steal);
}

/// Waits until the SQL expression `condition` is true for a row. Costs the server less than a loop of `dlock status`.
#[track_caller]
pub fn wait_for_row(database: &Database, condition: &str) {
    let mut admin = database.admin_conn();
    let query = format!("SELECT COUNT(*) FROM dlock_lock WHERE {condition}");
    eventually(condition, || {
        let count: Option<u64> = admin.query_first(&query).expect("the table exists");
        count > Some(0)
    });
}
