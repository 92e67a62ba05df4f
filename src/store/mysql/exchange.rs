//! One packet out, one reply in: the only way in which a lock's questions reach the server.

use mysql::Row;

use super::connection::Connection;
use super::rows::Sight;
use super::statements::{self, Outlook, Selection};
use super::{Database, rows};
use crate::lease::instant::BootInstant;
use crate::lease::once::Once;
use crate::store::{
    Answer, Contender, Failure, FailureKind, Keeper, ServerTime, Sighting, Success, View,
};
use crate::sys::{clock, random};
use crate::twin::{self, Mechanism};

/// What is noted on the way to an answer, whatever becomes of it.
pub(super) struct Trace {
    pub(super) sent: BootInstant,
    pub(super) server_time: Option<ServerTime>,
    /// Whether the requests from here on can grant the lease.
    pub(super) grants: bool,
    /// Whether one of those was sent.
    pub(super) could_grant: bool,
}

impl Trace {
    pub(super) fn new() -> Self {
        Self {
            sent: clock::now(),
            server_time: None,
            grants: false,
            could_grant: false,
        }
    }
}

/// What a look at the contender's action found.
pub(super) struct Found {
    pub(super) row: Option<Sighting>,
    view: View,
    pub(super) success: Option<Success>,
    /// Whether the statement before the look changed a row, where that was asked for.
    pub(super) changed: bool,
}

impl Found {
    /// The success if there is one, otherwise what was seen.
    pub(super) fn unless_done(
        self,
        seen: impl FnOnce(Sighting, View) -> Answer,
    ) -> Result<Answer, Failure> {
        match (self.success, self.row) {
            (Some(success), _) => Ok(Answer::Done(success)),
            (None, Some(row)) => Ok(seen(row, self.view)),
            (None, None) => Err(vanished()),
        }
    }
}

/// How long a reply may take.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// No read longer than the limit.
    Limited,
    /// As long as the line is.
    Endless,
}

impl Database {
    /// Sends `statements` and looks at the contender's row and as much more as `outlook` says.
    pub(super) fn one(
        &mut self,
        contender: &Contender,
        statements: &str,
        outlook: Outlook,
        trace: &mut Trace,
    ) -> Result<Found, Failure> {
        let only = Selection::Named(std::slice::from_ref(&contender.action));
        let once = contender.once.as_ref();
        let sight = self.look(statements, only, outlook, once, trace)?;
        Ok(Found {
            row: sight.rows.into_iter().next(),
            view: sight.view.unwrap_or(View {
                keeper: Keeper::Unasked,
                ahead: 0,
                first_for: None,
            }),
            success: sight.success,
            changed: sight.changed,
        })
    }

    /// Sends `statements` and a SELECT of `selection` in one packet.
    pub(super) fn look(
        &mut self,
        statements: &str,
        selection: Selection,
        outlook: Outlook,
        once: Option<&Once>,
        trace: &mut Trace,
    ) -> Result<Sight, Failure> {
        let packet = |request| {
            let sight = statements::sight(request, selection, outlook, once);
            format!("{statements}{sight}")
        };
        let sight = self.exchange(Patience::Limited, trace, packet, |sets, request| {
            rows::sight(sets.into_iter().next_back().unwrap_or_default(), request)
        })?;
        trace.server_time = Some(sight.server_time);
        Ok(sight)
    }

    /// Sends one packet, built around the number of the request, and reads all that comes back by
    /// `read`, which checks that number. The connection is kept only if nothing at all was wrong.
    pub(super) fn exchange<T>(
        &mut self,
        patience: Patience,
        trace: &mut Trace,
        packet: impl FnOnce([u8; 8]) -> String,
        read: impl FnOnce(Vec<Vec<Row>>, [u8; 8]) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let (connection, session) = self.connection()?;
        let request = number()?;
        let packet = format!("{session}{}", packet(request));
        if patience == Patience::Endless {
            connection.limit_reads(None)?;
        }
        trace.could_grant |= trace.grants;
        trace.sent = clock::now();
        let (connection, reply) = connection.exchange(&packet, &self.target);
        if twin::is_out(Mechanism::SendTime) {
            trace.sent = clock::now();
        }
        let outcome = reply.and_then(|sets| read(sets, request));
        if outcome.is_ok() || twin::is_out(Mechanism::FreshConnection) {
            if let (Some(connection), Patience::Endless) = (&connection, patience) {
                connection.limit_reads(Some(self.limit))?;
            }
            self.connection = connection;
        }
        outcome
    }

    /// The connection, a new one if there is none, and what has to be said first on a new one.
    /// Taken out: whatever goes wrong from here on, it is not put back.
    fn connection(&mut self) -> Result<(Connection, String), Failure> {
        if let Some(connection) = self.connection.take() {
            return Ok((connection, String::new()));
        }
        let connection = Connection::open(&self.target, self.limit, &self.interrupter)?;
        Ok((connection, statements::session(self.idle)))
    }
}

/// A number by which a reply is known.
fn number() -> Result<[u8; 8], Failure> {
    random::bytes().map_err(|error| Failure {
        kind: FailureKind::Unreachable,
        message: format!("no random numbers: {error}"),
    })
}

/// The row was read back as it was before.
pub(super) fn stale() -> Failure {
    Failure {
        kind: FailureKind::Unknown,
        message: "the renewal cannot be read back".to_owned(),
    }
}

/// Rows are never deleted by dlock; somebody else did it.
pub(super) fn vanished() -> Failure {
    Failure {
        kind: FailureKind::Unknown,
        message: "the lock's row is gone from dlock_lock: somebody deleted it".to_owned(),
    }
}
