//! Faults of sessions. The server kills a session.

use std::time::Duration;

use mysql::prelude::Queryable;

use super::{Nemesis, SEARCH};
use crate::fault_kind::FaultKind;
use crate::history::Micros;
use crate::schedule::Step;

/// Interval at which the nemesis queries the sessions.
const POLL_INTERVAL: Duration = Duration::from_millis(40);

/// Selects the sessions of the holders of an action.
pub(super) const HOLDERS: &str = "SELECT session_id FROM (SELECT action,owner_id,session_id FROM dlock_lock \
     UNION ALL SELECT action,owner_id,session_id FROM dlock_slot) AS l \
     WHERE action=? AND owner_id IS NOT NULL AND session_id>0";

/// Selects the sessions with a queue entry.
const WAITERS: &str = "SELECT session_id FROM dlock_waiter WHERE action=?";

impl Nemesis<'_> {
    /// Kills a session. Returns the start time of the fault; None if no session was killed.
    pub(super) fn inject_session_fault(&self, step: Step) -> Option<Micros> {
        let query = match step.kind {
            FaultKind::KillSession => HOLDERS,
            _ => WAITERS,
        };
        let mut admin = self.site.database.admin_conn();
        let mut left = SEARCH;
        let session = loop {
            let sessions: Vec<u64> = admin.exec(query, (self.action(),)).ok()?;
            if let Some(chosen) = step.choice.checked_rem(sessions.len()) {
                break sessions[chosen];
            }
            left = left.checked_sub(POLL_INTERVAL)?;
            if !self.context.fault_phase.pause(POLL_INTERVAL) {
                return None;
            }
        };
        let fault = self.begin(step.kind, None, None);
        // The session may have ended after the query.
        let killed = admin.query_drop(format!("KILL CONNECTION {session}"));
        self.end(fault, killed.is_ok())
    }
}
