//! Requests that the lock sends to a database and the responses to them. No SQL and no driver here.
//!
//! The protocol is written against these types; `store::mysql` has the SQL. A response contains what was *read back*
//! from the record. It is never derived from a count of affected rows alone.

pub mod check;
mod contender;
pub mod diagnosis;
mod failure;
pub mod history;
pub mod mysql;
pub mod operator;
pub mod read_back;
pub mod record;
mod request;
mod response;
pub mod takeover;
pub mod target;

use std::time::Duration;

pub use self::contender::{Contender, FenceMode, Holder};
pub use self::failure::{Failure, FailureKind};
pub use self::history::{HistoryEntry, HistoryOutcome, RunRecord, Success};
pub use self::record::{
    Expiry, LastRun, LockRecord, LockState, Operator, Owner, Pause, QueueLockOwner, QueueState,
    ServerTime, Snapshot, Version, Waiter,
};
pub use self::request::{
    AcquireMode, AcquireRequest, QueueEntry, QueueLock, ReleaseRequest, Request, WaitRequest,
};
pub use self::response::{Loss, Response, TimedResponse};

/// Time after its last poll for which a polling waiter counts as alive.
pub const POLLER_TIMEOUT: Duration = Duration::from_secs(30);
