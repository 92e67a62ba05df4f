//! A holder, normally of `init`, whose command runs until the test ends the command, and functions that read the row of `init`.

use std::path::PathBuf;

use crate::cli_runner::{Dlock, Outcome, Running};
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

    /// Starts a holder like [`Self::on`] that connects through `port`, for example the port of a proxy.
    #[track_caller]
    pub fn through(database: &Database, port: u16, options: &[&str]) -> Self {
        Self::start(Dlock::through(database, port, ["exec"]), options)
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

    #[track_caller]
    pub fn end(self) -> Outcome {
        self.stage.let_go("on");
        self.running.wait()
    }
}

/// Acquires `init` once, so that the tables and the record exist and the lock is free.
#[track_caller]
pub fn acquire_once(database: &Database) {
    let exec = Dlock::on(database, ["exec", "-q", "-a", "init", "--", "true"]);
    exec.expect(0, "", "");
}

#[track_caller]
pub fn token(database: &Database) -> u64 {
    database.value("SELECT token FROM dlock_lock")
}

#[track_caller]
pub fn renewals(database: &Database) -> u64 {
    database.value("SELECT renewals FROM dlock_lock")
}

/// Waits until the lease has been renewed `times` more times.
#[track_caller]
pub fn wait_renewals(database: &Database, times: u64) {
    let wanted = renewals(database) + times;
    database.wait_until(format!("renewals>={wanted} FROM dlock_lock"));
}

/// Returns the record of `init` from `dlock status --json`.
#[track_caller]
pub fn status(database: &Database) -> serde_json::Value {
    let outcome = Dlock::on(database, ["status", "--json", "init"]).run();
    outcome.json()["locks"][0].clone()
}

#[track_caller]
pub fn is_free(database: &Database) -> bool {
    database.value("SELECT owner_id IS NULL FROM dlock_lock")
}

/// Replaces the owner id in the row with an owner id that no dlock process has, and increases the token.
#[track_caller]
pub fn steal(database: &Database) {
    let steal = "UPDATE dlock_lock SET owner_id=REPEAT('t',16), token=token+1, holder='a thief'";
    database.run(steal);
}

/// Releases `init` as the operator `ops`.
#[track_caller]
pub fn operator_releases(database: &Database) {
    let release = ["release", "init", "--yes", "--operator=ops"];
    Dlock::on(database, release).expect(0, "", "init is released");
}
