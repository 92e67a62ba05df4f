//! Removes actions that nobody uses any more.
//!
//! Nobody may compare a token of such an action with a smaller one later. Therefore the row with the empty name, which no
//! action has, keeps the lowest token with which a row may be created. It is committed before a row is deleted, so a
//! contender that creates the row again cannot read an older value.

use super::super::schema::VERSION_COLUMNS;
use super::create_row::LOWEST_TOKEN_ROW;
use super::fence::{PASSABLE, lock_fence};
use super::fragments::{CHANGED, REQUEST, SERVER_TIME, ago, hex};
use super::queue::may_be_waiting;
use crate::store::prune::{Prunable, PruneFilter};

/// Reads the actions that `filter` selects, with their tokens, the time since their latest use, and whether a success is
/// recorded. Returns at least one row, as `select_record` does.
pub(in crate::store::mysql) fn prunable(filter: &PruneFilter) -> String {
    format!(
        "SELECT {REQUEST},{VERSION_COLUMNS},l.action,l.token,{used} AS used_us,{is_done} AS is_done \
         FROM (SELECT 1) AS one LEFT JOIN dlock_lock AS l ON l.action LIKE {pattern} ESCAPE '|' AND {unused} ORDER BY l.action",
        used = ago("COALESCE(l.released_at,l.acquired_at)"),
        is_done = is_done("l"),
        pattern = hex(like(filter.pattern.as_deref().unwrap_or("*"))),
        unused = unused("l", filter),
    )
}

/// Deletes the row of an action, and all other rows of this action, if the action still has the token of `prunable` and
/// is still unused. Returns 1 if the row was deleted.
pub(in crate::store::mysql) fn prune(prunable: &Prunable, filter: &PruneFilter) -> String {
    let Prunable { action, token, .. } = prunable;
    let name = hex(action.as_str());
    let lowest = token.0.saturating_add(1);
    let is_done = match filter.includes_done {
        true => String::new(),
        false => format!(" AND NOT {}", is_done("dlock_lock")),
    };
    let delete = |table: &str| {
        let passable = match table {
            "dlock_fence" => PASSABLE,
            _ => "",
        };
        format!("DELETE FROM {table} WHERE action={name} AND {CHANGED}>0{passable};")
    };
    format!(
        "INSERT INTO dlock_lock (action,token) VALUES ({LOWEST_TOKEN_ROW},{lowest}) \
         ON DUPLICATE KEY UPDATE token=GREATEST(token,{lowest});\
         BEGIN;{lock}DELETE FROM dlock_lock WHERE action={name} AND token={token} AND {unused}{is_done} \
         AND (fenced=0 OR (TRUE{PASSABLE}));SET {CHANGED}=ROW_COUNT();{others}COMMIT;\
         SELECT {REQUEST},{CHANGED}>0 AS answer",
        lock = lock_fence(action),
        unused = unused("dlock_lock", filter),
        others = [
            "dlock_history",
            "dlock_success",
            "dlock_waiter",
            "dlock_fence",
            "dlock_slot",
        ]
        .map(delete)
        .concat(),
    )
}

/// Returns the condition that nobody holds, waits for, or pauses the action in `row`, a row of `dlock_lock`, and that
/// nobody has done so for the time in `filter`. Tokens are times. A session that a dead command has left must be ended by
/// the next command, so an action with such sessions is in use.
fn unused(row: &str, filter: &PruneFilter) -> String {
    let age = filter.unused_for.as_micros();
    let times = ["released_at", "acquired_at", "paused_until"].map(|column| {
        let ago = ago(&format!("{row}.{column}"));
        format!(" AND COALESCE({ago}>{age},TRUE)")
    });
    format!(
        "{row}.action<>{LOWEST_TOKEN_ROW} AND {row}.owner_id IS NULL AND {row}.sessions IS NULL \
         AND {row}.token<{SERVER_TIME}-{age}{} \
         AND NOT EXISTS(SELECT 1 FROM dlock_history AS h WHERE h.action={row}.action AND {ended}<={age}) \
         AND NOT EXISTS(SELECT 1 FROM dlock_waiter AS v WHERE v.action={row}.action AND {waiting})",
        times.concat(),
        ended = ago("h.ended_at"),
        waiting = may_be_waiting("v"),
    )
}

/// Returns the condition that `--once` has recorded a success of the action in `row`.
fn is_done(row: &str) -> String {
    format!("EXISTS(SELECT 1 FROM dlock_success AS d WHERE d.action={row}.action)")
}

/// Returns the pattern of LIKE, with the escape character `|`, for a pattern in which `*` matches any text.
fn like(pattern: &str) -> String {
    let escaped = ['|', '%', '_']
        .iter()
        .fold(pattern.to_owned(), |text, special| {
            text.replace(*special, &format!("|{special}"))
        });
    escaped.replace('*', "%")
}
