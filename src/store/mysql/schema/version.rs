//! The rule for schema versions: a program works with tables whose version is not lower than the program needs, and
//! which do not require a newer program.

use super::upgrade::{NewColumn, Upgrade};
use crate::store::{Failure, FailureKind};

/// The tables of a program, and the older tables that it works with or upgrades.
#[derive(Debug)]
pub(in crate::store::mysql) struct Schema {
    /// Version of the tables that this program creates.
    pub(in crate::store::mysql) version: u64,
    /// Lowest version of the tables that this program works with. The program's statements use nothing that tables of
    /// this version lack.
    pub(in crate::store::mysql) required: u64,
    /// Definition of the tables: several statements, separated by semicolons. Running them again changes nothing.
    ///
    /// `dlock_lock` comes last, so that no lease can be acquired before the version is recorded.
    pub(in crate::store::mysql) ddl: &'static str,
    /// One upgrade for each version after 1, in order.
    pub(in crate::store::mysql) upgrades: &'static [Upgrade],
}

/// The version that the row of `dlock_schema` contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store::mysql) struct TablesVersion {
    /// Version of the tables.
    pub(in crate::store::mysql) version: u64,
    /// Lowest schema version of a dlock that works with the tables.
    pub(in crate::store::mysql) min_version: u64,
}

/// Reason why a program does not work with the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store::mysql) enum VersionMismatch {
    /// `dlock_schema` has no row.
    Empty,
    /// The tables lack something that the program uses.
    TablesTooOld { tables: u64, required: u64 },
    /// The program would use the tables in a way that is no longer correct.
    ProgramTooOld { min_version: u64, program: u64 },
}

/// Columns of a SELECT that contain the version of the tables. They are NULL if `dlock_schema` has no row.
pub(in crate::store::mysql) const VERSION_COLUMNS: &str = "(SELECT MIN(version) FROM dlock_schema) AS version,\
     (SELECT MAX(min_version) FROM dlock_schema) AS min_version";

