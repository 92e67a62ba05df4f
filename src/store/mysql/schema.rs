//! The tables, their version, and the grants that they need.
//!
//! `schema.sql` is the only definition: `setup` runs it, `setup --print` prints it, and the first `exec` runs it if its
//! account may create tables. `upgrade` lists the changes from each version to the next.
//!
//! The rule for versions has its home here ([`Schema::check`], [`Schema::accepts_tables`]): a program works with tables
//! that are not older than it needs, and that do not require a newer program.

#[cfg(feature = "mutants")]
mod next;
mod upgrade;

pub(super) use self::upgrade::{NewColumn, Upgrade};
#[cfg(feature = "mutants")]
use crate::mutant::{self, Safeguard};
use crate::store::{Failure, FailureKind};

/// The tables of a program, and the older tables that it works with or upgrades.
#[derive(Debug)]
pub(super) struct Schema {
    /// Version of the tables that this program creates.
    pub(super) version: u64,
    /// Lowest version of the tables that this program works with: its statements use nothing that this version lacks.
    pub(super) required: u64,
    /// Definition of the tables: several statements, separated by semicolons. A repetition changes nothing.
    ///
    /// `dlock_lock` comes last, so that no lease can be acquired before the version is recorded.
    pub(super) ddl: &'static str,
    /// One upgrade for each version after 1, in order.
    pub(super) upgrades: &'static [Upgrade],
}

/// The schema of this dlock.
const PRESENT: Schema = Schema {
    version: 1,
    required: 1,
    ddl: include_str!("schema.sql"),
    upgrades: &[],
};

/// Returns the schema of this program.
pub(super) fn current() -> &'static Schema {
    #[cfg(feature = "mutants")]
    if mutant::is_disabled(Safeguard::PresentSchema) {
        return next::schema();
    }
    &PRESENT
}

/// The version that the row of `dlock_schema` contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TablesVersion {
    /// Version of the tables.
    pub(super) version: u64,
    /// Lowest schema version of a dlock that works with the tables.
    pub(super) min_version: u64,
}

/// Reason why a program does not work with the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VersionMismatch {
    /// `dlock_schema` has no row.
    Empty,
    /// The tables lack something that the program uses.
    TablesTooOld { tables: u64, required: u64 },
    /// The program would use the tables in a way that is no longer correct.
    ProgramTooOld { min_version: u64, program: u64 },
}

/// Columns that a SELECT returns for the version of the tables. They are NULL if there is no row.
pub(super) const VERSION_COLUMNS: &str = "(SELECT MIN(version) FROM dlock_schema) AS version,\
     (SELECT MAX(min_version) FROM dlock_schema) AS min_version";

impl Schema {
    /// Checks that this program works with tables that have the version `found`. None means that none is recorded.
    pub(super) fn check(&self, found: Option<TablesVersion>) -> Result<(), VersionMismatch> {
        let found = found.ok_or(VersionMismatch::Empty)?;
        if found.min_version > self.version {
            return Err(VersionMismatch::ProgramTooOld {
                min_version: found.min_version,
                program: self.version,
            });
        }
        if found.version < self.required {
            return Err(VersionMismatch::TablesTooOld {
                tables: found.version,
                required: self.required,
            });
        }
        Ok(())
    }

    /// Returns the SQL condition that is true exactly if [`Self::check`] succeeds, and otherwise false or NULL.
    pub(super) fn accepts_tables(&self) -> String {
        let Self {
            version, required, ..
        } = self;
        format!(
            "(SELECT MIN(version)>={required} AND MAX(min_version)<={version} FROM dlock_schema)"
        )
    }

    /// Returns the definition in two parts: the statements that create `dlock_schema` and record the version if none is
    /// recorded, and the statements that create the other tables.
    ///
    /// With the first part, a program finds out if another version has created the tables, or is creating them. It must
    /// not add tables of its own version then.
    pub(super) fn creation(&self) -> (&'static str, &'static str) {
        let recorded = "INSERT IGNORE INTO dlock_schema";
        let insert = self.ddl.find(recorded).unwrap_or_default();
        let length = self.ddl[insert..].find(";\n").map_or(0, |end| end + 2);
        self.ddl.split_at(insert + length)
    }
}

impl VersionMismatch {
    /// Returns what does not match, as text for users.
    pub(super) fn fact(self) -> String {
        match self {
            Self::Empty => "the table dlock_schema is empty".to_owned(),
            Self::TablesTooOld { tables, required } => {
                format!("the tables have schema version {tables}, this dlock needs {required}")
            }
            Self::ProgramTooOld {
                min_version,
                program,
            } => format!(
                "the tables need a dlock with schema version {min_version}, this dlock has {program}"
            ),
        }
    }

    /// Returns what the user should do.
    pub(super) const fn fix(self) -> &'static str {
        match self {
            Self::Empty => "run dlock setup",
            Self::TablesTooOld { .. } => {
                "run dlock setup of this dlock with an account that may alter tables"
            }
            Self::ProgramTooOld { .. } => "use a newer dlock",
        }
    }
}

