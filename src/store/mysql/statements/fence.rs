//! The fence of an action. It is one row in `dlock_fence` that a command can lock in its own transaction, and that each
//! grant of the action advances.
//!
//! While a transaction of the previous holder's command has locked the row, the action is not granted. If a stale
//! command begins a transaction after the next grant, [`fence_check`] fails in that transaction.

use super::super::schema::quoted;
use super::fragments::hex;
use crate::lease::Token;
use crate::lease::action::Action;
use crate::store::FenceMode;

/// Condition that this session has locked the fence, for the statements from [`lock_fence`] to [`advance_fence`].
pub(super) const PASSABLE: &str = " AND @dlock_fence IS NOT NULL";

/// Returns the condition, which begins with AND, under which a grant may change the row: it has locked the fence, or the
/// grants of the action need not advance one.
pub(super) const fn passable(fence: FenceMode) -> &'static str {
    match fence {
        FenceMode::Advance => PASSABLE,
        FenceMode::Unchanged => " AND fenced=0",
    }
}

/// Returns the beginning and the end of a transaction that advances the fence, which it creates before. At the end, the
/// row of `action` must meet `condition`.
pub(super) fn fence_transaction(action: &Action, condition: &str) -> (String, String) {
    (
        format!("{}BEGIN;{}", create_fence(action), lock_fence(action)),
        format!("{}COMMIT;", advance_fence(action, condition)),
    )
}

/// Creates the fence of `action` if it does not exist. The statement must run outside of a transaction.
fn create_fence(action: &Action) -> String {
    let action = hex(action.as_str());
    format!(
        "INSERT INTO dlock_fence (action,token) SELECT {action},0 FROM DUAL \
         WHERE NOT EXISTS(SELECT 1 FROM dlock_fence WHERE action={action}) \
         ON DUPLICATE KEY UPDATE action=dlock_fence.action;"
    )
}

/// Locks the fence, unless a transaction of a command has locked it. Does not wait for the lock, because a timeout
/// error would end the session, and the contender would lose the queue lock and its position in the queue.
pub(super) fn lock_fence(action: &Action) -> String {
    format!(
        "SET @dlock_fence=NULL;SELECT token INTO @dlock_fence FROM dlock_fence WHERE action={} \
         FOR UPDATE SKIP LOCKED;",
        hex(action.as_str())
    )
}

/// Sets the token of the fence to the token of the action, if the action's row meets `condition`. The statement repeats
/// [`PASSABLE`], because otherwise MySQL would lock the fence row, and wait for that lock, before it evaluates
/// `condition`.
pub(super) fn advance_fence(action: &Action, condition: &str) -> String {
    let action = hex(action.as_str());
    format!(
        "UPDATE dlock_fence SET token=(SELECT token FROM dlock_lock WHERE action={action}) \
         WHERE action={action} AND EXISTS(SELECT 1 FROM dlock_lock WHERE action={action} \
         AND {condition}){PASSABLE};"
    )
}

/// Returns the statement that a command sends in its own transaction, formatted for users. The statement fails (error
/// 1242) unless the fence contains `token`. Each later grant changes the token of the fence. If the statement succeeds,
/// the action is not granted again before the transaction ends. The error occurs because the inner SELECT returns two
/// rows. This error occurs in every `sql_mode`, and the statement requires neither a routine nor a write privilege.
#[must_use]
pub fn fence_check(database: &str, action: &Action, token: Token) -> String {
    format!(
        "SELECT IF(MAX(token)={token},'current',(SELECT 'stale' UNION SELECT 'token')) AS fence \
         FROM {}.dlock_fence WHERE action={} LOCK IN SHARE MODE;\n",
        quoted(database),
        hex(action.as_str())
    )
}
