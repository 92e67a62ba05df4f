//! Sends one packet and reads one response. All requests about a lock reach the server this way.

use mysql::Row;

use super::connection::Connection;
use super::database::Database;
use super::rows::ReadResult;
use super::{rows, statements};
use crate::mutant::{self, Safeguard};
use crate::store::{Contender, Failure, FailureKind, QueueEntry};
use crate::sys::{clock, random};

/// Kind of a packet: its possible effect, and the time that its response may take.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// It cannot grant the lease, and no read takes longer than the limit.
    Plain,
    /// It can grant the lease, and no read takes longer than the limit.
    Grant,
    /// It waits for the queue lock or alters a table, and its response may take forever.
    Wait,
}

impl Database {
    /// Sends `statements`, then reads the contender's record and, with an `entry`, the queue ahead of it.
    pub(super) fn query(
        &mut self,
        contender: &Contender,
        statements: &str,
        entry: Option<QueueEntry>,
    ) -> Result<ReadResult, Failure> {
        let select = statements::select_record(contender, entry);
        let packet = format!("{statements}{select}");
        self.exchange(RequestKind::Plain, &packet, rows::read_result)
    }

    /// Sends one packet with a new request id, checks the id in the response, and returns the result of `read`.
    /// The connection is kept only if there was no error at all.
    pub(super) fn exchange<T>(
        &mut self,
        kind: RequestKind,
        packet: &str,
        read: impl FnOnce(&[Vec<Row>]) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        // The connection is moved out, so that no error below leaves it in place.
        let (connection, session) = match self.connection.take() {
            Some(connection) => (connection, String::new()),
            None => (
                Connection::open(&self.target, self.limit, &self.interrupter)?,
                statements::session(self.idle),
            ),
        };
        let request_id = random::bytes().map_err(|error| {
            let message = format!("no random numbers: {error}");
            Failure::new(FailureKind::Unreachable, message)
        })?;
        let packet = format!(
            "{session}{}",
            statements::with_request_id(packet, request_id)
        );
        if kind == RequestKind::Wait {
            connection.limit_reads(None)?;
        }
        self.timing.could_grant |= kind == RequestKind::Grant;
        self.timing.sent = clock::now();
        let (connection, reply) = connection.exchange(&packet, &self.target);
        if mutant::is_disabled(Safeguard::SendTime) {
            self.timing.sent = clock::now();
        }
        let outcome = reply.and_then(|sets| {
            let time = rows::check(&sets, request_id)?;
            self.timing.server_time = time.or(self.timing.server_time);
            read(&sets)
        });
        if outcome.is_ok() || mutant::is_disabled(Safeguard::FreshConnection) {
            if let (Some(connection), RequestKind::Wait) = (&connection, kind) {
                connection.limit_reads(Some(self.limit))?;
            }
            self.connection = connection;
        }
        outcome
    }
}
