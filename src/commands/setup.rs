//! `dlock setup`: creates or upgrades the tables, or prints the SQL that a database administrator needs.

use std::time::Duration;

use super::{query_once, query_within};
use crate::exit::Status;
use crate::report::log::EventKind;
use crate::report::{self, Report};
use crate::store::mysql::{Database, TablesState, schema};
use crate::store::target::Targets;

/// Maximum time of an upgrade. The server may have to copy a large table. With a shorter limit, the user might have to
/// repeat an upgrade that was about to succeed. If an upgrade takes longer than this limit, the server has probably
/// hung.
const UPGRADE_TIMEOUT: Duration = Duration::from_hours(1);

/// Prints the definitions of the tables, and the account `user` with its minimum privileges on `database`. None is the
/// selected database. Does not need a server.
///
/// # Errors
/// Fails if stdout cannot be written.
pub fn print(database: Option<&str>, user: &str) -> anyhow::Result<Status> {
    report::result(&schema::printout(database, user))?;
    Ok(Status::OK)
}

/// Creates the missing tables, or upgrades tables of an older version.
///
/// # Errors
/// Fails if the server cannot be reached, refuses a request, or has tables with which this version of dlock does not
/// work.
pub fn run(targets: Targets, report: &Report) -> anyhow::Result<Status> {
    let database = targets.database().to_owned();
    let state = query_once(targets.clone(), Database::setup)?;
    let text = match state {
        TablesState::Current => format!("the tables are in place in {database}"),
        TablesState::Newer { tables, program } => format!(
            "the tables in {database} have schema version {tables}, newer than {program} of this dlock, \
             which works with them; nothing was changed"
        ),
        TablesState::Older { tables, program } => {
            query_within(targets, UPGRADE_TIMEOUT, Database::upgrade)?;
            format!(
                "the tables are in place in {database}, upgraded from schema version {tables} to {program}"
            )
        }
    };
    report.info(EventKind::Message, text);
    Ok(Status::OK)
}
