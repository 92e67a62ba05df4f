//! Looking: rows as they stand, with what a reply is checked by.

use super::line::{gone, line};
use super::record::success;
use super::{HERE, hex, hex_action};
use crate::lease::action::Action;
use crate::lease::once::Once;
use crate::store::Place;

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
    /// And the last run that is over.
    LastRun,
    /// And the line as seen from a place in it.
    Line(Place),
    /// And the places in it of which the session is gone, which takes the server some work.
    Places(Place),
}

/// The columns of the last run of row `l`, and the join that they need.
const LAST_RUN: (&str, &str) = (
    ",r.token AS last_token,r.ending AS last_ending,r.number AS last_number,\
     TIMESTAMPDIFF(MICROSECOND,r.ended_at,UTC_TIMESTAMP(6)) AS last_us",
    " LEFT JOIN dlock_run AS r ON r.action=l.action AND r.forgotten=0 AND r.token=(\
     SELECT MAX(m.token) FROM dlock_run AS m WHERE m.action=l.action AND m.forgotten=0)",
);

/// Reads rows, and the success that `once` asks for; no lock is taken. Always yields at least one row, whose action is NULL when there
/// is none to show: the request's number, the version and the server's time come with it.
pub(in crate::store::mysql) fn sight(
    request: [u8; 8],
    selection: Selection,
    outlook: Outlook,
    once: Option<&Once>,
) -> String {
    let condition = match selection {
        Selection::Named([]) => "FALSE".to_owned(),
        Selection::Named(actions) => {
            let names: Vec<String> = actions.iter().map(hex_action).collect();
            format!("l.action IN ({})", names.join(","))
        }
        Selection::Wanted => "(l.claim IS NOT NULL OR EXISTS(\
             SELECT 1 FROM dlock_waiter AS w WHERE w.action=l.action))"
            .to_owned(),
        Selection::All => "TRUE".to_owned(),
    };
    let line = match (outlook, selection) {
        (Outlook::Line(place), Selection::Named([action])) => line(action, place, "NULL"),
        (Outlook::Places(place), Selection::Named([action])) => line(action, place, &gone(action)),
        _ => String::new(),
    };
    let (more, join) = match (outlook, selection) {
        (Outlook::LastRun, _) => (LAST_RUN.0.to_owned(), LAST_RUN.1.to_owned()),
        (_, Selection::Named([action])) => success(action, once),
        _ => (String::new(), String::new()),
    };
    format!(
        "SELECT {} AS request,(SELECT MAX(version) FROM dlock_schema) AS version,\
         TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6)) AS server_time,\
         l.action AS action,l.token AS token,l.claim AS claim,l.renewals AS renewals,\
         l.holder AS holder,l.host AS host,l.pid AS pid,l.user AS user,l.note AS note,\
         l.ttl_us AS ttl_us,l.acquired_at AS acquired_at,\
         l.fenced AS fenced,l.kept AS kept,l.expires_at AS expires_at,\
         l.gated=1 AND l.server={HERE} AS gated_here,\
         TIMESTAMPDIFF(MICROSECOND,l.acquired_at,UTC_TIMESTAMP(6)) AS held_us,\
         TIMESTAMPDIFF(MICROSECOND,l.renewed_at,UTC_TIMESTAMP(6)) AS renewed_us,\
         TIMESTAMPDIFF(MICROSECOND,UTC_TIMESTAMP(6),l.expires_at) AS left_us{line}{more} \
         FROM (SELECT 1) AS one LEFT JOIN dlock_lock AS l ON {condition}{join} \
         ORDER BY l.action",
        hex(&request),
    )
}
