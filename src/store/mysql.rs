//! The lock on a MySQL or MariaDB server: questions in, answers out, one connection at a time.
//!
//! [`Database::ask`] blocks, for as long as a name server or a stuck server pleases; it is called
//! on the database thread alone, and whoever waits for the answer has a limit of its own.

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
use self::exchange::{Trace, vanished};
pub use self::operate::Forgotten;
use self::statements::Outlook;
pub use self::statements::{Selection, fence_check};
use super::target::Target;
use super::{Answer, Contender, Failure, FailureKind, Question, Reply, Sighting};
use crate::lease::{Claim, Grant};
use crate::sys::{clock, socket::Interrupter};

/// One account on one server, with at most one connection.
pub struct Database {
    target: Target,
    /// Bound on one connect, one read, one write.
    limit: Duration,
    /// The server ends our session when we say nothing for this long.
    idle: Duration,
    connection: Option<Connection>,
    /// Whether the server has ended it.
    has_ended: bool,
    interrupter: Interrupter,
    /// Whether the server prepares statements for us.
    prepares: bool,
    /// A grant to who stood in line, after which there is something left to do.
    unfinished: Option<Grant>,
    /// Whose place in the line could not be given up then.
    left_behind: Option<Claim>,
    /// What notice was given of, or may have been.
    noticed: Option<Grant>,
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
            has_ended: false,
            interrupter: Interrupter::default(),
            prepares: true,
            unfinished: None,
            left_behind: None,
            noticed: None,
        }
    }

    /// A handle with which another thread ends a call that takes too long.
    #[must_use]
    pub fn interrupter(&self) -> Interrupter {
        self.interrupter.clone()
    }

    /// Takes note that the server has ended the connection. A renewal then connects anew; any other
    /// question has to fail, so that whoever asks learns that its session is gone, and with it the gate
    /// and what its place in the line is known by.
    pub fn hang_up(&mut self) {
        self.interrupter.unwatch();
        self.has_ended = true;
    }

    /// Asks one question about the contender's action; one round trip on an open connection.
    pub fn ask(&mut self, contender: &Contender, question: &Question) -> Reply {
        let mut trace = Trace::new();
        let outcome = self.answer(contender, question, &mut trace);
        if let Err(failure) = &outcome {
            self.prepares &= failure.kind != FailureKind::Unprepared;
        }
        Reply {
            sent: trace.sent,
            received: clock::now(),
            server_time: trace.server_time,
            outcome,
        }
    }

    fn answer(
        &mut self,
        contender: &Contender,
        question: &Question,
        trace: &mut Trace,
    ) -> Result<Answer, Failure> {
        match question {
            Question::Attempt(wish) => self.first_attempt(contender, wish, trace),
            Question::Inspect(place) => {
                let found = self.one(contender, "", Outlook::Line(*place), trace)?;
                found.unless_done(Answer::Seen)
            }
            Question::Look => {
                let found = self.one(contender, "", Outlook::Row, trace)?;
                Ok(match (found.success, found.row) {
                    (Some(success), _) => Answer::Done(success),
                    (None, Some(row)) => Answer::Looked(row),
                    (None, None) => Answer::Looked(Sighting::never_held(contender.action.clone())),
                })
            }
            Question::Queue(place) => {
                let queue = statements::queue(contender, *place);
                let found = self.one(contender, &queue, Outlook::Line(*place), trace)?;
                found.unless_done(Answer::Queued)
            }
            Question::Stand(turn) => self.stand(contender, turn, trace),
            Question::Renew(grant, gate) => {
                if self.has_ended {
                    self.connection = None;
                }
                // On a new connection the gate has to be taken anew.
                let moved = self.connection.is_none().then_some(*gate);
                let renew = statements::renew(contender, *grant, moved);
                let found = self.one(contender, &renew, Outlook::Row, trace)?;
                let row = found.row.ok_or_else(vanished)?;
                Ok(match row.is_held_by(grant.claim, Some(grant.token)) {
                    true => Answer::Renewed,
                    false => Answer::Lost(row),
                })
            }
            Question::Release(parting) => self.release(contender, parting, trace),
        }
    }
}
