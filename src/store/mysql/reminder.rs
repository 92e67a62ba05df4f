//! Reads the present holder and the queue for a reminder of a waiter.

use std::slice;

use super::database::{Database, RequestTiming};
use super::exchange::RequestKind;
use super::rows::{self, ReadResult};
use super::statements::{self, Selection};
use crate::store::{Contender, Failure, QueueEntry, Response, TimedResponse};

impl Database {
    /// Reads the record and the queue for a reminder of the waiter with `entry`. Sends one statement, on a connection that
    /// is then closed. If leases are in slots, reads them in the same way. The statements do not depend on the settings of the
    /// session, and no failure needs an explanation.
    pub fn glance(&mut self, contender: &Contender, entry: QueueEntry) -> TimedResponse {
        self.timing = RequestTiming::new();
        let outcome = self.glance_at_slots(contender, entry).and_then(|found| {
            let found = found.or_unknown(&contender.action);
            found.unless_done(Response::NotAcquired)
        });
        self.timed(outcome)
    }

    fn glance_at_slots(
        &mut self,
        contender: &Contender,
        entry: QueueEntry,
    ) -> Result<ReadResult, Failure> {
        let select = statements::glance(contender, entry);
        let mut found = self.exchange(RequestKind::Glance, &select, rows::read_result)?;
        if let Some(row) = &mut found.row
            && row.is_shared()
        {
            let own = Selection::Named(slice::from_ref(&contender.action));
            let slots = statements::select_slots(own, entry.queue_lock, None);
            row.slots = self.exchange(RequestKind::Glance, &slots, rows::slots)?;
        }
        Ok(found)
    }
}
