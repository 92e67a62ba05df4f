//! Connections that the server ends.

use std::time::Duration;

use mysql::prelude::Queryable;

use super::{Nemesis, SEARCH};
use crate::history::Micros;
use crate::kind::Kind;
use crate::schedule::Step;

/// How often to look for a session.
const LOOK: Duration = Duration::from_millis(40);

impl Nemesis<'_> {
    /// Kills a session; when, if there was one.
    pub(super) fn strike_session(&self, step: Step) -> Option<Micros> {
        let query = match step.kind {
            Kind::KillSession => {
                "SELECT session_id FROM dlock_lock WHERE action=? AND claim IS NOT NULL"
            }
            _ => "SELECT session_id FROM dlock_waiter WHERE action=?",
        };
        let mut admin = self.site.database.admin_conn();
        let mut left = SEARCH;
        let (sessions, chosen) = loop {
            let sessions: Vec<u64> = admin.exec(query, (&self.action,)).ok()?;
            if let Some(chosen) = step.choice.checked_rem(sessions.len()) {
                break (sessions, chosen);
            }
            left = left.checked_sub(LOOK)?;
            if !self.course.weather.pause(LOOK) {
                return None;
            }
        };
        let fault = self.begin(step.kind, None, None);
        // It may have ended by itself since.
        let killed = admin.query_drop(format!("KILL CONNECTION {}", sessions[chosen]));
        fault.end(self.course, killed.is_ok())
    }
}
