//! The upgrades of existing tables, from each schema version to the next.
//!
//! An upgrade adds columns. A new table needs no entry here, because `setup` also runs the definition, which creates
//! missing tables. `schema.sql` always contains the definition of the newest version.

/// Changes to the tables from one schema version to the next.
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
    /// Type and default as in `schema.sql`. The column must have a default or allow NULL, because older programs do not
    /// set it.
    pub(in crate::store::mysql) definition: &'static str,
}

impl Upgrade {
    /// Returns the version that the tables must have before this upgrade.
    pub(super) const fn previous(&self) -> u64 {
        self.version - 1
    }

    /// Returns the statement that raises `min_version`, so that programs that are too old refuse the tables. The
    /// statement changes nothing if these programs already refuse the tables, or if the upgrade has been made.
    pub(in crate::store::mysql) fn raise_min_version(&self) -> String {
        format!(
            "UPDATE dlock_schema SET min_version=GREATEST(min_version,{}) WHERE version={};",
            self.min_version,
            self.previous()
        )
    }

    /// Returns the statement that records the version after the upgrade. The statement never lowers the version.
    pub(in crate::store::mysql) fn record(&self) -> String {
        format!(
            "UPDATE dlock_schema SET version={} WHERE version={};",
            self.version,
            self.previous()
        )
    }
}

impl NewColumn {
    /// Returns the statement that adds the column. The statement fails if the column exists.
    pub(in crate::store::mysql) fn add(&self) -> String {
        let Self {
            table,
            name,
            definition,
        } = self;
        format!("ALTER TABLE {table} ADD COLUMN {name} {definition};")
    }
}
