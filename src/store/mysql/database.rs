//! [`Database`] contains the connection to the server, and processes each request of the protocol.

use std::time::Duration;

use super::connection::Connection;
use super::hosts::Hosts;
use super::statements;
use crate::lease::instant::BootInstant;
use crate::store::connected::{ConnectedServer, SkippedHost};
use crate::store::lost_grant::has_lost;
use crate::store::target::Targets;
use crate::store::{
    Contender, Failure, FailureKind, LockRecord, Request, Response, ServerTime, Store,
    TimedResponse,
};
use crate::sys::{clock, socket::Interrupter};

/// Timing of a request. It is also valid if the request fails.
#[derive(Clone, Copy)]
pub(super) struct RequestTiming {
    /// Time when the latest packet was sent. Before the first packet, the time when the request started.
    pub(super) sent: BootInstant,
    /// Most recent server time in a response. None if no response contained a server time.
    pub(super) server_time: Option<ServerTime>,
    /// True if a packet that can grant the lease was sent.
    pub(super) could_grant: bool,
    pub(super) could_release: bool,
}

impl RequestTiming {
    pub(super) fn new() -> Self {
        Self {
            sent: clock::now(),
            server_time: None,
            could_grant: false,
            could_release: false,
        }
    }
}

/// One account on the servers of one database, with at most one connection.
pub struct Database {
    pub(super) hosts: Hosts,
    /// Hosts that the latest search for a server did not use. Empty with one host.
    pub(super) skipped: Vec<SkippedHost>,
    /// Maximum time of each connect, each read and each write.
    pub(super) limit: Duration,
    /// Time without a request after which the server ends the session.
    pub(super) idle: Duration,
    /// Open connection. None before the first request, after an error, and after [`Database::hang_up`].
    pub(super) connection: Option<Connection>,
    pub(super) interrupter: Interrupter,
    /// A second connection, which ends the sessions of a command. A failed KILL does not affect the first connection.
    /// None before the first session to end.
    pub(super) second: Option<Box<Self>>,
    /// True if named locks of the server are known to let in several sessions at the same time.
    pub(super) has_shared_locks: bool,
    /// Name of the server of the latest session. None before the first response that contains a row.
    pub(super) server_name: Option<String>,
    /// Name of the server on which this process may have handed off its lease. None before a hand-off.
    pub(super) handed_off_on: Option<String>,
    /// Facts about the latest connection. None after [`Database::take_connected`].
    pub(super) connected: Option<ConnectedServer>,
    /// Timing of the current request.
    pub(super) timing: RequestTiming,
}

impl Store for Database {
    /// Sends one request about the contender's action. It usually takes one round trip on an open connection.
    fn request(&mut self, contender: &Contender, request: &Request) -> TimedResponse {
        self.timing = RequestTiming::new();
        let outcome = self.respond(contender, request);
        let outcome = outcome.map_err(|failure| self.explain(failure));
        self.timed(outcome)
    }

    fn hang_up(&mut self) {
        self.connection = None;
    }
}

impl Database {
    /// Returns a database without a connection. The first request connects.
    #[must_use]
    pub fn new(targets: impl Into<Targets>, limit: Duration, idle: Duration) -> Self {
        Self {
            hosts: Hosts::new(targets.into()),
            skipped: Vec::new(),
            limit,
            idle,
            connection: None,
            interrupter: Interrupter::default(),
            second: None,
            has_shared_locks: false,
            server_name: None,
            handed_off_on: None,
            connected: None,
            timing: RequestTiming::new(),
        }
    }

    /// Returns a handle with which another thread can end a call that takes too long.
    #[must_use]
    pub fn interrupter(&self) -> Interrupter {
        self.interrupter.clone()
    }

    /// Returns the time at which the latest packet was sent. The data of the latest response is at most as old as this
    /// time.
    #[must_use]
    pub const fn sent(&self) -> BootInstant {
        self.timing.sent
    }

    /// Returns the facts about a connection that was opened since the previous call. None if none was opened.
    pub fn take_connected(&mut self) -> Option<ConnectedServer> {
        self.connected.take()
    }

    /// Drops the connection, and forgets which hosts have refused a request. The next request reconnects to the server to
    /// which a new process would connect.
    pub fn search_again(&mut self) {
        self.hang_up();
        self.hosts.forget_refusals();
    }

    /// Returns the response of the current request with its times.
    pub(super) fn timed(&self, outcome: Result<Response, Failure>) -> TimedResponse {
        TimedResponse {
            sent: self.timing.sent,
            received: clock::now(),
            server_time: self.timing.server_time,
            could_grant: self.timing.could_grant,
            could_release: self.timing.could_release,
            outcome,
        }
    }

    /// Returns the reason for `failure` if the tables do not exist, or if they have a version with which this dlock does
    /// not work. A server checks the privileges before it looks for a table, and a statement fails if it names a column
    /// that older tables do not have. All other failures are returned unchanged.
    pub(super) fn explain(&mut self, failure: Failure) -> Failure {
        if !matches!(failure.kind, FailureKind::Config | FailureKind::Denied) {
            return failure;
        }
        let sent = self.timing.sent;
        let version = self.check_version();
        self.timing.sent = sent;
        match (failure.kind, version) {
            (FailureKind::Config, Err(mismatch)) if mismatch.kind == FailureKind::Config => {
                mismatch
            }
            (FailureKind::Denied, Err(missing)) if missing.kind == FailureKind::NoTables => {
                self.tables_are_missing(&failure)
            }
            _ => failure,
        }
    }

    fn respond(&mut self, contender: &Contender, request: &Request) -> Result<Response, Failure> {
        match request {
            Request::TryAcquire(request) => self.attempt_unless_done(contender, request),
            Request::GetWithQueue(entry) => {
                let found = self.query(contender, "", Some(*entry))?;
                let found = found.or_unknown(&contender.action);
                found.unless_done(Response::NotAcquired)
            }
            Request::Get => {
                let found = self.current(contender)?;
                found.unless_done(|row, _| Response::Record(row))
            }
            Request::Enqueue(entry) => {
                let queue = statements::enqueue(contender, *entry);
                let found = self.query(contender, &queue, Some(*entry))?;
                let found = found.or_unknown(&contender.action);
                found.unless_done(Response::Enqueued)
            }
            Request::WaitTurn(turn) => self.wait_then_attempt(contender, turn),
            Request::Renew(request) => {
                let grant = request.grant;
                let look = self.look(request.look.as_deref());
                let renew = statements::renew(contender, request, look.as_ref());
                let found = self.query_own(contender, &renew, grant.owner_id)?;
                // A database that has lost the whole row has lost the grant.
                let row =
                    (found.row).unwrap_or_else(|| LockRecord::unknown(contender.action.clone()));
                match row.is_held_by(grant.owner_id, Some(grant.token)) {
                    true if found.changed => Ok(Response::Renewed(look.map(Box::new))),
                    // Some proxies send a SELECT to a replica, which may not have received the renewal yet.
                    true => {
                        self.hang_up();
                        Err(Failure::new(
                            FailureKind::Unknown,
                            "the renewal cannot be read back",
                        ))
                    }
                    false if has_lost(&row, grant.token) => {
                        self.applied_record(contender, grant).map(Response::Lost)
                    }
                    false => Ok(Response::Lost(row)),
                }
            }
            Request::GetNote(request) => self.next_note(contender, request),
            Request::RemoveNote(noted) => self.remove_note(contender, noted),
            Request::EndSessions(request) => self.end_sessions(request),
            Request::HandOff(grant) => self.hand_off(contender, *grant),
            Request::Release(request) => self.release(contender, request),
        }
    }
}
