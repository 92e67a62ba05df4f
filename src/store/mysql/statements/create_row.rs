//! Creates the row of an action.

use super::fragments::hex;
use crate::lease::action::Action;
use crate::store::mysql::schema;

/// Name of the row whose token is the lowest one with which a row may be created. No action has an empty name, so readers
/// skip this row. It exists if `dlock prune` has removed an action.
pub(super) const LOWEST_TOKEN_ROW: &str = "x''";

/// Creates the row of `action` if the row does not exist and this dlock works with the tables. Does not change an
/// existing row. The creation is separate from the attempt, so that the attempt is a plain UPDATE of one row and
/// cannot deadlock with other attempts.
pub(in crate::store::mysql) fn create_row(action: &Action) -> String {
    format!(
        "INSERT INTO dlock_lock (action,token) SELECT {},\
         COALESCE((SELECT f.token FROM dlock_lock AS f WHERE f.action={LOWEST_TOKEN_ROW}),0) FROM DUAL \
         WHERE {} ON DUPLICATE KEY UPDATE action=dlock_lock.action;",
        hex(action.as_str()),
        schema::current().accepts_tables(),
    )
}
