//! The lock on a MySQL or MariaDB server: questions in, answers out, one connection at a time.
//!
//! [`Database::ask`] blocks, for as long as a name server or a stuck server pleases; it is called
//! on the database thread alone, and whoever waits for the answer has a limit of its own.

mod connection;
pub mod doctor;
mod errors;
mod operate;
mod rows;
pub mod schema;
mod statements;

use std::time::Duration;

use mysql::Row;

pub use self::operate::Forgotten;
use self::statements::{Approach, Outlook};
pub use self::statements::{Selection, fence_check};

use self::connection::Connection;
use self::rows::{Freed, Sight};
use super::target::Target;
use super::{
    ALLOWANCE, Answer, Contender, Failure, FailureKind, Fence, GATE_ALLOWANCE, Gate, Keeper,
    Parting, Place, Question, Remainder, Reply, ServerTime, Sighting, Success, Turn, View, Wish,
};
use crate::lease::instant::BootInstant;
use crate::lease::once::Once;
use crate::sys::{clock, random, socket::Interrupter};
use crate::twin::{self, Mechanism};

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

/// What a look at the contender's action found.
struct Found {
    row: Option<Sighting>,
    view: View,
    success: Option<Success>,
}

impl Found {
    /// The success if there is one, otherwise what was seen.
    fn unless_done(self, seen: impl FnOnce(Sighting, View) -> Answer) -> Result<Answer, Failure> {
        match (self.success, self.row) {
            (Some(success), _) => Ok(Answer::Done(success)),
            (None, Some(row)) => Ok(seen(row, self.view)),
            (None, None) => Err(vanished()),
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
                let found = self.one(contender, &queue, Outlook::Places(*place), trace)?;
                found.unless_done(Answer::Queued)
            }
            Question::Stand(turn) => self.stand(contender, turn, trace),
            Question::Renew(grant, gate) => {
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

    fn release(
        &mut self,
        contender: &Contender,
        parting: &Parting,
        trace: &mut Trace,
    ) -> Result<Answer, Failure> {
        let release = |request| statements::release(request, contender, parting);
        let outcome = self.exchange(Patience::Limited, trace, release, rows::freed);
        let (freed, changed) = match outcome {
            // The lease is given up all the same, and a success recorded that others rely on.
            Err(failure)
                if parting.run.is_some()
                    && contender.history > 0
                    && matches!(failure.kind, FailureKind::Denied | FailureKind::NoTables) =>
            {
                let contender = Contender {
                    history: 0,
                    ..contender.clone()
                };
                let answer = self.release(&contender, parting, trace)?;
                return Ok(match answer {
                    Answer::Released => Answer::ReleasedOnly(failure),
                    other => other,
                });
            }
            outcome => outcome?,
        };
        match freed {
            Freed { left: true, .. } => Err(Failure {
                kind: FailureKind::Unknown,
                message: "the lease is still there after its release".to_owned(),
            }),
            // Read back, so that a repetition after a lost answer finds what the first one did.
            Freed {
                recorded: Some(true),
                ..
            } => Ok(Answer::Released),
            Freed { recorded: None, .. } if changed > 0 => Ok(Answer::Released),
            Freed { .. } => {
                if let Some(token) = parting
                    .token
                    .filter(|_| parting.run.is_some() && contender.history > 0)
                {
                    let broken = |request| statements::broken(request, contender, token);
                    self.exchange(Patience::Limited, trace, broken, rows::answer)?;
                }
                Ok(Answer::NotOurs)
            }
        }
    }

    /// Attempts the row, where a success would make the run needless only after a look: who has
    /// nothing to do writes nothing and does not touch the gate.
    fn first_attempt(
        &mut self,
        contender: &Contender,
        wish: &Wish,
        trace: &mut Trace,
    ) -> Result<Answer, Failure> {
        if contender.once.is_none() {
            return self.attempt(contender, wish, Approach::Free, trace);
        }
        let look = self.one(contender, "", Outlook::Row, trace);
        let found = self.or_create_tables(look, |database| {
            database.one(contender, "", Outlook::Row, trace)
        })?;
        match found.success {
            Some(success) => Ok(Answer::Done(success)),
            None => self.attempt(contender, wish, Approach::Free, trace),
        }
    }

    fn attempt(
        &mut self,
        contender: &Contender,
        wish: &Wish,
        approach: Approach,
        trace: &mut Trace,
    ) -> Result<Answer, Failure> {
        let guard = statements::may_record(contender);
        let attempt = statements::attempt(contender, wish, approach);
        let packet = format!("{guard}{attempt}");
        // With a gate the line is looked at by a question of its own, if at all: it would cost every
        // grant that nobody disputes.
        let outlook = match wish.gate {
            Gate::Used => Outlook::Row,
            gate @ Gate::Absent => Outlook::Line(Place {
                claim: wish.claim,
                gate,
            }),
        };
        let outcome = self.one(contender, &packet, outlook, trace);
        let mut found = self.or_create_tables(outcome, |database| {
            database.one(contender, &packet, outlook, trace)
        })?;
        if found.row.is_none() && found.success.is_none() {
            let create = statements::create_row(&contender.action);
            found = self.one(contender, &format!("{create}{packet}"), outlook, trace)?;
        }
        let row = found.row.as_ref();
        let ours = row.filter(|row| row.is_held_by(wish.claim, None));
        match (ours.map(|row| row.version.token), &found.success) {
            (Some(token), None) => Ok(Answer::Granted(token)),
            // The attempt saw the action as it was a moment before, and only now can nobody else
            // record a success.
            (Some(token), Some(success)) => {
                let parting = Parting {
                    claim: wish.claim,
                    token: Some(token),
                    gate: wish.gate,
                    queued: false,
                    keep: None,
                    run: None,
                };
                self.release(contender, &parting, trace)?;
                Ok(Answer::Done(success.clone()))
            }
            (None, None) => match row.filter(|row| may_be_taken(row, wish)) {
                Some(row) if !matches!(approach, Approach::Over(..)) => {
                    let fence = match row.fenced {
                        true => Fence::Raised,
                        false => contender.fence,
                    };
                    let over = Approach::Over(row.version, fence);
                    self.attempt(contender, wish, over, trace)
                }
                _ => found.unless_done(Answer::Seen),
            },
            (None, Some(_)) => found.unless_done(Answer::Seen),
        }
    }

    /// Makes the tables and asks again, if an answer did not come for want of them.
    fn or_create_tables<T>(
        &mut self,
        outcome: Result<T, Failure>,
        again: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        match outcome {
            Err(failure) if failure.kind == FailureKind::NoTables => {
                self.create_tables()?;
                again(self)
            }
            outcome => outcome,
        }
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
            (true, _) => self.attempt(contender, &turn.wish, Approach::AtGate, trace),
            (false, _) => Ok(Answer::TurnedAway),
        }
    }

    /// Sends `statements` and looks at the contender's row and as much more as `outlook` says.
    fn one(
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
                gone: Vec::new(),
            }),
            success: sight.success,
        })
    }

    /// Sends `statements` and a SELECT of `selection` in one packet.
    fn look(
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
        let (connection, reply) = connection.exchange(&packet, &self.target);
        if twin::is_out(Mechanism::SendTime) {
            trace.sent = clock::now();
        }
        let outcome = reply.and_then(|reply| Ok((read(reply.sets, request)?, reply.changed)));
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
        Ok(match self.connection.take() {
            Some(connection) => (connection, String::new()),
            None => (
                Connection::open(&self.target, self.limit, &self.interrupter)?,
                statements::session(self.idle),
            ),
        })
    }
}

/// Whether the take-over rule allows the row, which is another's, to `wish`, or it is free and the
/// attempt did not match only for its fence.
fn may_be_taken(row: &Sighting, wish: &Wish) -> bool {
    let watched = wish.seen == Some(row.version);
    let lapsed = |by: Duration| matches!(row.remainder, Remainder::Lapsed(ago) if ago > by);
    let over = row.kept_until.is_some() && lapsed(Duration::ZERO);
    // That the gate is ours is for the statement to find out.
    let witnessed = wish.gate == Gate::Used && row.gated_here;
    let abandoned = lapsed(ALLOWANCE) || (witnessed && lapsed(GATE_ALLOWANCE));
    match row.claim {
        Some(_) if twin::is_out(Mechanism::OwnClock) => lapsed(Duration::ZERO),
        Some(_) => watched || over || abandoned,
        None => row.fenced,
    }
}

/// Rows are never deleted by dlock; somebody else did it.
fn vanished() -> Failure {
    Failure {
        kind: FailureKind::Unknown,
        message: "the lock's row is gone from dlock_lock: somebody deleted it".to_owned(),
    }
}
