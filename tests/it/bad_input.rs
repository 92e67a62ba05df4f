//! Errors that prevent dlock from running the command: invalid names, options, files, servers and accounts.
//!
//! For each error, dlock prints one error message, exits with the status that the table of exit statuses lists, does
//! not run the command, and leaves the lock free for the next contender.

mod arguments;
mod files;
mod server;

use testkit::cli_runner::Dlock;
use testkit::servers::Database;

/// Returns a `dlock exec` for the action `action` that makes one attempt to connect and one attempt to acquire the
/// lock.
fn exec(database: &Database, action: &str) -> Dlock {
    let exec = ["exec", "--nonblock", "--connect-timeout=0", "-a"];
    Dlock::on(database, exec).arg(action)
}

/// Adds a command to `dlock` and asserts that dlock exits with `status`, prints one line that contains `why`, and does not
/// run the command.
#[track_caller]
fn refused(dlock: Dlock, status: i32, why: &str) {
    let outcome = dlock.args(["--", "echo", "ran"]).expect(status, "", why);
    let is_line = outcome.stderr.starts_with("dlock: ") && outcome.stderr.lines().count() == 1;
    assert!(is_line && outcome.stderr.ends_with('\n'), "{outcome:#?}");
}

/// Does the same as [`refused`] for a usage error, whose message may have several lines.
#[track_caller]
fn misused(dlock: Dlock, why: &str) {
    let outcome = dlock.args(["--", "echo", "ran"]).expect(64, "", why);
    let is_usage = outcome.stderr.starts_with("error: ") && outcome.stderr.ends_with('\n');
    assert!(is_usage, "{outcome:#?}");
}

#[track_caller]
fn free(database: &Database, action: &str) {
    let exec = exec(database, action).args(["--", "true"]);
    exec.expect(0, "", "");
}

/// Returns the names of all actions that have a row in `dlock_lock`.
#[track_caller]
fn actions(database: &Database) -> Vec<String> {
    database.rows("SELECT action FROM dlock_lock")
}
