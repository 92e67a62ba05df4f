//! Whoever reads the messages of a holder stops, as a full disk or a paused terminal does.

use std::time::Duration;

use mysql::prelude::Queryable;

use super::{Nemesis, SEARCH};
use crate::history::Micros;
use crate::schedule::Step;

impl Nemesis<'_> {
    /// Stops the reader of a holder that has something to say; when, if there was a holder.
    pub(super) fn strike_reader(&self, step: Step) -> Option<Micros> {
        let left = Duration::from_millis(500);
        let holder = self.course.board.holder(&self.action, left, SEARCH)?;
        let length = step
            .kind
            .length(Duration::from_millis(holder.plan.ttl), step.severity);
        let mut admin = self.site.database.admin_conn();
        let fault = self.begin(step.kind, Some(holder.number), Some(holder.front));
        let is_stopped = self.course.readers.stop(holder.number);
        let session = "SELECT session_id FROM dlock_lock WHERE action=? AND claim IS NOT NULL";
        if let Ok(Some(session)) = admin.exec_first::<u64, _, _>(session, (&self.action,)) {
            // It may have ended by itself since.
            let _ = admin.query_drop(format!("KILL CONNECTION {session}"));
        }
        self.course.weather.pause(length);
        self.course.readers.go_on(holder.number);
        fault.end(self.course, is_stopped)
    }
}
