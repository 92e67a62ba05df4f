//! The fence of an action: one row that a command's own transaction locks, and that each grant advances.
//!
//! The row lock makes a grant wait for the commit of the last holder's transaction. The token in the row makes a stale
//! transaction fail that begins after the next grant.

use super::super::schema::quoted;
use super::fragments::hex;
use crate::lease::Token;
use crate::lease::action::Action;

/// Condition of the statements from [`lock_fence`] to [`advance_fence`]: this session has locked the fence.
pub(super) const PASSABLE: &str = " AND @dlock_fence IS NOT NULL";

/// Creates the fence of `action` if it does not exist. It has to run outside of a transaction.
pub(super) fn create_fence(action: &Action) -> String {
    let action = hex(action.as_str());
    format!(
        "INSERT INTO dlock_fence (action,token) SELECT {action},0 FROM DUAL \
         WHERE NOT EXISTS(SELECT 1 FROM dlock_fence WHERE action={action}) \
         ON DUPLICATE KEY UPDATE action=dlock_fence.action;"
    )
}

/// Locks the fence, if no transaction of a command has locked it. Does not wait for the lock: a timeout error would end
/// the session, and with it the queue lock and the position in the queue.
pub(super) fn lock_fence(action: &Action) -> String {
    format!(
        "SET @dlock_fence=NULL;SELECT token INTO @dlock_fence FROM dlock_fence WHERE action={} \
         FOR UPDATE SKIP LOCKED;",
        hex(action.as_str())
    )
}

/// Sets the fence to the action's token, if the action's row meets `condition`. The statement repeats [`PASSABLE`],
/// because MySQL would lock the fence row, and wait for that lock, before it evaluates `condition`.
pub(super) fn advance_fence(action: &Action, condition: &str) -> String {
    let action = hex(action.as_str());
    format!(
        "UPDATE dlock_fence SET token=(SELECT token FROM dlock_lock WHERE action={action}) \
         WHERE action={action} AND EXISTS(SELECT 1 FROM dlock_lock WHERE action={action} \
         AND {condition}){PASSABLE};"
    )
}

/// Returns the statement that a command sends in its own transaction, in the form that users see. It fails (error 1242)
/// unless `token` is the token of the last grant, and makes the next grant wait until the transaction ends. The error
/// comes from the two rows of the inner SELECT. No other statement fails in every `sql_mode` without a routine or a
/// write privilege.
#[must_use]
pub fn fence_check(database: &str, action: &Action, token: Token) -> String {
    format!(
        "SELECT IF(MAX(token)={token},'current',(SELECT 'stale' UNION SELECT 'token')) AS fence \
         FROM {}.dlock_fence WHERE action={} LOCK IN SHARE MODE;\n",
        quoted(database),
        hex(action.as_str())
    )
}
