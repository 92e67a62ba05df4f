//! Faults of the reader of a holder's messages. The reader stops, as if the disk were full or the terminal were paused.

use std::time::Duration;

use mysql::prelude::Queryable;

use super::{Nemesis, SEARCH};
use crate::history::Micros;
use crate::schedule::Step;

impl Nemesis<'_> {
    /// Stops the reader of a holder, and makes the holder write a message. Returns the start time of the fault; None if
    /// no holder was found or its run had ended.
    pub(super) fn inject_reader_fault(&self, step: Step) -> Option<Micros> {
        let left = Duration::from_millis(500);
        let holder = self.context.live_runs.holder(&self.action, left, SEARCH)?;
        let length = step
            .kind
            .length(Duration::from_millis(holder.plan.ttl), step.severity);
        let mut admin = self.site.database.admin_conn();
        let fault = self.begin(step.kind, Some(holder.number), Some(holder.parent));
        let is_stopped = self.context.readers.stop(holder.number);
        let session = "SELECT session_id FROM dlock_lock WHERE action=? AND owner_id IS NOT NULL AND session_id>0";
        if let Ok(Some(session)) = admin.exec_first::<u64, _, _>(session, (&self.action,)) {
            // The session may have ended after the query.
            let _ = admin.query_drop(format!("KILL CONNECTION {session}"));
        }
        self.context.fault_phase.pause(length);
        self.context.readers.resume(holder.number);
        fault.end(self.context, is_stopped)
    }
}
