//! The schema of this version of dlock.

use super::upgrade::{NewColumn, Upgrade};
use super::version::Schema;

/// The present schema.
pub(super) const PRESENT: Schema = Schema {
    version: 3,
    // A program needs the table of the slots only if a lease is in a slot.
    required: 2,
    ddl: include_str!("../schema.sql"),
    upgrades: &[TO_VERSION_2, TO_VERSION_3],
};

/// Adds the sessions of a command, the number of processes that it left, the exit status that dlock chose, the waiting time
/// of a run, and two facts about a waiter: that it waits again, and under which lease it runs. A program of version 1
/// neither notes nor ends sessions, as before the upgrade, and records none of the other facts.
pub(super) const TO_VERSION_2: Upgrade = Upgrade {
    version: 2,
    min_version: 1,
    columns: &[
        NewColumn {
            table: "dlock_history",
            name: "sessions_ended",
            definition: "INT UNSIGNED NULL",
        },
        NewColumn {
            table: "dlock_history",
            name: "processes_killed",
            definition: "INT UNSIGNED NULL",
        },
        NewColumn {
            table: "dlock_history",
            name: "dlock_status",
            definition: "TINYINT UNSIGNED NULL",
        },
        NewColumn {
            table: "dlock_history",
            name: "waited_us",
            definition: "BIGINT UNSIGNED NULL",
        },
        NewColumn {
            table: "dlock_lock",
            name: "sessions",
            definition: "VARBINARY(8191) NULL",
        },
        NewColumn {
            table: "dlock_waiter",
            name: "waits_again",
            definition: "TINYINT NOT NULL DEFAULT 0",
        },
        NewColumn {
            table: "dlock_waiter",
            name: "inside_action",
            definition: "VARBINARY(255) NULL",
        },
        NewColumn {
            table: "dlock_waiter",
            name: "inside_token",
            definition: "BIGINT UNSIGNED NULL",
        },
    ],
};

/// Adds the table of the slots, and the number of the slot of a run. A program of version 2 sees that the action of a lease in a slot is held.
pub(super) const TO_VERSION_3: Upgrade = Upgrade {
    version: 3,
    min_version: 1,
    columns: &[NewColumn {
        table: "dlock_history",
        name: "slot",
        definition: "INT UNSIGNED NULL",
    }],
};
