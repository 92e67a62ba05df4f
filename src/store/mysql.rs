//! The lock on a MySQL or MariaDB server: questions in, answers out, one connection at a time.
//!
//! [`Database::ask`] blocks, for as long as a name server or a stuck server pleases; it is called
//! on the database thread alone, and whoever waits for the answer has a limit of its own.

mod connection;
mod errors;
mod rows;
pub mod schema;
mod statements;

use std::time::Duration;

pub use statements::Selection;

use self::connection::Connection;
use self::rows::Sight;
use super::target::Target;
use super::{Answer, Contender, Failure, FailureKind, Question, Reply, ServerTime, Sighting, Wish};
use crate::lease::instant::BootInstant;
use crate::lease::{Claim, Token};
use crate::sys::{clock, random, socket::Interrupter};

/// One account on one server, with at most one connection.
pub struct Database {
    target: Target,
    /// Bound on one connect, one read, one write.
    limit: Duration,
    /// The server ends our session when we say nothing for this long.
    idle: Duration,
    connection: Option<Connection>,
    interrupter: Interrupter,
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
        }
    }

    /// A handle with which another thread ends a call that takes too long.
    #[must_use]
    pub fn interrupter(&self) -> Interrupter {
        self.interrupter.clone()
    }

    /// Asks one question about the contender's action; one round trip on an open connection.
    pub fn ask(&mut self, contender: &Contender, question: &Question) -> Reply {
        let mut reply = Reply {
            sent: clock::now(),
            received: clock::now(),
            server_time: None,
            outcome: Err(Failure {
                kind: FailureKind::Unreachable,
                message: String::new(),
            }),
        };
        reply.outcome = self.answer(contender, question, &mut reply.sent, &mut reply.server_time);
        reply.received = clock::now();
        reply
    }

    fn answer(
        &mut self,
        contender: &Contender,
        question: &Question,
        sent: &mut BootInstant,
        server_time: &mut Option<ServerTime>,
    ) -> Result<Answer, Failure> {
        let Contender {
            action,
            holder,
            ttl,
        } = contender;
        let mut one = |database: &mut Self, statement: &str| -> Result<_, Failure> {
            let only = std::slice::from_ref(action);
            let (sight, changed) =
                database.exchange(statement, Selection::Named(only), Some(&mut *sent))?;
            *server_time = Some(sight.server_time);
            Ok((sight.rows.into_iter().next(), changed))
        };
        match question {
            Question::Attempt(Wish { claim, seen }) => {
                let update = statements::attempt(action, holder, *ttl, *claim, *seen);
                let mut row = match one(self, &update) {
                    Err(failure) if failure.kind == FailureKind::NoTables => {
                        self.create_tables()?;
                        one(self, &update)?.0
                    }
                    outcome => outcome?.0,
                };
                if row.is_none() {
                    let create = statements::create_row(action);
                    row = one(self, &format!("{create}{update}"))?.0;
                }
                let row = row.ok_or_else(vanished)?;
                Ok(match owned(&row, *claim, None) {
                    true => Answer::Granted(row.version.token),
                    false => Answer::Seen(row),
                })
            }
            Question::Inspect => Ok(match one(self, "")?.0 {
                Some(row) => Answer::Seen(row),
                None => return Err(vanished()),
            }),
            Question::Renew(grant) => {
                let (row, _) = one(self, &statements::renew(action, *grant, *ttl))?;
                let row = row.ok_or_else(vanished)?;
                Ok(match owned(&row, grant.claim, Some(grant.token)) {
                    true => Answer::Renewed,
                    false => Answer::Lost(row),
                })
            }
            Question::Release(claim, token) => {
                let (row, changed) = one(self, &statements::release(action, *claim, *token))?;
                if row.is_some_and(|row| owned(&row, *claim, *token)) {
                    return Err(Failure {
                        kind: FailureKind::Unknown,
                        message: "the lease is still there after its release".to_owned(),
                    });
                }
                Ok(if changed == 0 {
                    Answer::NotOurs
                } else {
                    Answer::Released
                })
            }
        }
    }

    /// Shows rows, in order of their names; changes nothing.
    ///
    /// # Errors
    /// Any failure; a missing table is one.
    pub fn survey(&mut self, selection: Selection) -> Result<Vec<Sighting>, Failure> {
        Ok(self.exchange("", selection, None)?.0.rows)
    }

    /// Checks the version of the tables, and creates them where they are missing.
    ///
    /// # Errors
    /// Any failure; when the account may not create them, the message lists the grants.
    pub fn setup(&mut self) -> Result<(), Failure> {
        match self.survey(Selection::Named(&[])) {
            // With Config the version may be missing, which the definition puts right, or be another
            // one, which it leaves alone and reports again.
            Err(Failure {
                kind: FailureKind::NoTables | FailureKind::Config,
                ..
            }) => self.create_tables(),
            outcome => outcome.map(drop),
        }
    }

    fn create_tables(&mut self) -> Result<(), Failure> {
        let outcome = self.exchange(schema::DDL, Selection::Named(&[]), None);
        outcome.map(drop).map_err(|failure| match failure.kind {
            FailureKind::Denied => Failure {
                message: format!(
                    "{}; run dlock setup with an account that may create tables ({}), \
                     then this account needs: {}",
                    failure.message,
                    one_line(&schema::setup_grants(&self.target.database, "'…'@'…'")),
                    one_line(&schema::runtime_grants(
                        &self.target.database,
                        &format!("'{}'@'…'", self.target.user)
                    )),
                ),
                ..failure
            },
            _ => failure,
        })
    }

    /// Sends `statements` and a SELECT of `selection` in one packet, on a new connection if there
    /// is none, and checks that the reply is to this very packet.
    fn exchange(
        &mut self,
        statements: &str,
        selection: Selection,
        sent: Option<&mut BootInstant>,
    ) -> Result<(Sight, u64), Failure> {
        // Taken out: whatever goes wrong from here on, it is not put back.
        let (connection, session) = match self.connection.take() {
            Some(connection) => (connection, String::new()),
            None => (
                Connection::open(&self.target, self.limit, &self.interrupter)?,
                statements::session(self.idle),
            ),
        };
        let request = random::bytes().map_err(|error| Failure {
            kind: FailureKind::Unreachable,
            message: format!("no random numbers: {error}"),
        })?;
        let sight = statements::sight(request, selection);
        let packet = format!("{session}{statements}{sight}");
        if let Some(sent) = sent {
            *sent = clock::now();
        }
        let (connection, reply) = connection.exchange(&packet, &self.target)?;
        let sight = rows::read(reply.rows, request)?;
        self.connection = Some(connection);
        Ok((sight, reply.changed))
    }
}

/// Whether the row as read back is `claim`'s, under `token` if that is known.
fn owned(row: &Sighting, claim: Claim, token: Option<Token>) -> bool {
    row.claim == Some(claim) && token.is_none_or(|token| row.version.token == token)
}

/// Rows are never deleted by dlock; somebody else did it.
fn vanished() -> Failure {
    Failure {
        kind: FailureKind::Unknown,
        message: "the lock's row is gone from dlock_lock: somebody deleted it".to_owned(),
    }
}

fn one_line(statements: &str) -> String {
    statements.trim_end().replace('\n', " ")
}
