//! The schema of this version of dlock.

use super::version::Schema;

/// The present schema.
pub(super) const PRESENT: Schema = Schema {
    version: 1,
    required: 1,
    ddl: include_str!("../schema.sql"),
    upgrades: &[],
};
