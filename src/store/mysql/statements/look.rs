//! Looking: rows as they stand, with what a reply is checked by.

use super::line::line;
use super::record::success;
use super::{CHANGED, HERE, SERVER_TIME, facts_of, gate_name_of, hex, hex_action};
use crate::lease::action::Action;
use crate::lease::once::Once;
use crate::store::{Gate, Place};

/// Which rows a look shows.
#[derive(Debug, Clone, Copy)]
pub enum Selection<'a> {
    /// Those of these actions.
    Named(&'a [Action]),
    /// Those that somebody holds, held until the lease lapsed, or waits for.
    Wanted,
    /// All.
    All,
}

/// How much a [`sight`] of one action shows.
#[derive(Debug, Clone, Copy)]
pub(in crate::store::mysql) enum Outlook {
    /// The row.
    Row,
    /// And whether the statement before has changed it.
    Changed,
    /// And the last run that is over, and the holder's session where named locks may be asked for.
    Survey(Gate),
    /// And the line as seen from a place in it.
    Line(Place),
}

/// The columns of the last run of row `l`, and the join that they need.
const LAST_RUN: (&str, &str) = (
    ",r.token AS last_token,r.ending AS last_ending,r.number AS last_number,\
     TIMESTAMPDIFF(MICROSECOND,r.ended_at,UTC_TIMESTAMP(6)) AS last_us",
    " LEFT JOIN dlock_run AS r ON r.action=l.action AND r.deed=0 AND r.token=(\
     SELECT MAX(m.token) FROM dlock_run AS m WHERE m.action=l.action AND m.deed=0)",
);

/// Whether the session of row `l` is there: who has the gate has it until the session ends. Of one
/// without a gate nothing is known: to name the list of sessions alone costs a third of a
/// millisecond.
fn alive() -> String {
    format!(
        "CASE WHEN l.claim IS NULL OR l.kept=1 OR l.server<>{HERE} THEN NULL \
         WHEN l.gated=1 THEN COALESCE(IS_USED_LOCK({})=l.session_id,0) ELSE NULL END",
        gate_name_of("l.action")
    )
}

/// Reads whose the row of `action` is and whether the statement before changed it, with as little else as
/// a grant needs: everybody behind us waits for it. Yields no row where there is none.
pub(in crate::store::mysql) fn proof(
    request: [u8; 8],
    action: &Action,
    once: Option<&Once>,
) -> String {
    let (success, join) = success(action, once);
    format!(
        "SELECT {} AS request,{SERVER_TIME} AS server_time,{CHANGED}>0 AS changed,l.token AS token,\
         l.claim AS claim,l.broken_at IS NOT NULL AS broken{success} FROM dlock_lock AS l{join} \
         WHERE l.action={}",
        hex(&request),
        hex_action(action),
    )
}

/// Reads rows, and the success that `once` asks for; no lock is taken. Always yields at least one row,
/// whose action is NULL when there is none to show: the request's number, the version and the server's
/// time come with it.
pub(in crate::store::mysql) fn sight(
    request: [u8; 8],
    selection: Selection,
    outlook: Outlook,
    once: Option<&Once>,
) -> String {
    let rows = match selection {
        Selection::Named([]) => "dlock_lock AS l ON FALSE".to_owned(),
        Selection::Named(actions) => {
            let names: Vec<String> = actions.iter().map(hex_action).collect();
            format!("dlock_lock AS l ON l.action IN ({})", names.join(","))
        }
        // Each part has an index; no index serves an OR of them.
        Selection::Wanted => "(SELECT action FROM dlock_lock WHERE claim IS NOT NULL UNION \
             SELECT action FROM dlock_lock WHERE closed_until>UTC_TIMESTAMP(6) UNION \
             SELECT action FROM dlock_waiter) AS wanted ON TRUE \
             LEFT JOIN dlock_lock AS l ON l.action=wanted.action"
            .to_owned(),
        Selection::All => "dlock_lock AS l ON TRUE".to_owned(),
    };
    let line = match (outlook, selection) {
        (Outlook::Line(place), Selection::Named([action])) => line(action, place),
        _ => String::new(),
    };
    let (more, join) = match (outlook, selection) {
        (Outlook::Changed, _) => (format!(",{CHANGED}>0 AS changed"), String::new()),
        (Outlook::Survey(sessions), _) => {
            let alive = match sessions {
                Gate::Used => alive(),
                Gate::Absent => "NULL".to_owned(),
            };
            let session = format!(",l.session_id AS session_id,{alive} AS alive");
            (format!("{}{session}", LAST_RUN.0), LAST_RUN.1.to_owned())
        }
        (_, Selection::Named([action])) => success(action, once),
        _ => (String::new(), String::new()),
    };
    format!(
        "SELECT {} AS request,(SELECT MAX(version) FROM dlock_schema) AS version,\
         {SERVER_TIME} AS server_time,\
         l.action AS action,l.token AS token,l.claim AS claim,l.renewals AS renewals,\
         {facts},\
         l.ttl_us AS ttl_us,l.acquired_at AS acquired_at,\
         l.fenced AS fenced,l.kept AS kept,l.expires_at AS expires_at,\
         l.gated=1 AND l.server={HERE} AS gated_here,\
         l.closed_until AS closed_until,l.operator AS operator,l.reason AS reason,\
         TIMESTAMPDIFF(MICROSECOND,l.broken_at,UTC_TIMESTAMP(6)) AS broken_us,\
         TIMESTAMPDIFF(MICROSECOND,UTC_TIMESTAMP(6),l.closed_until) AS closed_us,\
         TIMESTAMPDIFF(MICROSECOND,l.acquired_at,UTC_TIMESTAMP(6)) AS held_us,\
         TIMESTAMPDIFF(MICROSECOND,l.renewed_at,UTC_TIMESTAMP(6)) AS renewed_us,\
         TIMESTAMPDIFF(MICROSECOND,UTC_TIMESTAMP(6),l.expires_at) AS left_us{line}{more} \
         FROM (SELECT 1) AS one LEFT JOIN {rows}{join} \
         ORDER BY l.action",
        hex(&request),
        facts = facts_of("l"),
    )
}
