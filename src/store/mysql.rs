//! The lock on a MySQL or MariaDB server: questions in, answers out, one connection at a time.
//!
//! [`Database::ask`] blocks, for as long as a name server or a stuck server pleases; it is called
//! on the database thread alone, and whoever waits for the answer has a limit of its own.

mod connection;
pub mod doctor;
mod errors;
mod rows;
pub mod schema;
mod statements;

use std::time::Duration;

use mysql::Row;

use self::statements::Outlook;
pub use self::statements::Selection;

use self::connection::Connection;
use self::rows::Sight;
use super::target::Target;
use super::{
    Answer, Contender, Failure, FailureKind, Gate, Keeper, Parting, Place, Question, Reply,
    ServerTime, Sighting, Turn, View, Waiter, Wish,
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

impl Trace {
    fn new() -> Self {
        Self {
            sent: clock::now(),
            server_time: None,
        }
    }
}

/// How long a reply may take.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// No read longer than the limit.
    Limited,
    /// As long as the line is.
    Endless,
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
        let mut trace = Trace::new();
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
            Question::Attempt(wish) => self.attempt(contender, wish, false, trace),
            Question::Inspect(place) => {
                let (row, view) = self.one(contender, "", Outlook::Line(*place), trace)?;
                Ok(Answer::Seen(row.ok_or_else(vanished)?, view))
            }
            Question::Queue(place) => {
                let queue = statements::queue(contender, *place);
                let (row, view) = self.one(contender, &queue, Outlook::Places(*place), trace)?;
                Ok(Answer::Queued(row.ok_or_else(vanished)?, view))
            }
            Question::Stand(turn) => self.stand(contender, turn, trace),
            Question::Renew(grant, gate) => {
                // On a new connection the gate has to be taken anew.
                let moved = self.connection.is_none().then_some(*gate);
                let renew = statements::renew(contender, *grant, moved);
                let (row, _) = self.one(contender, &renew, Outlook::Row, trace)?;
                let row = row.ok_or_else(vanished)?;
                Ok(match owned(&row, grant.claim, Some(grant.token)) {
                    true => Answer::Renewed,
                    false => Answer::Lost(row),
                })
            }
            Question::Release(parting) => self.release(contender, parting, trace),
        }
    }

    fn release(
        &mut self,
        contender: &Contender,
        parting: &Parting,
        trace: &mut Trace,
    ) -> Result<Answer, Failure> {
        let release = |request| statements::release(request, &contender.action, parting);
        match self.exchange(Patience::Limited, trace, release, rows::answer)? {
            (true, _) => Err(Failure {
                kind: FailureKind::Unknown,
                message: "the lease is still there after its release".to_owned(),
            }),
            (false, 0) => Ok(Answer::NotOurs),
            (false, _) => Ok(Answer::Released),
        }
    }

    fn attempt(
        &mut self,
        contender: &Contender,
        wish: &Wish,
        at_gate: bool,
        trace: &mut Trace,
    ) -> Result<Answer, Failure> {
        let update = statements::attempt(contender, wish, at_gate);
        // With a gate the line is looked at by a question of its own, if at all: it would cost every
        // grant that nobody disputes.
        let outlook = match wish.gate {
            Gate::Used => Outlook::Row,
            gate @ Gate::Absent => Outlook::Line(Place {
                claim: wish.claim,
                gate,
            }),
        };
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
        let (row, view) = seen;
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
        let stand = |request| statements::stand(request, &contender.action, turn);
        // Attempted here and not by another question: everybody behind us waits for it.
        match self.exchange(Patience::Endless, trace, stand, rows::answer)? {
            (true, _) => self.attempt(contender, &turn.wish, true, trace),
            (false, _) => Ok(Answer::TurnedAway),
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
        let survey = |request| {
            let sight = statements::sight(request, selection, Outlook::Row);
            format!("{sight};{}", statements::waiters(request, selection))
        };
        let read = |sets: Vec<Vec<Row>>, request| {
            let mut sets = sets.into_iter();
            let sight = rows::sight(sets.next().unwrap_or_default(), request)?;
            let waiters = rows::waiters(sets.next().unwrap_or_default(), request)?;
            Ok((sight.rows, waiters))
        };
        let (found, _) = self.exchange(Patience::Limited, &mut Trace::new(), survey, read)?;
        Ok(found)
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
        let nothing = Selection::Named(&[]);
        let outcome = self.look(schema::DDL, nothing, Outlook::Row, &mut Trace::new());
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
    ) -> Result<(Option<Sighting>, View), Failure> {
        let only = Selection::Named(std::slice::from_ref(&contender.action));
        let sight = self.look(statements, only, outlook, trace)?;
        let view = sight.view.unwrap_or(View {
            keeper: Keeper::Unasked,
            ahead: 0,
            gone: Vec::new(),
        });
        Ok((sight.rows.into_iter().next(), view))
    }

    /// Sends `statements` and a SELECT of `selection` in one packet.
    fn look(
        &mut self,
        statements: &str,
        selection: Selection,
        outlook: Outlook,
        trace: &mut Trace,
    ) -> Result<Sight, Failure> {
        let packet = |request| {
            let sight = statements::sight(request, selection, outlook);
            format!("{statements}{sight}")
        };
        let (sight, _) = self.exchange(Patience::Limited, trace, packet, |sets, request| {
            rows::sight(sets.into_iter().next_back().unwrap_or_default(), request)
        })?;
        trace.server_time = Some(sight.server_time);
        Ok(sight)
    }

    /// Sends one packet, built around the number of the request, and reads all that comes back by
    /// `read`, which checks that number; also tells how many rows were changed. The connection is
    /// kept only if nothing at all was wrong.
    fn exchange<T>(
        &mut self,
        patience: Patience,
        trace: &mut Trace,
        packet: impl FnOnce([u8; 8]) -> String,
        read: impl FnOnce(Vec<Vec<Row>>, [u8; 8]) -> Result<T, Failure>,
    ) -> Result<(T, u64), Failure> {
        let (connection, session) = self.connection()?;
        let request = random::bytes().map_err(|error| Failure {
            kind: FailureKind::Unreachable,
            message: format!("no random numbers: {error}"),
        })?;
        let packet = format!("{session}{}", packet(request));
        if patience == Patience::Endless {
            connection.limit_reads(None)?;
        }
        trace.sent = clock::now();
        let (connection, reply) = connection.exchange(&packet, &self.target)?;
        let found = read(reply.sets, request)?;
        if patience == Patience::Endless {
            connection.limit_reads(Some(self.limit))?;
        }
        self.connection = Some(connection);
        Ok((found, reply.changed))
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
