//! Looking: rows as they stand, with what a reply is checked by.

use super::line::{line, waiters};
use super::record::success;
use super::{CHANGED, HERE, REQUEST, SCHEMA_VERSION, SERVER_TIME, ago, gate_name, hex};
use crate::lease::action::Action;
use crate::store::{Contender, Gate, Place};

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

impl Selection<'_> {
    /// The condition that the action in `column` was named, if any was.
    pub(super) fn includes(self, column: &str) -> String {
        match self {
            Self::Named([]) => "FALSE".to_owned(),
            Self::Named(actions) => {
                let names: Vec<String> = actions.iter().map(|name| hex(name.as_str())).collect();
                format!("{column} IN ({})", names.join(","))
            }
            Self::Wanted | Self::All => "TRUE".to_owned(),
        }
    }
}

/// Reads whose the contender's row is and whether the statement before changed it, with as little else as
/// a grant needs: everybody behind us waits for it. Yields no row where there is none.
pub(in crate::store::mysql) fn proof(contender: &Contender) -> String {
    let (success, join) = success(contender);
    format!(
        "SELECT {REQUEST},{SERVER_TIME} AS server_time,{CHANGED}>0 AS changed,l.token,l.claim,\
         l.broken_at IS NOT NULL AS broken{success} FROM dlock_lock AS l{join} WHERE l.action={}",
        hex(contender.action.as_str()),
    )
}

/// Reads the contender's row, whether the statement before changed it, the success that makes a run
/// needless, and the line as seen from `place`.
pub(in crate::store::mysql) fn sight(contender: &Contender, place: Option<Place>) -> String {
    let action = hex(contender.action.as_str());
    let (success, join) = success(contender);
    let line = place.map_or_else(String::new, |place| line(&action, place));
    rows(
        &format!(",{CHANGED}>0 AS changed{success}{line}"),
        &format!("dlock_lock AS l ON l.action={action}{join}"),
    )
}

/// Reads rows, each with the last run that is over, and with whether the holder's session is there if named
/// locks may be asked for; then who waits.
///
/// A session has the gate until it ends. Nothing is known of a session without the gate: naming the list of
/// sessions alone costs a third of a millisecond.
pub(in crate::store::mysql) fn survey(selection: Selection, gate: Gate) -> String {
    let alive = match gate {
        Gate::Used => format!(
            "CASE WHEN l.claim IS NULL OR l.kept=1 OR l.server<>{HERE} THEN NULL \
             WHEN l.gated=1 THEN COALESCE(IS_USED_LOCK({})=l.session_id,0) ELSE NULL END",
            gate_name("l.action")
        ),
        Gate::Absent => "NULL".to_owned(),
    };
    let ended = ago("r.ended_at");
    let selected = match selection {
        // Each part has an index; no index serves an OR of them.
        Selection::Wanted => "(SELECT action FROM dlock_lock WHERE claim IS NOT NULL UNION \
             SELECT action FROM dlock_lock WHERE closed_until>UTC_TIMESTAMP(6) UNION \
             SELECT action FROM dlock_waiter) AS wanted ON TRUE \
             LEFT JOIN dlock_lock AS l ON l.action=wanted.action"
            .to_owned(),
        _ => format!("dlock_lock AS l ON {}", selection.includes("l.action")),
    };
    let locks = rows(
        &format!(",r.token AS last_token,r.ending,r.number,{ended} AS ended_us,{alive} AS alive"),
        &format!(
            "{selected} LEFT JOIN dlock_run AS r ON r.action=l.action AND r.deed=0 AND r.token=(\
             SELECT MAX(m.token) FROM dlock_run AS m WHERE m.action=l.action AND m.deed=0)"
        ),
    );
    format!("{locks};{}", waiters(selection))
}

/// Reads the rows `l` of `from`, and `more` columns; no lock is taken. Always yields at least one row,
/// whose action is NULL when there is none to show: the request's number, the version and the server's
/// time come with it.
fn rows(more: &str, from: &str) -> String {
    format!(
        "SELECT {REQUEST},{SCHEMA_VERSION} AS version,{SERVER_TIME} AS server_time,l.*,\
         l.gated=1 AND l.server={HERE} AS gated_here,\
         {broken} AS broken_us,{held} AS held_us,{renewed} AS renewed_us,\
         TIMESTAMPDIFF(MICROSECOND,UTC_TIMESTAMP(6),l.closed_until) AS closed_us,\
         TIMESTAMPDIFF(MICROSECOND,UTC_TIMESTAMP(6),l.expires_at) AS left_us{more} \
         FROM (SELECT 1) AS one LEFT JOIN {from} ORDER BY l.action",
        broken = ago("l.broken_at"),
        held = ago("l.acquired_at"),
        renewed = ago("l.renewed_at"),
    )
}
