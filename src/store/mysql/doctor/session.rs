//! A session of `doctor`: questions whose refusal is an answer too.
//!
//! A connection is dropped after any error, as everywhere; the next question makes a new one. All
//! values come as texts: half of what is asked differs in type from server to server.

use std::time::Duration;

use mysql::{Row, Value};

use super::super::connection::Connection;
use super::super::errors::Refusal;
use super::super::statements;
use crate::store::target::Target;
use crate::store::{Failure, FailureKind};
use crate::sys::random;
use crate::sys::socket::Interrupter;

/// The rows of a SELECT; none stands for NULL.
pub(super) type Rows = Vec<Vec<Option<String>>>;

/// Why a question has no answer.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// The server is there and did not answer this one.
    Refused(Failure),
    /// The server is not there any more.
    Broken(Failure),
}

/// One account on one server.
pub(super) struct Session<'a> {
    target: &'a Target,
    limit: Duration,
    /// None after an error.
    connection: Option<Connection>,
    is_new: bool,
}

impl<'a> Session<'a> {
    /// Connects and logs in; `limit` bounds each read and write.
    pub(super) fn open(target: &'a Target, limit: Duration) -> Result<Self, Refusal> {
        let mut session = Self {
            target,
            limit,
            connection: None,
            is_new: true,
        };
        session.connection = Some(session.connect()?);
        Ok(session)
    }

    /// Another session of the same account.
    pub(super) fn second(&self) -> Result<Self, Failure> {
        Ok(Self::open(self.target, self.limit)?)
    }

    fn connect(&mut self) -> Result<Connection, Refusal> {
        let connection = Connection::open(self.target, self.limit, &Interrupter::default())?;
        self.is_new = true;
        Ok(connection)
    }

    /// The session's id in the server's greeting.
    pub(super) fn greeted_as(&self) -> Option<u32> {
        self.connection.as_ref().map(Connection::greeted_as)
    }

    /// Sends `statements` in one packet, each with a semicolon behind it, and returns the rows of
    /// each SELECT among them.
    pub(super) fn ask(&mut self, statements: &str) -> Result<Vec<Rows>, Unanswered> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => (self.connect()).map_err(|refusal| Unanswered::Broken(refusal.into()))?,
        };
        let settings = match self.is_new {
            // The session may stay silent for as long as a few questions to another one take.
            true => statements::session(self.limit * 6),
            false => String::new(),
        };
        let number = request().map_err(Unanswered::Broken)?;
        let packet = format!("{settings}{statements}SELECT {number} AS request");
        let (connection, outcome) = connection.exchange(&packet, self.target);
        match outcome {
            Ok(sets) => {
                let mut sets: Vec<Rows> = sets.into_iter().map(texts).collect();
                let last = sets.pop();
                if last != Some(vec![vec![Some(number.to_string())]]) {
                    return Err(Unanswered::Refused(other_reply()));
                }
                self.connection = connection;
                self.is_new = false;
                Ok(sets)
            }
            // Whether the server is still there shows a new connection.
            Err(failure) if failure.kind == FailureKind::Unknown => match self.connect() {
                Ok(connection) => {
                    self.connection = Some(connection);
                    Err(Unanswered::Refused(failure))
                }
                Err(_) => Err(Unanswered::Broken(failure)),
            },
            Err(failure) => Err(Unanswered::Refused(failure)),
        }
    }

    /// The only value of the only row of the last SELECT among `statements`.
    pub(super) fn value(&mut self, statements: &str) -> Result<Option<String>, Unanswered> {
        let rows = self.ask(statements)?.pop().unwrap_or_default();
        Ok(rows.into_iter().flatten().next().flatten())
    }
}

fn request() -> Result<u64, Failure> {
    let bytes = random::bytes().map_err(|error| Failure {
        kind: FailureKind::Unreachable,
        message: format!("no random numbers: {error}"),
    })?;
    Ok(u64::from_le_bytes(bytes))
}

fn other_reply() -> Failure {
    Failure {
        kind: FailureKind::Unknown,
        message: "the reply belongs to another question".to_owned(),
    }
}

fn texts(rows: Vec<Row>) -> Rows {
    let text = |value| match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        // The text protocol has nothing else.
        other => Some(other.as_sql(true)),
    };
    let row = |row: Row| row.unwrap().into_iter().map(text).collect();
    rows.into_iter().map(row).collect()
}
