//! Reads the present holder and the queue for the reminders of a waiter.
//!
//! The database thread of a waiter waits for the queue lock, so it cannot read anything. Each read here is a
//! [`BackgroundRead`] and changes nothing on the server. Nothing waits for the result: if a read fails or takes too long,
//! the reminder shows the older state.

use std::time::Duration;

use crate::event::LeaseEvent;
use crate::event::background_read::BackgroundRead;
use crate::event::queue::LeaseSender;
use crate::lease::OwnerId;
use crate::lease::instant::BootInstant;
use crate::lease::timing::Timing;
use crate::store::target::Targets;
use crate::store::{Contender, FailureKind, LockRecord, QueueEntry, Response, TimedResponse};
use crate::sys::clock;

/// Minimum time between the starts of two reads. Each read costs the server a login, and there may be hundreds of
/// waiters. A reminder on a separate line follows much later.
pub const READ_INTERVAL: Duration = Duration::from_secs(10);

/// Time by which a read starts later for each waiter ahead. Waiters that arrive together read at the same time, and
/// would otherwise need twice as many connections at that time.
const PACE: Duration = Duration::from_millis(2);

/// Time for which nothing is read after the server has refused a connection because it had too many. A read would take one
/// of the connections that contenders need.
const PAUSE_WHEN_FULL: Duration = Duration::from_mins(5);

/// Starts the reads, at most one at a time, and keeps the latest result.
#[derive(Debug)]
pub struct QueueReader {
    read: BackgroundRead,
    contender: Contender,
    timing: Timing,
    events: LeaseSender,
    /// Owner id of this contender. None before the first read.
    owner_id: Option<OwnerId>,
    /// The record, the number of waiters ahead, and the time at which they were requested. None before the first
    /// successful read.
    latest: Option<(LockRecord, u64, BootInstant)>,
    /// Time at which the server has refused a connection because it had too many. None if it has not.
    full_at: Option<BootInstant>,
}

impl QueueReader {
    /// Returns a reader without a thread and without a connection. Each result arrives as an event.
    #[must_use]
    pub fn new(
        targets: Targets,
        contender: Contender,
        timing: Timing,
        events: LeaseSender,
    ) -> Self {
        // A read of the holder does not need the recorded success.
        let contender = contender.without_once();
        Self {
            read: BackgroundRead::new(targets, timing),
            contender,
            timing,
            events,
            owner_id: None,
            latest: None,
            full_at: None,
        }
    }

    /// Starts a read for the waiter with `entry`, which has `ahead` waiters ahead of it, unless the latest read started less
    /// than [`READ_INTERVAL`] ago, or the server was full a few minutes ago. If the latest read is still running, interrupts
    /// it instead.
    pub fn start(&mut self, entry: QueueEntry, ahead: u64, now: BootInstant) {
        if (self.full_at).is_some_and(|full_at| now.since(full_at) < PAUSE_WHEN_FULL) {
            return;
        }
        let (contender, events) = (self.contender.clone(), self.events.clone());
        let ahead = u32::try_from(ahead).unwrap_or(u32::MAX);
        let delay = PACE
            .saturating_mul(ahead)
            .min(self.timing.request_timeout / 2);
        self.owner_id = Some(entry.owner_id);
        self.read.start(
            now,
            READ_INTERVAL,
            delay,
            move |database| database.glance(&contender, entry),
            // The send fails only at the end of the process.
            move |response| drop(events.send(LeaseEvent::QueueRead(Box::new(response)))),
        );
    }

    /// Records that the server has refused a connection because it had too many, if `response` says so.
    pub fn observe(&mut self, response: &TimedResponse) {
        if let Err(failure) = &response.outcome
            && failure.kind == FailureKind::TooManyConnections
        {
            self.full_at = Some(response.received);
        }
    }

    /// Handles the end of a read. Ignores a failure.
    pub fn finish(&mut self, response: TimedResponse) {
        self.read.finish();
        self.observe(&response);
        // If this process has just acquired the lease, it does not wait any more.
        if let Ok(Response::NotAcquired(record, queue)) = response.outcome
            && self
                .owner_id
                .is_none_or(|own| record.own_lease(own).is_none())
        {
            self.latest = Some((record, queue.ahead, response.sent));
        }
    }

    /// Returns true while a read runs whose result may still arrive in time for a reminder.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        let limit = self.timing.request_timeout;
        let running_since = self.read.running_since();
        running_since.is_some_and(|started| clock::now().since(started) < limit)
    }

    /// Returns the record and the number of waiters ahead that were read last, and the time at which they were requested.
    /// None before the first successful read.
    #[must_use]
    pub fn latest(&self) -> Option<(&LockRecord, u64, BootInstant)> {
        self.latest
            .as_ref()
            .map(|(record, ahead, at)| (record, *ahead, *at))
    }
}
