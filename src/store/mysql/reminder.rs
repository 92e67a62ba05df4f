//! Reads the present holder and the queue for a reminder of a waiter.

use super::database::{Database, RequestTiming};
use super::exchange::RequestKind;
use super::{rows, statements};
use crate::store::{Contender, QueueEntry, Response, TimedResponse};

impl Database {
    /// Reads the record and the queue for a reminder of the waiter with `entry`. Sends one statement, on a connection that
    /// is then closed. The statement does not depend on the settings of the session, and no failure needs an explanation.
    pub fn glance(&mut self, contender: &Contender, entry: QueueEntry) -> TimedResponse {
        self.timing = RequestTiming::new();
        let select = statements::glance(contender, entry);
        let found = self.exchange(RequestKind::Glance, &select, rows::read_result);
        let outcome = found.and_then(|found| {
            let found = found.or_unknown(&contender.action);
            found.unless_done(Response::NotAcquired)
        });
        self.timed(outcome)
    }
}
