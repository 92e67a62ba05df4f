//! Claims about everything that is wrong before the command can run: names, options, files, servers, accounts.
//!
//! Each time dlock says why in one line, with the status of the table, prints nothing else, does not run the command,
//! and leaves the lock to whoever comes next.
//!
//! - `names`, `options`: what was typed
//! - `file`, `command`: what it names on this machine
//! - `server`, `account`: what it names elsewhere

mod account;
mod command;
mod file;
mod names;
mod options;
mod server;

use mysql::prelude::Queryable;

use crate::command::Stage;
use crate::dlock::Dlock;
use crate::servers::{Database, Server};

/// Which form a complaint has.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// One line with `dlock: ` in front.
    Line,
    /// The words of the command line's grammar, which show how to type it.
    Usage,
}

/// `dlock exec` of `action` on `database`, which tries once.
fn exec(database: &Database, action: &str) -> Dlock {
    Dlock::on(
        database,
        ["exec", "--nonblock", "--db-wait", "0", "--action", action],
    )
}

/// Asserts that `dlock`, which lacks the command still, refuses to run it, with `status` and because of `why`.
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

/// Asserts that the lock `action` is to be had at once.
#[track_caller]
fn free(database: &Database, action: &str) {
    exec(database, action)
        .arg("--")
        .arg("true")
        .run()
        .expect(0, "", "");
}

/// The actions that have a row.
#[track_caller]
fn actions(database: &Database) -> Vec<String> {
    let rows: Vec<Vec<u8>> = database
        .admin_conn()
        .query("SELECT action FROM dlock_lock")
        .expect("the table is there");
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
