//! Sends one packet and reads its response. This file sends all requests except those of `dlock doctor`.

use mysql::Row;

use super::connection::Connection;
use super::database::Database;
use super::rows::ReadResult;
use super::{rows, statements};
use crate::mutant::{self, Safeguard};
use crate::store::{Contender, Failure, FailureKind, QueueEntry};
use crate::sys::{clock, random};

/// Kind of a packet. It determines whether the packet can grant the lease, and whether its response has a time limit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// The packet cannot grant the lease, and no read takes longer than the limit.
    Plain,
    /// The packet can grant the lease, and no read takes longer than the limit.
    Grant,
    /// The packet waits for the queue lock or alters a table, and its response has no time limit.
    Wait,
}

impl Database {
    /// Sends `statements`, then reads the contender's record. If there is an `entry`, also reads the state of the
    /// queue.
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

    /// Sends one packet with a new request id, checks the id in the response, and returns the result of `read`. The
    /// connection is kept only if no error occurred.
    pub(super) fn exchange<T>(
        &mut self,
        kind: RequestKind,
        packet: &str,
        read: impl FnOnce(&[Vec<Row>]) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        // The connection is moved out of `self`, so that any error below drops it.
        let mut is_new = false;
        let (connection, session) = if let Some(connection) = self.connection.take() {
            (connection, String::new())
        } else {
            let connection = Connection::open(&self.target, self.limit, &self.interrupter)?;
            self.connected = Some(connection.facts(&self.target));
            is_new = true;
            (connection, statements::session(self.idle))
        };
        let request_id = random::bytes().map_err(|error| {
            let message = format!("cannot get random numbers: {error}");
            Failure::new(FailureKind::Unreachable, message)
        })?;
        let packet = format!(
            "{session}{}",
            match is_new {
                true => statements::with_request_id(
                    &statements::with_server_version(packet),
                    request_id
                ),
                false => statements::with_request_id(packet, request_id),
            }
        );
        if kind == RequestKind::Wait {
            connection.limit_reads(None)?;
        }
        self.timing.could_grant |= kind == RequestKind::Grant;
        self.timing.sent = clock::now();
        let (connection, response) = connection.exchange(&packet, &self.target);
        if mutant::is_disabled(Safeguard::SendTime) {
            self.timing.sent = clock::now();
        }
        let outcome = response.and_then(|sets| {
            let time = rows::check(&sets, request_id)?;
            self.timing.server_time = time.or(self.timing.server_time);
            if let Some(server) = self.connected.as_mut().filter(|_| is_new) {
                server.version = rows::server_version(&sets);
            }
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
