//! A session of `dlock doctor`. A refusal by the server is a valid result of a request.
//!
//! A connection is dropped after any error, as everywhere in dlock. The next request opens a new connection. All values
//! are returned as strings, because the types of about half of them differ between servers.

use std::time::Duration;

use super::super::columns;
use super::super::connection::Connection;
use super::super::errors::ConnectError;
use super::super::statements::{self, MemberCheck, WriteCheck};
use crate::store::target::Target;
use crate::store::{Failure, FailureKind};
use crate::sys::random;
use crate::sys::socket::Interrupter;

/// The rows of a SELECT. None represents NULL.
pub(super) type Rows = Vec<Vec<Option<String>>>;

/// Reason why a request has no response.
#[derive(Debug)]
pub(super) enum QueryError {
    /// The server is reachable, but did not fulfil this request.
    Refused(Failure),
    /// The server is no longer reachable.
    Disconnected(Failure),
}

/// A session of one account on one server.
pub(super) struct Session<'a> {
    target: &'a Target,
    limit: Duration,
    /// Open connection. None after an error, until the session reconnects.
    connection: Option<Connection>,
    /// True until a request on the connection has succeeded.
    is_new: bool,
}

impl<'a> Session<'a> {
    /// Connects and logs in. `limit` is the maximum time of each read and write.
    pub(super) fn open(target: &'a Target, limit: Duration) -> Result<Self, ConnectError> {
        let mut session = Self {
            target,
            limit,
            connection: None,
            is_new: true,
        };
        session.connection = Some(session.connect()?);
        Ok(session)
    }

    /// Opens another session of the same account.
    pub(super) fn second(&self) -> Result<Self, Failure> {
        Ok(Self::open(self.target, self.limit)?)
    }

    fn connect(&mut self) -> Result<Connection, ConnectError> {
        let connection = Connection::open(self.target, self.limit.into(), &Interrupter::default())?;
        self.is_new = true;
        Ok(connection)
    }

    /// Returns the session's id in the server's greeting, or None after an error.
    pub(super) fn greeting_id(&self) -> Option<u32> {
        self.connection.as_ref().map(Connection::greeting_id)
    }

    /// Sends `statements` in one packet, and returns the rows of each SELECT among them. Each statement
    /// must end with a semicolon.
    pub(super) fn query(&mut self, statements: &str) -> Result<Vec<Rows>, QueryError> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => (self.connect()).map_err(|refusal| QueryError::Disconnected(refusal.into()))?,
        };
        let settings = match self.is_new {
            // The session may be idle while the other session sends a few requests.
            true => statements::session(
                &self.target.database,
                self.limit * 6,
                MemberCheck::Skip,
                WriteCheck::Skip,
            ),
            false => String::new(),
        };
        let request_id = new_request_id().map_err(QueryError::Disconnected)?;
        let packet = format!("{settings}{statements}SELECT {request_id} AS request");
        let (connection, outcome) = connection.exchange(&packet, self.target);
        match outcome {
            Ok(sets) => {
                let mut sets: Vec<Rows> = sets.into_iter().map(columns::cells).collect();
                let last = sets.pop();
                if last != Some(vec![vec![Some(request_id.to_string())]]) {
                    return Err(QueryError::Refused(mismatched_response()));
                }
                self.connection = connection;
                self.is_new = false;
                Ok(sets)
            }
            // A new connection shows if the server is still reachable.
            Err(failure) if failure.kind == FailureKind::Unknown => match self.connect() {
                Ok(connection) => {
                    self.connection = Some(connection);
                    Err(QueryError::Refused(failure))
                }
                Err(_) => Err(QueryError::Disconnected(failure)),
            },
            Err(failure) => Err(QueryError::Refused(failure)),
        }
    }

    /// Returns the first value of the first row of the last SELECT in `statements`. Returns None if there is no row, or
    /// if the value is NULL.
    pub(super) fn value(&mut self, statements: &str) -> Result<Option<String>, QueryError> {
        let rows = self.query(statements)?.pop().unwrap_or_default();
        Ok(rows.into_iter().flatten().next().flatten())
    }
}

fn new_request_id() -> Result<u64, Failure> {
    let bytes = random::bytes().map_err(|error| Failure {
        kind: FailureKind::Unreachable,
        message: format!("cannot get random numbers: {error}"),
    })?;
    Ok(u64::from_le_bytes(bytes))
}

fn mismatched_response() -> Failure {
    Failure {
        kind: FailureKind::Unknown,
        message: "the response belongs to another request".to_owned(),
    }
}
