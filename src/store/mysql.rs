//! The lock on a MySQL or MariaDB server: questions in, answers out, one connection at a time.
//!
//! [`Database::ask`] blocks for as long as a name server or a stuck server takes. Only the database thread
//! calls it, and the event loop has a limit of its own for each answer.

mod attempt;
mod connection;
pub mod doctor;
mod errors;
mod exchange;
mod operate;
mod release;
mod rows;
pub mod schema;
mod statements;

use std::time::Duration;

use self::connection::Connection;
use self::exchange::Trace;
pub use self::statements::{Selection, fence_check};
use super::target::Target;
use super::{Answer, Contender, Failure, FailureKind, Question, Reply, Sighting};
use crate::sys::{clock, socket::Interrupter};

/// One account on one server, with at most one connection.
pub struct Database {
    target: Target,
    /// Bound on one connect, one read, one write.
    limit: Duration,
    /// The server ends our session when we say nothing for this long.
    idle: Duration,
    connection: Option<Connection>,
    interrupter: Interrupter,
    /// Notes on the question that is being answered.
    trace: Trace,
}

impl Database {
    /// No connection is made before the first question.
    #[must_use]
    pub fn new(target: Target, limit: Duration, idle: Duration) -> Self {
        Self {
            target,
            limit,
            idle,
            connection: None,
            interrupter: Interrupter::default(),
            trace: Trace::new(),
        }
    }

    /// A handle with which another thread ends a call that takes too long.
    #[must_use]
    pub fn interrupter(&self) -> Interrupter {
        self.interrupter.clone()
    }

    /// Drops the connection, which the server has ended. The next question makes a new one.
    pub fn hang_up(&mut self) {
        self.connection = None;
    }

    /// Asks one question about the contender's action; one round trip on an open connection.
    pub fn ask(&mut self, contender: &Contender, question: &Question) -> Reply {
        self.trace = Trace::new();
        let outcome = self.answer(contender, question);
        Reply {
            sent: self.trace.sent,
            received: clock::now(),
            server_time: self.trace.server_time,
            could_grant: self.trace.could_grant,
            outcome,
        }
    }

    fn answer(&mut self, contender: &Contender, question: &Question) -> Result<Answer, Failure> {
        match question {
            Question::Attempt(wish) => self.try_acquire(contender, wish),
            Question::Inspect(place) => {
                let found = self.look(contender, "", Some(*place))?;
                found.unless_done(Answer::Seen)
            }
            Question::Look => {
                let mut found = self.look(contender, "", None)?;
                let never_held = || Sighting::never_held(contender.action.clone());
                found.row.get_or_insert_with(never_held);
                found.unless_done(|row, _| Answer::Looked(row))
            }
            Question::Queue(place) => {
                let queue = statements::queue(contender, *place);
                let found = self.look(contender, &queue, Some(*place))?;
                found.unless_done(Answer::Queued)
            }
            Question::Stand(turn) => self.stand(contender, turn),
            Question::Renew(grant, gate) => {
                let renew = statements::renew(contender, *grant, *gate);
                let found = self.look(contender, &renew, None)?;
                let row = found.row.ok_or_else(rows::vanished)?;
                match row.is_held_by(grant.claim, Some(grant.token)) {
                    true if found.changed => Ok(Answer::Renewed),
                    // Some proxies send a SELECT to a replica, which knows nothing of it yet.
                    true => Err(Failure::new(
                        FailureKind::Unknown,
                        "the renewal cannot be read back",
                    )),
                    false => Ok(Answer::Lost(row)),
                }
            }
            Question::HandOff(grant) => self.hand_off(contender, *grant),
            Question::Release(parting) => self.release(contender, parting),
        }
    }
}
