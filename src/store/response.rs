//! The responses to the requests of the protocol.

use super::failure::{Failure, FailureKind};
use super::history::Success;
use super::record::{LockRecord, QueueState, ServerTime};
use crate::lease::Token;
use crate::lease::instant::BootInstant;

/// Response to a [`Request`](crate::store::Request).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// This attempt changed the record, and this process holds the lease.
    Granted(Token),
    /// This process holds the lease, but this attempt did not change the record. An earlier attempt did, at an unknown
    /// time.
    AlreadyHeld(Token),
    /// This process does not hold the lease. Contains the current record and the state of the queue.
    NotAcquired(LockRecord, QueueState),
    /// The current record.
    Record(LockRecord),
    /// This process has a queue entry. Contains the current record and the state of the queue.
    Enqueued(LockRecord, QueueState),
    /// A recorded success makes a run unnecessary. Nothing was acquired, and this process holds nothing.
    AlreadyDone(Success),
    /// The wait ended without the queue lock.
    WaitEnded,
    /// The renewal changed the record, and this process holds the lease.
    Renewed,
    /// This process does not hold the lease any more.
    Lost(LockRecord),
    /// The next contender may proceed.
    HandedOff,
    /// This process held the lease. It is free now or held for `--min-hold`, and everything that had to be recorded is
    /// recorded.
    Released,
    /// This process held the lease, and it is free now, but the history could not be written.
    ReleasedUnrecorded(Failure),
    /// This process did not hold the lease any more. No success was recorded. None if the reason is unknown.
    NotHolder(Option<Loss>),
}

/// Reason why a lease ended without a release by its holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Loss {
    /// Another contender took it over, or an operator changed the record with SQL.
    TakenOver,
    /// An operator revoked it.
    Revoked,
}

impl Response {
    /// Returns the failure of a request to which this response does not belong.
    #[must_use]
    pub fn unexpected(&self) -> Failure {
        Failure::new(
            FailureKind::Unknown,
            format!("unexpected response: {self:?}"),
        )
    }
}

/// A response or a failure, and the time when the request was sent.
#[derive(Debug, Clone)]
pub struct TimedResponse {
    /// Time before the first byte of the request was written. Deadlines count from here.
    pub sent: BootInstant,
    /// Time after the last byte of the response was read.
    pub received: BootInstant,
    /// Server time between `sent` and `received`. None if the response does not contain it.
    pub server_time: Option<ServerTime>,
    /// True if a request that can grant the lease was sent. After a failure of any kind it is then unknown if the lease
    /// was granted: an error does not prove that nothing was committed before it.
    pub could_grant: bool,
    /// The response or the failure.
    pub outcome: Result<Response, Failure>,
}
