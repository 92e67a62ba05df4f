//! Statements that the server is handed while there is time, and carries out when there is none.
//!
//! What it has parsed it need not parse again: a grant or a release takes some 0.1 ms less on
//! MariaDB and 0.2 ms on MySQL, for which everybody behind in the line waits. They belong to the
//! session, as the gate does. The names cannot clash: the session is ours alone.

use super::hex;

/// The attempt of who waits at the gate.
pub(super) const TAKE: &str = "dlock_take";

/// Its proof.
pub(super) const PROOF: &str = "dlock_proof";

/// The notice of the end of a lease.
pub(super) const NOTICE: &str = "dlock_notice";

/// Makes `statement`, which may end with a semicolon, ready under `name`.
pub(super) fn prepare(name: &str, statement: &str) -> String {
    format!(
        "SET @dlock_text={};PREPARE {name} FROM @dlock_text;",
        hex(statement.trim_end_matches(';').as_bytes())
    )
}

/// Carries out what was made ready under `name`.
pub(super) fn execute(name: &str) -> String {
    format!("EXECUTE {name};")
}
