//! The lock on a MySQL or MariaDB server: receives requests and returns responses, on one connection at a time.
//!
//! [`Database::ask`] blocks for as long as a name server or a hanging server takes. Only the database thread
//! calls it, and the event loop has its own limit for each response.

mod admin;
mod attempt;
mod connection;
pub mod doctor;
mod errors;
mod exchange;
mod release;
mod rows;
pub mod schema;
mod setup;
mod statements;

use std::time::Duration;

use self::connection::Connection;
use self::exchange::RequestTiming;
pub use self::setup::TablesState;
pub use self::statements::{Selection, fence_check};
use super::target::Target;
use super::{Contender, Failure, FailureKind, LockRecord, Request, Response, TimedResponse};
use crate::sys::{clock, socket::Interrupter};

/// One account on one server, with at most one connection.
pub struct Database {
    target: Target,
    /// Maximum time of one connect, one read and one write.
    limit: Duration,
    /// Time without a request after which the server ends the session.
    idle: Duration,
    /// Open connection. None before the first request and after an error.
    connection: Option<Connection>,
    interrupter: Interrupter,
    /// Timing of the current request.
    timing: RequestTiming,
}

impl Database {
    /// Returns a database without a connection. The first request connects.
    #[must_use]
    pub fn new(target: Target, limit: Duration, idle: Duration) -> Self {
        Self {
            target,
            limit,
            idle,
            connection: None,
            interrupter: Interrupter::default(),
            timing: RequestTiming::new(),
        }
    }

    /// Returns a handle with which another thread ends a call that takes too long.
    #[must_use]
    pub fn interrupter(&self) -> Interrupter {
        self.interrupter.clone()
    }

    /// Drops the connection, which the server has ended. The next request reconnects.
    pub fn hang_up(&mut self) {
        self.connection = None;
    }

    /// Sends one request about the contender's action. It usually takes one round trip on an open connection.
    pub fn ask(&mut self, contender: &Contender, request: &Request) -> TimedResponse {
        self.timing = RequestTiming::new();
        let outcome = self.answer(contender, request);
        TimedResponse {
            sent: self.timing.sent,
            received: clock::now(),
            server_time: self.timing.server_time,
            could_grant: self.timing.could_grant,
            outcome,
        }
    }

    fn answer(&mut self, contender: &Contender, request: &Request) -> Result<Response, Failure> {
        match request {
            Request::TryAcquire(request) => self.attempt_unless_done(contender, request),
            Request::GetWithQueue(entry) => {
                let found = self.query(contender, "", Some(*entry))?;
                found.unless_done(Response::NotAcquired)
            }
            Request::Get => {
                let mut found = self.query(contender, "", None)?;
                let never_held = || LockRecord::never_held(contender.action.clone());
                found.row.get_or_insert_with(never_held);
                found.unless_done(|row, _| Response::Record(row))
            }
            Request::Enqueue(entry) => {
                let queue = statements::enqueue(contender, *entry);
                let found = self.query(contender, &queue, Some(*entry))?;
                found.unless_done(Response::Enqueued)
            }
            Request::WaitTurn(turn) => self.wait_then_attempt(contender, turn),
            Request::Renew(grant, queue_lock) => {
                let renew = statements::renew(contender, *grant, *queue_lock);
                let found = self.query(contender, &renew, None)?;
                let row = found.row.ok_or_else(rows::row_missing)?;
                match row.is_held_by(grant.owner_id, Some(grant.token)) {
                    true if found.changed => Ok(Response::Renewed),
                    // Some proxies send a SELECT to a replica, which does not have the renewal yet.
                    true => Err(Failure::new(
                        FailureKind::Unknown,
                        "the renewal cannot be read back",
                    )),
                    false => Ok(Response::Lost(row)),
                }
            }
            Request::HandOff(grant) => self.hand_off(contender, *grant),
            Request::Release(request) => self.release(contender, request),
        }
    }
}
