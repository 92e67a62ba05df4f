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

use self::statements::Outlook;
pub use self::statements::Selection;

use self::connection::Connection;
use self::rows::Sight;
use super::target::Target;
use super::{
    Answer, Contender, Failure, FailureKind, Keeper, Place, Question, Reply, ServerTime, Sighting,
    Turn, View, Waiter, Wish,
};
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

/// What is noted on the way to an answer, whatever becomes of it.
struct Trace {
    sent: BootInstant,
    server_time: Option<ServerTime>,
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
        let mut trace = Trace {
            sent: clock::now(),
            server_time: None,
        };
        let outcome = self.answer(contender, question, &mut trace);
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
            Question::Attempt(wish) => self.attempt(contender, wish, trace),
            Question::Inspect(place) => {
                let (row, view, _) = self.one(contender, "", Outlook::Line(*place), trace)?;
                Ok(Answer::Seen(row.ok_or_else(vanished)?, view))
            }
            Question::Queue(place) => {
                let queue = statements::queue(contender, *place);
                let (row, view, _) = self.one(contender, &queue, Outlook::Places(*place), trace)?;
                Ok(Answer::Queued(row.ok_or_else(vanished)?, view))
            }
            Question::Stand(turn) => self.stand(contender, turn, trace),
            Question::Renew(grant, gate) => {
                // On a new connection the gate has to be taken anew.
                let moved = self.connection.is_none().then_some(*gate);
                let renew = statements::renew(contender, *grant, moved);
                let (row, _, _) = self.one(contender, &renew, Outlook::Row, trace)?;
                let row = row.ok_or_else(vanished)?;
                Ok(match owned(&row, grant.claim, Some(grant.token)) {
                    true => Answer::Renewed,
                    false => Answer::Lost(row),
                })
            }
            Question::Release(parting) => {
                let release = statements::release(&contender.action, parting);
                let (row, _, changed) = self.one(contender, &release, Outlook::Row, trace)?;
                if row.is_some_and(|row| owned(&row, parting.claim, parting.token)) {
                    return Err(Failure {
                        kind: FailureKind::Unknown,
                        message: "the lease is still there after its release".to_owned(),
                    });
                }
                Ok(match changed {
                    0 => Answer::NotOurs,
                    _ => Answer::Released,
                })
            }
        }
    }

    fn attempt(
        &mut self,
        contender: &Contender,
        wish: &Wish,
        trace: &mut Trace,
    ) -> Result<Answer, Failure> {
        let update = statements::attempt(contender, wish);
        let outlook = Outlook::Line(Place {
            claim: wish.claim,
            gate: wish.gate,
        });
        let mut seen = match self.one(contender, &update, outlook, trace) {
            Err(failure) if failure.kind == FailureKind::NoTables => {
                self.create_tables()?;
                self.one(contender, &update, outlook, trace)?
            }
            outcome => outcome?,
        };
        if seen.0.is_none() {
            let create = statements::create_row(&contender.action);
            seen = self.one(contender, &format!("{create}{update}"), outlook, trace)?;
        }
        let (row, view, _) = seen;
        let row = row.ok_or_else(vanished)?;
        Ok(match owned(&row, wish.claim, None) {
            true => Answer::Granted(row.version.token),
            false => Answer::Seen(row, view),
        })
    }

    fn stand(
        &mut self,
        contender: &Contender,
        turn: &Turn,
        trace: &mut Trace,
    ) -> Result<Answer, Failure> {
        let (connection, session) = self.connection()?;
        connection.limit_reads(None)?;
        let request = number()?;
        let stand = statements::stand(&contender.action, turn.patience, &turn.gone);
        let packet = format!("{session}{stand}{}", statements::gate(request));
        trace.sent = clock::now();
        let (connection, reply) = connection.exchange(&packet, &self.target)?;
        let rows = reply.sets.into_iter().next_back().unwrap_or_default();
        let ours = rows::gate(rows, request)?;
        connection.limit_reads(Some(self.limit))?;
        self.connection = Some(connection);
        // Here and not by another question: everybody behind us waits for this.
        match ours {
            true => self.attempt(contender, &turn.wish, trace),
            false => Ok(Answer::TurnedAway),
        }
    }

    /// Shows rows and who waits, in order; changes nothing.
    ///
    /// # Errors
    /// Any failure; a missing table is one.
    pub fn survey(
        &mut self,
        selection: Selection,
    ) -> Result<(Vec<Sighting>, Vec<Waiter>), Failure> {
        let (connection, session) = self.connection()?;
        let request = number()?;
        let packet = format!(
            "{session}{};{}",
            statements::sight(request, selection, Outlook::Row),
            statements::waiters(request, selection)
        );
        let (connection, reply) = connection.exchange(&packet, &self.target)?;
        let mut sets = reply.sets.into_iter();
        let sight = rows::sight(sets.next().unwrap_or_default(), request)?;
        let waiters = rows::waiters(sets.next().unwrap_or_default(), request)?;
        self.connection = Some(connection);
        Ok((sight.rows, waiters))
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
        let outcome = self.exchange(schema::DDL, Selection::Named(&[]), Outlook::Row, None);
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

    /// Sends `statements` and looks at the contender's row and as much more as `outlook` says.
    fn one(
        &mut self,
        contender: &Contender,
        statements: &str,
        outlook: Outlook,
        trace: &mut Trace,
    ) -> Result<(Option<Sighting>, View, u64), Failure> {
        let only = Selection::Named(std::slice::from_ref(&contender.action));
        let (sight, changed) = self.exchange(statements, only, outlook, Some(trace))?;
        let view = sight.view.unwrap_or(View {
            keeper: Keeper::Unasked,
            ahead: 0,
            gone: Vec::new(),
        });
        Ok((sight.rows.into_iter().next(), view, changed))
    }

    /// Sends `statements` and a SELECT of `selection` in one packet and checks that the reply is
    /// to this very packet.
    fn exchange(
        &mut self,
        statements: &str,
        selection: Selection,
        outlook: Outlook,
        trace: Option<&mut Trace>,
    ) -> Result<(Sight, u64), Failure> {
        let (connection, session) = self.connection()?;
        let request = number()?;
        let sight = statements::sight(request, selection, outlook);
        let packet = format!("{session}{statements}{sight}");
        let sent = clock::now();
        let mut ignored = Trace {
            sent,
            server_time: None,
        };
        let trace = trace.unwrap_or(&mut ignored);
        trace.sent = sent;
        let (connection, reply) = connection.exchange(&packet, &self.target)?;
        let rows = reply.sets.into_iter().next_back().unwrap_or_default();
        let sight = rows::sight(rows, request)?;
        trace.server_time = Some(sight.server_time);
        self.connection = Some(connection);
        Ok((sight, reply.changed))
    }

    /// The connection, a new one if there is none, and what has to be said first on a new one.
    /// Taken out: whatever goes wrong from here on, it is not put back.
    fn connection(&mut self) -> Result<(Connection, String), Failure> {
        Ok(match self.connection.take() {
            Some(connection) => (connection, String::new()),
            None => (
                Connection::open(&self.target, self.limit, &self.interrupter)?,
                statements::session(self.idle),
            ),
        })
    }
}

/// The number of one request, which its reply must carry.
fn number() -> Result<[u8; 8], Failure> {
    random::bytes().map_err(|error| Failure {
        kind: FailureKind::Unreachable,
        message: format!("no random numbers: {error}"),
    })
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
