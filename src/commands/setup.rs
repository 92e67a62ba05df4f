//! `dlock setup`: creates the tables, or prints the SQL that a database administrator needs.

use super::query_once;
use crate::exit::Status;
use crate::report::log::EventKind;
use crate::report::{self, Report};
use crate::store::mysql::{Database, schema};
use crate::store::target::Target;

/// Prints the definitions of the tables and the minimum grants on `database`. Needs no server.
///
/// # Errors
/// Fails if stdout cannot be written.
pub fn print(database: &str) -> anyhow::Result<Status> {
    report::result(&schema::printout(database))?;
    Ok(Status::OK)
}

/// Creates the missing tables and checks the version of the existing ones.
///
/// # Errors
/// Fails if the server cannot be reached, refuses a request, or has tables of another version.
pub fn create(target: Target, report: &Report) -> anyhow::Result<Status> {
    let database = target.database.clone();
    query_once(target, Database::setup)?;
    let text = format_args!("the tables are in place in {database}");
    report.info(EventKind::Message, text);
    Ok(Status::OK)
}
