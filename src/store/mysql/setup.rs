//! Creates the tables, and upgrades tables of an older schema version.
//!
//! `exec` creates tables that do not exist, and never changes existing ones: a roll-out must not alter tables without
//! the operator's decision. Only `dlock setup` upgrades them.

use mysql::Row;

use super::database::Database;
use super::exchange::RequestKind;
use super::schema::{NewColumn, TablesVersion, Upgrade};
use super::statements::{self, Selection};
use super::{rows, schema};
use crate::store::{Failure, FailureKind, QueueLock};

/// Maximum number of attempts to execute each statement of an upgrade. An attempt waits up to one second
/// (`lock_wait_timeout`) for transactions of other sessions that use the table, and all later requests for the table
/// wait behind the attempt. With a longer wait, a holder could lose its lease. With fewer attempts, an upgrade of busy
/// tables would fail.
const ATTEMPTS: u32 = 5;

/// Pause between two attempts, during which the server executes the requests that waited behind the previous attempt.
/// It is as long as the maximum wait of an attempt.
const PAUSE: &str = "DO SLEEP(1);";

/// State of the tables after [`Database::setup`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TablesState {
    /// The tables have the version of this dlock.
    Current,
    /// The tables have a newer version, with which this dlock works. Nothing was changed.
    Newer {
        /// Version of the tables.
        tables: u64,
        /// Version of the tables that this dlock creates.
        program: u64,
    },
    /// The tables have an older version. Nothing was changed. [`Database::upgrade`] can upgrade the tables.
    Older {
        /// Version of the tables.
        tables: u64,
        /// Version of the tables after the upgrade.
        program: u64,
    },
}

impl Database {
    /// Checks the version of the tables. Creates missing tables, unless an upgrade is necessary. Changes no existing
    /// table.
    ///
    /// # Errors
    /// Returns any failure. The kind is `Config` if this dlock neither works with the tables nor can upgrade them. If
    /// tables are missing and the account may not create them, the message contains the necessary GRANT statements.
    pub fn setup(&mut self) -> Result<TablesState, Failure> {
        let schema = schema::current();
        let program = schema.version;
        let found = match self.tables_version() {
            Ok(Some(found)) => found,
            // The definition records the version of this program.
            Ok(None)
            | Err(Failure {
                kind: FailureKind::NoTables,
                ..
            }) => {
                self.create_tables()?;
                return Ok(TablesState::Current);
            }
            Err(failure) => return Err(failure),
        };
        let tables = found.version;
        if schema.upgrade_of(tables).is_some() && found.min_version <= program {
            return Ok(TablesState::Older { tables, program });
        }
        if tables < program && found.min_version <= program {
            let message = format!(
                "the tables have schema version {tables}, which this dlock cannot upgrade to {program}: \
                 use a different database for dlock"
            );
            return Err(Failure::new(FailureKind::Config, message));
        }
        match self.snapshot(Selection::Named(&[])) {
            Err(failure) if failure.kind == FailureKind::NoTables => self.create_tables()?,
            outcome => drop(outcome?),
        }
        Ok(match tables > program {
            true => TablesState::Newer { tables, program },
            false => TablesState::Current,
        })
    }

    /// Upgrades the tables to the version of this dlock. Calling it again continues an upgrade that was interrupted,
    /// and several programs may upgrade the tables at the same time: a step that is already complete has no effect, and
    /// the version is recorded after all steps of an upgrade.
    ///
    /// # Errors
    /// Returns any failure. After a failure, the recorded version is the version before or after one of the upgrades.
    /// If the account may not alter tables, the message contains the necessary GRANT statement.
    pub fn upgrade(&mut self) -> Result<(), Failure> {
        let schema = schema::current();
        let (_, tables) = schema.creation();
        let create = format!("{tables}{}", statements::tables_version());
        let mut found = self.alter(&create, rows::tables_version)?;
        loop {
            match found.and_then(|found| schema.upgrade_of(found.version)) {
                Some(upgrade) => found = self.apply_upgrade(upgrade)?,
                None => return Ok(schema.check(found)?),
            }
        }
    }

    /// Makes one upgrade, and returns the version of the tables after the upgrade.
    fn apply_upgrade(&mut self, upgrade: &Upgrade) -> Result<Option<TablesVersion>, Failure> {
        self.alter(&statements::begin_upgrade(upgrade), rows::tables_version)?;
        for column in upgrade.columns {
            self.add_column(column)?;
        }
        let found = self.alter(&statements::end_upgrade(upgrade), rows::tables_version)?;
        match found {
            Some(found) if found.version < upgrade.version => {
                let why = "the version of the upgraded tables cannot be read back";
                Err(Failure::new(FailureKind::Unknown, why))
            }
            found => Ok(found),
        }
    }

