//! The upgrades of existing tables, from each schema version to the next.
//!
//! An upgrade adds columns. New tables need no entry here, because `setup` also runs the definition, which creates
//! them. `schema.sql` always defines the tables of the newest version.

use super::Schema;

/// The change of the tables from one schema version to the next.
#[derive(Debug)]
pub(in crate::store::mysql) struct Upgrade {
    /// Version after the upgrade.
    pub(in crate::store::mysql) version: u64,
    /// Lowest schema version of a dlock that works with the upgraded tables. An additive upgrade does not raise it, so
    /// that older programs continue to work.
    pub(in crate::store::mysql) min_version: u64,
    /// Columns to add, in order.
    pub(in crate::store::mysql) columns: &'static [NewColumn],
}

/// A column that an upgrade adds to an existing table.
#[derive(Debug, Clone, Copy)]
pub(in crate::store::mysql) struct NewColumn {
    pub(in crate::store::mysql) table: &'static str,
    pub(in crate::store::mysql) name: &'static str,
    /// Type and default as in `schema.sql`. It has a default or allows NULL, because older programs do not name the
    /// column.
    pub(in crate::store::mysql) definition: &'static str,
}

impl Upgrade {
    /// Returns the version that the tables must have before this upgrade.
    const fn previous(&self) -> u64 {
        self.version - 1
    }

    /// Returns the statement that makes too old programs refuse the tables. It changes nothing if they already do, or
    /// if the upgrade was made.
    pub(in crate::store::mysql) fn raise_min_version(&self) -> String {
        format!(
            "UPDATE dlock_schema SET min_version=GREATEST(min_version,{}) WHERE version={};",
            self.min_version,
            self.previous()
        )
    }

    /// Returns the statement that records the version after the upgrade. It never lowers the version.
    pub(in crate::store::mysql) fn record(&self) -> String {
        format!(
            "UPDATE dlock_schema SET version={} WHERE version={};",
            self.version,
            self.previous()
        )
    }
}

impl NewColumn {
    /// Returns the statement that adds the column. It fails if the column exists.
    pub(in crate::store::mysql) fn add(&self) -> String {
        let Self {
            table,
            name,
            definition,
        } = self;
        format!("ALTER TABLE {table} ADD COLUMN {name} {definition};")
    }
}

impl Schema {
    /// Returns the upgrade of tables that have `version`. None if they need none, or if there is none for this version.
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
                "Existing tables of schema version {from}: dlock setup upgrades them to {to} with"
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
    use super::super::{PRESENT, Schema, current};
    use super::{NewColumn, Upgrade};

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
        assert_eq!(PRESENT.upgrades_as_comments(), "");
        assert_eq!(
            THIRD.upgrades_as_comments(),
            "-- Existing tables of schema version 1: dlock setup upgrades them to 2 with\n\
             -- UPDATE dlock_schema SET min_version=GREATEST(min_version,1) WHERE version=1;\n\
             -- ALTER TABLE dlock_lock ADD COLUMN colour TINYINT NULL;\n\
             -- UPDATE dlock_schema SET version=2 WHERE version=1;\n\n\
             -- Existing tables of schema version 2: dlock setup upgrades them to 3 with\n\
             -- UPDATE dlock_schema SET min_version=GREATEST(min_version,3) WHERE version=2;\n\
             -- UPDATE dlock_schema SET version=3 WHERE version=2;\n\n"
        );
    }
}
