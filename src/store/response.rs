//! The responses to the requests of the protocol.

use super::failure::{Failure, FailureKind};
use super::history::Success;
use super::record::{LockRecord, QueueState, ServerTime};
use super::request::Noted;
use super::session::FoundSessions;
use crate::lease::Token;
use crate::lease::instant::BootInstant;

/// Response to a [`Request`](crate::store::Request).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// This attempt changed the record, and this process holds the lease with this token in the slot with this number. An
    /// exclusive lease has the number 1.
    Granted(Token, u32, EarlierSessions),
    /// This process holds the lease, but this attempt did not change the record. An earlier attempt acquired the lease
    /// at an unknown time. Contains the token and the number of the slot.
    AlreadyHeld(Token, u32),
    /// This process holds the lease under this token, but a recorded success makes a run unnecessary, so it must release
    /// the lease. The success was recorded after the attempt read the successes, and before the grant.
    HeldThoughDone(Token, Success),
    /// This process does not hold the lease. Contains the current record and the state of the queue.
    NotAcquired(LockRecord, QueueState),
    /// Contains the current record.
    Record(LockRecord),
    /// The next note of sessions that must end. None if there is none.
    Note(Option<Box<Noted>>),
    /// The action does not contain the note any more.
    NoteRemoved,
    /// This process now has a queue entry. Contains the current record and the state of the queue.
    Enqueued(LockRecord, QueueState),
    /// A recorded success makes a run unnecessary. This process does not hold the lease.
    AlreadyDone(Success),
    /// The wait ended without the queue lock.
    WaitEnded,
    /// The wait ended without the queue lock before its limit, because each wait keeps one of few threads of the server.
    WaitSliced,
    /// This process was granted the queue lock, released it because a waiter that came before it was waiting for it again,
    /// and has waited again. Contains the position of that waiter in the queue. This process may have the queue lock.
    HasLetPass(u64),
    /// The renewal changed the record, and this process holds the lease. Contains the sessions of the command that are
    /// now noted in the record, or the failure that prevented dlock from finding them. None if the renewal did not look
    /// for sessions.
    Renewed(Option<Box<Result<FoundSessions, Failure>>>),
    /// The sessions that a command has left on the server.
    Sessions(Box<SessionsLeft>),
    /// This process no longer holds the lease. Contains the current record.
    Lost(LockRecord),
    /// The hand-off was made, so the next contender may acquire the lease before the release.
    HandedOff,
    /// This process held and released the lease. With `--min-hold`, the record may stay held for some time. The run is
    /// recorded if the request contained a run to record.
    Released,
    /// This process no longer held the lease, or could not hand it off. No success was recorded. Contains the reason,
    /// or None if the reason is unknown.
    NotHolder(Option<Loss>),
}

/// Sessions of an earlier holder on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EarlierSessions {
    /// The record contains no sessions.
    None,
    /// The record contains sessions that must have ended before this process starts a command.
    Noted,
}

/// The sessions that a command has left on the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionsLeft {
    /// The sessions that the server still lists.
    pub found: FoundSessions,
    /// Ids of the sessions that this step has killed. The server may still list them.
    pub killed: Vec<u64>,
    /// Ids of the sessions that dlock's account may not kill, as this step has found out.
    pub denied: Vec<u64>,
    /// The server that has the noted sessions, if it is not the server that sent this response. None if it is the same
    /// server.
    pub elsewhere: Option<String>,
}

/// Reason why a lease ended without a release by its holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Loss {
    /// Another contender took over the lease, or an operator changed the record with SQL.
    TakenOver,
    /// An operator revoked the lease.
    Revoked,
    /// The database has lost the grant, and the record does not allow the holder to write the grant again.
    LostGrant,
}

impl Response {
    /// Returns the failure to report if a request must not have this response.
    #[must_use]
    pub fn unexpected(&self) -> Failure {
        Failure::new(
            FailureKind::Unknown,
            format!("unexpected response: {self:?}"),
        )
    }
}

/// A response or a failure, with the times of sending and receiving.
#[derive(Debug, Clone)]
pub struct TimedResponse {
    /// Time immediately before the last packet of the request was sent. Deadlines are calculated from this time.
    pub sent: BootInstant,
    /// Time immediately after the response or the failure was received.
    pub received: BootInstant,
    /// Most recent server time in the responses to this request. None if no response contained it.
    pub server_time: Option<ServerTime>,
    /// True if a packet that can grant the lease was sent. If the request then fails for any reason, it is unknown
    /// whether the lease was granted. An error does not prove that nothing was committed before it.
    pub could_grant: bool,
    /// True if a packet that can release the lease was sent. If the request then fails for any reason, it is unknown
    /// whether the lease was released.
    pub could_release: bool,
    /// The response or the failure.
    pub outcome: Result<Response, Failure>,
}
