//! Reads the version of the tables, and upgrades the tables.

use super::super::schema::{NewColumn, Upgrade, VERSION_COLUMNS};
use super::fragments::REQUEST;

/// Reads the version of the tables.
pub(in crate::store::mysql) fn tables_version() -> String {
    format!("SELECT {REQUEST},{VERSION_COLUMNS}")
}

/// Returns 1 if the column exists, otherwise 0.
pub(in crate::store::mysql) fn has_column(column: &NewColumn) -> String {
    let NewColumn { table, name, .. } = column;
    format!(
        "SELECT {REQUEST},COUNT(*) AS answer FROM information_schema.columns \
         WHERE table_schema=DATABASE() AND table_name='{table}' AND column_name='{name}'"
    )
}

/// Adds the column, and returns 1. Fails if the column already exists.
pub(in crate::store::mysql) fn add_column(column: &NewColumn) -> String {
    format!("{}SELECT {REQUEST},1 AS answer", column.add())
}

/// Raises `min_version`, so that programs that will not work with the upgraded tables refuse them from now on, then
/// reads the version. Changes at most the row of `dlock_schema`. If nothing changes, either `min_version` is already
/// high enough, or the upgrade has been made.
pub(in crate::store::mysql) fn begin_upgrade(upgrade: &Upgrade) -> String {
    format!("{}{}", upgrade.raise_min_version(), tables_version())
}

/// Records that the upgrade has been made, then reads the version. Changes at most the row of `dlock_schema`, and only
/// if it has the version before the upgrade. Therefore the version never decreases, even if several programs upgrade
/// the tables at the same time.
pub(in crate::store::mysql) fn end_upgrade(upgrade: &Upgrade) -> String {
    format!("{}{}", upgrade.record(), tables_version())
}
