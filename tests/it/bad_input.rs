//! Errors that prevent dlock from running the command: invalid names, options, files, servers and accounts.
//!
//! For each error, dlock prints one error message, exits with the status that the table of exit statuses lists, does
//! not run the command, and leaves the lock free for the next contender.
//!
//! - `names`, `options`: arguments on the command line
//! - `file`, `command`: files that the options name, and the program of the command
//! - `server`, `account`: the server, and the account that dlock uses on the server

mod account;
mod command;
mod file;
mod names;
mod options;
mod server;

use mysql::prelude::Queryable;
use testkit::cli_runner::Dlock;
use testkit::command::Stage;
use testkit::servers::{Database, Server};

/// Form of an error message.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// One line that starts with `dlock: `.
    Line,
    /// A message of the command-line parser, which starts with `error: ` and may have several lines.
    Usage,
}

/// Returns a `dlock exec` for the action `action` that makes one attempt to connect and one attempt to acquire the
/// lock.
fn exec(database: &Database, action: &str) -> Dlock {
    Dlock::on(
        database,
        [
            "exec",
            "--nonblock",
            "--connect-timeout",
            "0",
            "--action",
            action,
        ],
    )
}

/// Adds a command to `dlock` and asserts that dlock exits with `status`, prints a message of the form `form` that
/// contains `why`, and does not run the command.
#[track_caller]
fn refused(dlock: Dlock, form: Form, status: i32, why: &str) {
    let stage = Stage::new();
    let mark = stage.path("ran");
    let outcome = dlock.arg("--").arg("touch").arg(&mark).run();
    outcome.expect(status, "", why);
    let formed = match form {
        Form::Line => outcome.stderr.starts_with("dlock: ") && outcome.stderr.lines().count() == 1,
        Form::Usage => outcome.stderr.starts_with("error: "),
    };
    assert!(formed && outcome.stderr.ends_with('\n'), "{outcome:#?}");
    assert!(!mark.exists(), "the command ran: {outcome:#?}");
}

/// Asserts that the lock `action` can be acquired without waiting.
#[track_caller]
fn free(database: &Database, action: &str) {
    exec(database, action)
        .arg("--")
        .arg("true")
        .run()
        .expect(0, "", "");
}

/// Returns the names of all actions that have a row in `dlock_lock`.
#[track_caller]
fn actions(database: &Database) -> Vec<String> {
    let rows: Vec<Vec<u8>> = database
        .admin_conn()
        .query("SELECT action FROM dlock_lock")
        .expect("the table exists");
    rows.iter()
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect()
}

#[track_caller]
fn set_up(server: &Server, name: &str) -> Database {
    let database = server.database(name);
    Dlock::on(&database, ["setup"])
        .run()
        .expect(0, "", "in place");
    database
}