impl From<VersionMismatch> for Failure {
    fn from(mismatch: VersionMismatch) -> Self {
        let message = format!("{}: {}", mismatch.fact(), mismatch.fix());
        Self::new(FailureKind::Config, message)
    }
}

/// Tables with the privileges that the account of `exec` needs.
const RUNTIME: [(&str, &str); 6] = [
    ("dlock_schema", "SELECT"),
    ("dlock_lock", "SELECT, INSERT, UPDATE"),
    ("dlock_waiter", "SELECT, INSERT, UPDATE, DELETE"),
    ("dlock_success", "SELECT, INSERT, UPDATE, DELETE"),
    ("dlock_history", "SELECT, INSERT, UPDATE, DELETE"),
    ("dlock_fence", "SELECT, INSERT, UPDATE"),
];

/// Returns each pair of a table and a privilege that the account of `exec` needs on it.
pub(super) fn rights() -> impl Iterator<Item = (&'static str, &'static str)> {
    let each = |(table, rights): (&'static str, &'static str)| {
        rights.split(", ").map(move |right| (table, right))
    };
    RUNTIME.into_iter().flat_map(each)
}

/// Returns the minimal grants for the account that runs `exec`, one statement per line.
#[must_use]
pub fn runtime_grants(database: &str, account: &str) -> String {
    let database = quoted(database);
    RUNTIME
        .map(|(table, rights)| format!("GRANT {rights} ON {database}.{table} TO {account};\n"))
        .concat()
}

/// Returns the minimal grant for the account that runs `setup`: one statement. It includes the privileges for upgrades
/// if there are any.
#[must_use]
pub fn setup_grants(database: &str, account: &str) -> String {
    // In a grant on a whole database, _ and % are wildcards.
    let database = quoted(database).replace('_', "\\_").replace('%', "\\%");
    let for_upgrades = match current().upgrades {
        [] => "",
        _ => ", UPDATE, ALTER",
    };
    format!("GRANT CREATE, SELECT, INSERT{for_upgrades} ON {database}.* TO {account};\n")
}

/// Returns the output of `setup --print`: definition and grants for a database administrator. The upgrades of existing
/// tables are comments, because they must not be executed on new tables.
#[must_use]
pub fn printout(database: &str) -> String {
    let schema = current();
    let ddl = schema.ddl;
    let upgrades = schema.upgrades_as_comments();
    let setup = setup_grants(database, "'dlock_setup'@'%'");
    let runtime = runtime_grants(database, "'dlock'@'%'");
    format!(
        "{ddl}\n{upgrades}\
         -- Grants of the account that runs dlock setup:\n{setup}\n\
         -- Grants of the account that runs dlock exec (SELECT is enough for status, history, wait, check):\n{runtime}"
    )
}

/// Returns `name` as a quoted identifier.
pub(super) fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

#[cfg(test)]
mod tests {
    use super::{
        PRESENT, RUNTIME, Schema, TablesVersion, VersionMismatch, current, runtime_grants,
    };

    #[test]
    fn every_table_has_grants_and_ddl_records_the_version() {
        let schema = current();
        let tables = schema.ddl.matches("CREATE TABLE").count();
        assert_eq!(tables, RUNTIME.len());
        let min_version = schema.upgrades.last().map_or(1, |last| last.min_version);
        let version = schema.version;
        let recorded = format!("VALUES (1, {version}, {min_version});");
        assert!(schema.ddl.contains(&recorded), "{recorded}");
        assert!(runtime_grants("a`b", "u").contains("ON `a``b`.dlock_lock TO u;"));
    }

    #[test]
    fn version_is_recorded_before_the_other_tables_are_created() {
        let (first, rest) = current().creation();
        assert_eq!(first.matches("CREATE TABLE").count(), 1, "{first}");
        assert!(first.contains("dlock_schema (\n") && first.ends_with("1);\n"));
        assert_eq!(rest.matches("CREATE TABLE").count(), RUNTIME.len() - 1);
        assert!(!rest.contains("INSERT"), "{rest}");
    }

    #[test]
    fn tables_are_accepted_between_the_required_and_the_own_version() {
        let program = Schema {
            version: 5,
            required: 3,
            ..PRESENT
        };
        let check = |version, min_version| {
            program.check(Some(TablesVersion {
                version,
                min_version,
            }))
        };
        for (version, min_version) in [(3, 1), (4, 4), (5, 5), (6, 5), (99, 1)] {
            let result = check(version, min_version);
            assert_eq!(result, Ok(()), "{version}, {min_version}");
        }
        let (tables, required) = (2, 3);
        let too_old = VersionMismatch::TablesTooOld { tables, required };
        assert_eq!(check(2, 1), Err(too_old));
        let (min_version, program_version) = (6, 5);
        let too_new = VersionMismatch::ProgramTooOld {
            min_version,
            program: program_version,
        };
        assert_eq!(check(6, 6), Err(too_new));
        assert_eq!(program.check(None), Err(VersionMismatch::Empty));
    }
}
