//! A next schema version, for tests of two versions on the same tables: one column more than the present one.
//!
//! Only `dlock-mutant` contains it. `statements/history.rs` writes the column, so the program needs the new version.

use std::sync::OnceLock;

use super::present::PRESENT;
use super::upgrade::{NewColumn, Upgrade};
use super::version::Schema;

/// A column for the schema version of the program that recorded a run.
const RECORDER: NewColumn = NewColumn {
    table: "dlock_history",
    name: "recorder",
    definition: "TINYINT NOT NULL DEFAULT 1",
};

const VERSION: u64 = PRESENT.version + 1;

/// The upgrades of this program. They have to start with those of [`PRESENT`], which has none.
const UPGRADES: &[Upgrade] = &[Upgrade {
    version: VERSION,
    min_version: 1,
    columns: &[RECORDER],
}];

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
