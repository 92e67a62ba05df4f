//! `dlock setup`: creates the tables, or prints what a database administrator needs.

use super::ask_once;
use crate::exit::Status;
use crate::report::log::What;
use crate::report::{self, Report};
use crate::store::mysql::{Database, schema};
use crate::store::target::Target;

/// Prints the definition of the tables and the least grants on `database`; needs no server.
///
/// # Errors
/// When stdout cannot be written.
pub fn print(database: &str) -> anyhow::Result<Status> {
    report::result(&schema::printout(database))?;
    Ok(Status::OK)
}

/// Creates what is missing and checks the version of what is there.
///
/// # Errors
/// When the server cannot be reached, refuses, or has tables of another version.
pub fn create(target: Target, report: &Report) -> anyhow::Result<Status> {
    let database = target.database.clone();
    ask_once(target, Database::setup)?;
    let text = format_args!("the tables are in place in {database}");
    report.notice(What::Message, text);
    Ok(Status::OK)
}
