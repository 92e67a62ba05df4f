//! Errors before the command can run: names, options, files, servers, accounts.
//!
//! In each case dlock prints the reason in one line and nothing else, exits with the status from the table of exit
//! statuses, does not run the command, and leaves the lock free for the next contender.
//!
//! - `names`, `options`: the command line
//! - `file`, `command`: files and programs on this machine that the command line names
//! - `server`, `account`: the server and the account that the command line names

mod account;
mod command;
mod file;
mod names;
mod options;
mod server;

use mysql::prelude::Queryable;

use crate::cli_runner::Dlock;
use crate::command::Stage;
use crate::servers::{Database, Server};

/// Form of an error message.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// One line that starts with `dlock: `.
    Line,
    /// The message of the command-line parser, which shows the usage.
    Usage,
}

/// Returns a `dlock exec` of `action` on `database` that tries once.
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

/// Asserts that `dlock`, which has no command yet, exits with `status`, prints `why` and does not run the command.
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

/// Asserts that the lock `action` can be acquired at once.
#[track_caller]
fn free(database: &Database, action: &str) {
    exec(database, action)
        .arg("--")
        .arg("true")
        .run()
        .expect(0, "", "");
}

/// Returns the actions that have a row.
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
