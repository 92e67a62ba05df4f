//! The reminders of a contender that waits in the queue. Runs on the main thread.

use super::Driver;
use crate::event::queue_reader::{QueueReader, READ_INTERVAL};
use crate::report::log::{EventKind, WaitFacts};
use crate::report::{messages, waiting};
use crate::sys::clock;

impl Driver<'_> {
    /// Reports the present state again if this contender waits in the queue and a reminder is due. The database thread
    /// waits for the queue lock, so another thread reads the state. A reminder on a separate line waits for the end of
    /// this read, but not longer than the request timeout.
    pub(super) fn report_turn(&mut self) {
        // Only the latest lease is awaited. The ones before it are held.
        let number = self.leases.len() - 1;
        let lease = &mut self.leases[number];
        let Some(acquire) = self.keepers.each()[number].acquire() else {
            return;
        };
        if !self.events.database(number).is_waiting_turn() || !self.report.is_reminder_due() {
            return;
        }
        let now = clock::now();
        let latest_state = |reader: &QueueReader| {
            let states = reader.latest().into_iter().chain(acquire.observed());
            let latest = states.max_by_key(|(_, _, read_at)| *read_at)?;
            Some((latest.0.clone(), latest.1, latest.2))
        };
        let is_rewritten = self.report.rewrites_reminders();
        let Some((record, ahead, read_at)) = latest_state(&lease.queue_reader) else {
            return;
        };
        if now.since(read_at) >= READ_INTERVAL {
            lease.queue_reader.start(acquire.queue_entry(), ahead, now);
        }
        if !is_rewritten && lease.queue_reader.is_awaited() {
            return;
        }
        let waited = now.since(self.keepers.started());
        self.work.waiting(&record, ahead, waited);
        let (current_for, describe): (_, fn(_, _, _, _, _) -> _) = match is_rewritten {
            // The state on a terminal is read again while it is displayed.
            true => (2 * READ_INTERVAL, waiting::waiting_line),
            false => (READ_INTERVAL, waiting::still_waiting),
        };
        let age = Some(now.since(read_at)).filter(|age| *age >= current_for);
        let text = describe(&lease.contender.action, &record, ahead, waited, age);
        // The lease of an outdated record may have been renewed.
        let leased = Some(&record).filter(|_| age.is_none());
        let facts = WaitFacts::new(waited, Some(ahead), leased);
        let meta = EventKind::Waiting.by(messages::whose(&record));
        self.report.remind(meta.waiting(facts), text);
    }
}
