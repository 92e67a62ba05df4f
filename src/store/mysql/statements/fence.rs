//! The fence of an action: one row that a command's own transaction locks, and that each grant raises.
//!
//! The lock makes a grant wait for the commit of the last holder's transaction, and the token in the
//! row makes a transaction fail that begins after the next grant.

use super::super::schema::quoted;
use super::hex;
use crate::lease::Token;
use crate::lease::action::Action;

/// A condition of the statements between [`lowered`] and [`raised`]: the fence is ours to raise.
pub(super) const PASSABLE: &str = " AND @dlock_fence IS NOT NULL";

/// Makes sure that the fence of `action` exists; to be said outside of a transaction.
pub(super) fn made(action: &Action) -> String {
    let action = hex(action.as_str());
    format!(
        "INSERT INTO dlock_fence (action,token) SELECT {action},0 FROM DUAL \
         WHERE NOT EXISTS(SELECT 1 FROM dlock_fence WHERE action={action}) \
         ON DUPLICATE KEY UPDATE action=dlock_fence.action;"
    )
}

/// Locks the fence, if no transaction of a command has it locked. Does not wait for that: an error
/// at the end of the wait would cost the session, and with it the gate and the place in the line.
pub(super) fn lowered(action: &Action) -> String {
    format!(
        "SET @dlock_fence=NULL;SELECT token INTO @dlock_fence FROM dlock_fence WHERE action={} \
         FOR UPDATE SKIP LOCKED;",
        hex(action.as_str())
    )
}

/// Raises the fence to the action's token, if its row meets `condition`. It names the condition that
/// the fence is ours once more: MySQL would lock the row, and wait for it, before it looks at the
/// other.
pub(super) fn raised(action: &Action, condition: &str) -> String {
    let action = hex(action.as_str());
    format!(
        "UPDATE dlock_fence SET token=(SELECT token FROM dlock_lock WHERE action={action}) \
         WHERE action={action} AND EXISTS(SELECT 1 FROM dlock_lock WHERE action={action} \
         AND {condition}){PASSABLE};"
    )
}

/// What a command says in its own transaction, in the form that users see: it fails (error 1242)
/// unless `token` is that of the last grant, and keeps the next grant waiting until the transaction
/// ends. The two rows of the inner SELECT are the failure; no other statement raises an error in
/// every `sql_mode` without a routine or a right to write.
#[must_use]
pub fn fence_check(database: &str, action: &Action, token: Token) -> String {
    format!(
        "SELECT IF(MAX(token)={token},'current',(SELECT 'stale' UNION SELECT 'token')) AS fence \
         FROM {}.dlock_fence WHERE action={} LOCK IN SHARE MODE;\n",
        quoted(database),
        hex(action.as_str())
    )
}