impl Schema {
    /// Checks that this program works with tables that have the version `found`. None means that no version is
    /// recorded, which is an error.
    pub(in crate::store::mysql) fn check(
        &self,
        found: Option<TablesVersion>,
    ) -> Result<(), VersionMismatch> {
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

    /// Returns the SQL condition that is true if [`Self::check`] would succeed, and false or NULL otherwise.
    pub(in crate::store::mysql) fn accepts_tables(&self) -> String {
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
    /// After it has sent the first part, a program can read whether a different version has created the tables, or is
    /// creating them. In that case, the program must not add tables of its own version.
    pub(in crate::store::mysql) fn creation(&self) -> (&'static str, &'static str) {
        let recorded = "INSERT IGNORE INTO dlock_schema";
        let insert = self.ddl.find(recorded).unwrap_or_default();
        let length = self.ddl[insert..].find(";\n").map_or(0, |end| end + 2);
        self.ddl.split_at(insert + length)
    }
}

impl VersionMismatch {
    /// Returns a description of the mismatch for users.
    pub(in crate::store::mysql) fn fact(self) -> String {
        match self {
            Self::Empty => "the table dlock_schema is empty".to_owned(),
            Self::TablesTooOld { tables, required } => {
                format!("the tables have schema version {tables}, but this dlock needs {required}")
            }
            Self::ProgramTooOld {
                min_version,
                program,
            } => format!(
                "the tables need a dlock with schema version {min_version} or later, but this dlock has {program}"
            ),
        }
    }

    /// Returns the fix for users.
    pub(in crate::store::mysql) const fn fix(self) -> &'static str {
        match self {
            Self::Empty => "run dlock setup",
            Self::TablesTooOld { .. } => {
                "run dlock setup with this version of dlock and an account that may alter tables"
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

impl Schema {
    /// Returns the upgrade from `version` to the next version. Returns None if there is no such upgrade.
    pub(in crate::store::mysql) fn upgrade_of(&self, version: u64) -> Option<&'static Upgrade> {
        let mut upgrades = self.upgrades.iter();
        upgrades.find(|upgrade| upgrade.previous() == version)
    }

    /// Returns the columns that tables of `version` do not have yet.
    pub(in crate::store::mysql) fn columns_after(
        &self,
        version: u64,
    ) -> impl Iterator<Item = &'static NewColumn> {
        let later = move |upgrade: &&Upgrade| upgrade.version > version;
        let upgrades = self.upgrades.iter().filter(later);
        upgrades.flat_map(|upgrade| upgrade.columns)
    }

    /// Returns the statements of all upgrades as SQL comments, each upgrade followed by an empty line.
    pub(in crate::store::mysql) fn upgrades_as_comments(&self) -> String {
        let comments = |upgrade: &Upgrade| {
            let (from, to) = (upgrade.previous(), upgrade.version);
            let title = format!(
                "To upgrade existing tables from schema version {from} to {to}, dlock setup runs these statements:"
            );
            let mut lines = vec![title, upgrade.raise_min_version()];
            lines.extend(upgrade.columns.iter().map(NewColumn::add));
            lines.push(upgrade.record());
            format!("-- {}\n\n", lines.join("\n-- "))
        };
        self.upgrades.iter().map(comments).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::current;
    use super::super::present::PRESENT;
    use super::super::upgrade::{NewColumn, Upgrade};
    use super::{Schema, TablesVersion, VersionMismatch};
    const UPGRADES: [Upgrade; 2] = [
        Upgrade {
            version: 2,
            min_version: 1,
            columns: &[NewColumn {
                table: "dlock_lock",
                name: "colour",
                definition: "TINYINT NULL",
            }],
        },
        Upgrade {
            version: 3,
            min_version: 3,
            columns: &[],
        },
    ];

    const THIRD: Schema = Schema {
        version: 3,
        upgrades: &UPGRADES,
        ..PRESENT
    };

    #[test]
    fn upgrades_are_complete_and_their_columns_are_defined() {
        let schema = current();
        let versions: Vec<u64> = schema.upgrades.iter().map(|one| one.version).collect();
        let wanted: Vec<u64> = (2..=schema.version).collect();
        assert_eq!(versions, wanted);
        assert!(schema.upgrades.is_sorted_by_key(|one| one.min_version));
        assert!(schema.required <= schema.version);
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let defined: Vec<String> = schema.ddl.lines().map(words).collect();
        for column in schema.columns_after(0) {
            let definition = column.definition;
            assert!(!definition.contains("NOT NULL") || definition.contains("DEFAULT"));
            let line = format!("{} {definition}", column.name);
            assert!(defined.iter().any(|one| one.starts_with(&line)), "{line}");
        }
    }

    #[test]
    fn each_version_has_one_upgrade() {
        let to = |version| THIRD.upgrade_of(version).map(|upgrade| upgrade.version);
        assert_eq!([0, 1, 2, 3].map(to), [None, Some(2), Some(3), None]);
        let columns = |version| THIRD.columns_after(version).count();
        assert_eq!([1, 2, 3].map(columns), [1, 0, 0]);
    }

    #[test]
    fn printed_upgrades_are_comments_in_order() {
        let without = Schema {
            upgrades: &[],
            ..PRESENT
        };
        assert_eq!(without.upgrades_as_comments(), "");
        assert_eq!(
            THIRD.upgrades_as_comments(),
            "-- To upgrade existing tables from schema version 1 to 2, dlock setup runs these statements:\n\
             -- UPDATE dlock_schema SET min_version=GREATEST(min_version,1) WHERE version=1;\n\
             -- ALTER TABLE dlock_lock ADD COLUMN colour TINYINT NULL;\n\
             -- UPDATE dlock_schema SET version=2 WHERE version=1;\n\n\
             -- To upgrade existing tables from schema version 2 to 3, dlock setup runs these statements:\n\
             -- UPDATE dlock_schema SET min_version=GREATEST(min_version,3) WHERE version=2;\n\
             -- UPDATE dlock_schema SET version=3 WHERE version=2;\n\n"
        );
    }

    #[test]
    fn tables_are_accepted_if_neither_side_is_too_old() {
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
