//! Requests that dlock sends to a database, and the responses to them. Only the submodule `mysql` contains SQL and uses
//! the driver.
//!
//! The protocol uses only these types, and `store::mysql` translates each request to SQL. A response to a change is
//! based on data that the same request *reads back* from the server, never on a count of affected rows alone.

pub mod admission;
pub mod check;
pub mod connected;
mod contender;
pub mod diagnosis;
mod failure;
pub mod history;
pub mod lost_grant;
pub mod mysql;
pub mod operator;
pub mod prune;
pub mod read_back;
pub mod record;
mod request;
mod response;
pub mod session;
pub mod session_states;
pub mod takeover;
pub mod target;

use std::time::Duration;

pub use self::contender::{Contender, FenceMode, Holder, OuterLease};
pub use self::failure::{Failure, FailureKind};
pub use self::history::{
    History, HistoryEntry, HistoryFilter, HistoryOutcome, HistorySince, RunRecord, Success,
};
pub use self::record::{
    DatabaseId, Expiry, LastRun, Lease, LockRecord, LockState, Operator, Owner, Pause,
    QueueLockOwner, QueueState, Renewed, ServerTime, Slot, Snapshot, Version, Waiter,
};
pub use self::request::{
    AcquireMode, AcquireRequest, EndSessionsRequest, LastRead, NotePlace, NoteRequest, Noted,
    QueueEntry, QueueLock, Reassertion, ReleaseRequest, RenewRequest, Request, RoomWait,
    RunHistory, WaitRequest,
};
pub use self::response::{EarlierSessions, Loss, Response, SessionsLeft, TimedResponse};

/// A connection to a server that carries out the requests of the protocol, one at a time. `tests/it/contract.rs` is its
/// contract.
pub trait Store {
    /// Carries out `request` for `contender`. After an error, nothing is known about what the server has carried out.
    fn request(&mut self, contender: &Contender, request: &Request) -> TimedResponse;

    /// Drops the connection. The next request reconnects.
    fn hang_up(&mut self);
}

/// Maximum time between two polls of a waiter that polls. If more time has passed since its latest poll, the waiter
/// counts as dead.
pub const POLLER_TIMEOUT: Duration = Duration::from_secs(30);
