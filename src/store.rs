//! Requests that dlock sends to a database, and the responses to them. Outside of `mysql`, this module contains no SQL
//! and does not use the driver.
//!
//! The protocol uses only these types, and `store::mysql` translates each request to SQL. A response contains data that
//! was *read back* from the record. It is never based on a count of affected rows alone.

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

/// Maximum time since the last poll of a polling waiter. After this time, the waiter counts as dead.
pub const POLLER_TIMEOUT: Duration = Duration::from_secs(30);
