//! One packet out, one reply in: the only way in which a lock's questions reach the server.

use mysql::Row;

use super::connection::Connection;
use super::rows::Sight;
use super::{Database, rows, statements};
use crate::lease::instant::BootInstant;
use crate::store::{Contender, Failure, FailureKind, Place, ServerTime};
use crate::sys::{clock, random};
use crate::twin::{self, Mechanism};

/// What is noted on the way to an answer, whatever becomes of it.
pub(super) struct Trace {
    /// When the last request was sent, or else when the question was asked.
    pub(super) sent: BootInstant,
    pub(super) server_time: Option<ServerTime>,
    /// Whether a request that can grant the lease was sent.
    pub(super) could_grant: bool,
}

impl Trace {
    pub(super) fn new() -> Self {
        Self {
            sent: clock::now(),
            server_time: None,
            could_grant: false,
        }
    }
}

/// What a request can do, and how long its reply may take.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    /// It cannot grant the lease, and no read takes longer than the limit.
    Plain,
    /// It can grant the lease, and no read takes longer than the limit.
    Grant,
    /// Its reply may take for ever: as long as the line is.
    Wait,
}

impl Database {
    /// Sends `statements`, and looks at the contender's row, and at the line as seen from `place`.
    pub(super) fn look(
        &mut self,
        contender: &Contender,
        statements: &str,
        place: Option<Place>,
    ) -> Result<Sight, Failure> {
        let sight = statements::sight(contender, place);
        let packet = format!("{statements}{sight}");
        self.exchange(Request::Plain, &packet, rows::sight)
    }

    /// Sends one packet under a number of its own, and reads by `read` what comes back with that number.
    /// The connection is kept only if nothing at all was wrong.
    pub(super) fn exchange<T>(
        &mut self,
        request: Request,
        packet: &str,
        read: impl FnOnce(&[Vec<Row>]) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        // Taken out: whatever goes wrong from here on, it is not put back.
        let (connection, session) = match self.connection.take() {
            Some(connection) => (connection, String::new()),
            None => (
                Connection::open(&self.target, self.limit, &self.interrupter)?,
                statements::session(self.idle),
            ),
        };
        let number = random::bytes().map_err(|error| {
            let message = format!("no random numbers: {error}");
            Failure::new(FailureKind::Unreachable, message)
        })?;
        let packet = format!("{session}{}", statements::numbered(packet, number));
        if request == Request::Wait {
            connection.limit_reads(None)?;
        }
        self.trace.could_grant |= request == Request::Grant;
        self.trace.sent = clock::now();
        let (connection, reply) = connection.exchange(&packet, &self.target);
        if twin::is_out(Mechanism::SendTime) {
            self.trace.sent = clock::now();
        }
        let outcome = reply.and_then(|sets| {
            let time = rows::check(&sets, number)?;
            self.trace.server_time = time.or(self.trace.server_time);
            read(&sets)
        });
        if outcome.is_ok() || twin::is_out(Mechanism::FreshConnection) {
            if let (Some(connection), Request::Wait) = (&connection, request) {
                connection.limit_reads(Some(self.limit))?;
            }
            self.connection = connection;
        }
        outcome
    }
}