    /// Adds `column` if it does not exist. Only MariaDB has ADD COLUMN IF NOT EXISTS. Therefore, if the ALTER fails, a
    /// SELECT checks whether the column exists, because an interrupted upgrade, another program or an administrator may
    /// have added it. A SELECT before the ALTER could not detect a column that another program adds between the two
    /// statements.
    fn add_column(&mut self, column: &NewColumn) -> Result<(), Failure> {
        let add = statements::add_column(column);
        let Err(failure) = self.alter(&add, rows::is_confirmed) else {
            return Ok(());
        };
        let has_column = statements::has_column(column);
        match self.exchange(RequestKind::Plain, &has_column, rows::is_confirmed) {
            Ok(true) => Ok(()),
            _ => Err(failure),
        }
    }

    /// Sends a packet of an upgrade. Repeats it while a transaction of another session uses the table, up to
    /// [`ATTEMPTS`] attempts in all. The response has no time limit, because the server may have to copy a table.
    fn alter<T>(
        &mut self,
        packet: &str,
        read: impl Fn(&[Vec<Row>]) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut outcome = self.exchange(RequestKind::Wait(None), packet, &read);
        for _ in 1..ATTEMPTS {
            match &outcome {
                Err(failure) if failure.kind == FailureKind::Conflict => {
                    outcome =
                        self.exchange(RequestKind::Wait(None), &format!("{PAUSE}{packet}"), &read);
                }
                _ => break,
            }
        }
        outcome.map_err(|mut failure| {
            let advice = match failure.kind {
                FailureKind::Denied => {
                    let grants = schema::setup_grants(&self.target().database, "'…'@'…'");
                    let grants = one_line(&grants);
                    format!("; run dlock setup with an account that may alter tables ({grants})")
                }
                FailureKind::Conflict => "; a transaction of another session is using the table: \
                                          run dlock setup again when that transaction has ended"
                    .to_owned(),
                _ => String::new(),
            };
            failure.message.push_str(&advice);
            failure
        })
    }

    /// Creates the tables that do not exist. Returns an error if a table is missing and the existing tables have a
    /// different schema version.
    pub(super) fn create_tables(&mut self) -> Result<(), Failure> {
        let outcome = self.try_create_tables();
        outcome.map_err(|failure| match failure.kind {
            FailureKind::Denied => self.tables_are_missing(&failure),
            _ => failure,
        })
    }

    /// Returns the failure of an account that lacks a privilege if the tables do not exist either. The tables come first,
    /// because no GRANT for a table succeeds before the table exists. Returns such a failure unchanged.
    pub(super) fn tables_are_missing(&self, denied: &Failure) -> Failure {
        const CAUSE: &str = "does not have all tables of dlock";
        if denied.message.contains(CAUSE) {
            return denied.clone();
        }
        let database = &self.target().database;
        let user = &self.target().user;
        // The message already says what to do.
        let why = denied.message.split(';').next().unwrap_or_default();
        let message = format!(
            "the database {database} {CAUSE}, and {user} may not create them ({why}); \
             dlock setup --print, with the same settings, prints the statements for an administrator"
        );
        Failure::new(FailureKind::Denied, message)
    }

    fn try_create_tables(&mut self) -> Result<(), Failure> {
        let schema = schema::current();
        let (version, tables) = schema.creation();
        let packet = format!("{version}{}", statements::tables_version());
        let found = self.exchange(RequestKind::Plain, &packet, rows::tables_version)?;
        schema.check(found)?;
        if let Some(found) = found.filter(|found| found.version != schema.version) {
            let program = match found.version < schema.version {
                true => String::new(),
                false => format!(" with a dlock that has schema version {}", found.version),
            };
            let message = format!(
                "a table is missing, and the other tables have schema version {}: run dlock setup{program}",
                found.version
            );
            return Err(Failure::new(FailureKind::Config, message));
        }
        let snapshot = statements::select_snapshot(Selection::Named(&[]), QueueLock::Unavailable);
        let packet = format!("{tables}{snapshot}");
        self.read_snapshot(RequestKind::Plain, &packet).map(drop)
    }

    /// Checks that this dlock works with the tables.
    pub(super) fn check_version(&mut self) -> Result<(), Failure> {
        let found = self.tables_version()?;
        Ok(schema::current().check(found)?)
    }

    /// Reads the version of the tables. Returns None if no version is recorded.
    fn tables_version(&mut self) -> Result<Option<TablesVersion>, Failure> {
        let packet = statements::tables_version();
        self.exchange(RequestKind::Plain, &packet, rows::tables_version)
    }
}

fn one_line(statements: &str) -> String {
    statements.trim_end().replace('\n', " ")
}
