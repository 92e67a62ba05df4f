//! The next schema version, for tests in which two versions use the same tables. It has one more column than the
//! present version.
//!
//! Only a dlock with the feature `mutants` contains this schema. With this schema, `statements/history.rs` writes the
//! additional column, so the program needs tables of the new version.

use std::sync::OnceLock;

use super::present::{PRESENT, TO_VERSION_2, TO_VERSION_3};
use super::upgrade::{NewColumn, Upgrade};
use super::version::Schema;

/// Column that contains the schema version of the program that recorded a run.
const RECORDER: NewColumn = NewColumn {
    table: "dlock_history",
    name: "recorder",
    definition: "TINYINT NOT NULL DEFAULT 3",
};

const VERSION: u64 = PRESENT.version + 1;

/// The upgrades of this program. The list must start with the upgrades of [`PRESENT`].
const UPGRADES: &[Upgrade] = &[
    TO_VERSION_2,
    TO_VERSION_3,
    Upgrade {
        version: VERSION,
        min_version: 1,
        columns: &[RECORDER],
    },
];

/// Returns the next schema.
pub(super) fn schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let present = format!("VALUES (1, {}, 1);", PRESENT.version);
        let next = format!("VALUES (1, {VERSION}, 1);");
        let key = "  PRIMARY KEY (action, token, kind)";
        let column = format!("  {} {},\n{key}", RECORDER.name, RECORDER.definition);
        assert!(PRESENT.ddl.contains(&present) && PRESENT.ddl.contains(key));
        let ddl = PRESENT.ddl.replace(&present, &next).replace(key, &column);
        Schema {
            version: VERSION,
            required: VERSION,
            ddl: ddl.leak(),
            upgrades: UPGRADES,
        }
    })
}
