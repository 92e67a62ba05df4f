//! Taking the lease: the attempt, by itself or at the end of a wait at the gate.

use std::time::Duration;

use super::exchange::{Found, Patience, Trace, number, vanished};
use super::statements::{self, Approach, Outlook};
use super::{Database, rows};
use crate::lease::{Grant, Token};
use crate::store::{
    ALLOWANCE, Answer, Contender, Failure, FailureKind, Fence, GATE_ALLOWANCE, Gate, Parting,
    Place, Remainder, Sighting, Success, Turn, Wish,
};
use crate::twin::{self, Mechanism};

impl Database {
    /// Attempts the row, where a success would make the run needless only after a look: who has
    /// nothing to do writes nothing and does not touch the gate.
    pub(super) fn first_attempt(
        &mut self,
        contender: &Contender,
        wish: &Wish,
        trace: &mut Trace,
    ) -> Result<Answer, Failure> {
        if contender.once.is_none() {
            return self.attempt(contender, wish, trace);
        }
        let look = self.one(contender, "", Outlook::Row, trace);
        let found = self.or_create_tables(look, |database| {
            database.one(contender, "", Outlook::Row, trace)
        })?;
        match found.success {
            Some(success) => Ok(Answer::Done(success)),
            None => self.attempt(contender, wish, trace),
        }
    }

    /// Waits at the gate, then attempts.
    pub(super) fn stand(
        &mut self,
        contender: &Contender,
        turn: &Turn,
        trace: &mut Trace,
    ) -> Result<Answer, Failure> {
        let gone = match turn.tidy {
            true => {
                let gone = |request| statements::gone(request, &contender.action);
                self.exchange(Patience::Limited, trace, gone, rows::gone)?.0
            }
            false => Vec::new(),
        };
        // Written before: when the gate is ours, everybody behind us waits for it.
        let number = number()?;
        let ready = (self.prepares)
            .then(|| statements::ready_to_take(number, contender, &turn.wish))
            .flatten();
        let attempt = match ready {
            Some(_) => Packet::Readied(number),
            None => Packet::Text(statements::attempt(contender, &turn.wish, Approach::AtGate)),
        };
        let stand = |request| {
            let stand = statements::stand(request, contender, turn, &gone);
            ready.unwrap_or_default() + &stand
        };
        match self.exchange(Patience::Endless, trace, stand, rows::answer)? {
            (true, _) => {
                let taken = self.take(contender, &turn.wish, &attempt, trace)?;
                self.or_over(contender, &turn.wish, taken, trace)
            }
            (false, _) => Ok(Answer::TurnedAway),
        }
    }

    fn attempt(
        &mut self,
        contender: &Contender,
        wish: &Wish,
        trace: &mut Trace,
    ) -> Result<Answer, Failure> {
        let guard = statements::may_record(contender);
        let attempt = statements::attempt(contender, wish, Approach::Free);
        let packet = Packet::Text(format!("{guard}{attempt}"));
        let outcome = self.take(contender, wish, &packet, trace);
        let mut taken = self.or_create_tables(outcome, |database| {
            database.take(contender, wish, &packet, trace)
        })?;
        if let Taken::NoRow = taken {
            let create = statements::create_row(&contender.action);
            let packet = Packet::Text(format!("{create}{guard}{attempt}"));
            taken = self.take(contender, wish, &packet, trace)?;
        }
        self.or_over(contender, wish, taken, trace)
    }

    /// What to answer when `outcome` is what came of an attempt; makes another if the row is to be had by
    /// its state as it was seen.
    fn or_over(
        &mut self,
        contender: &Contender,
        wish: &Wish,
        mut outcome: Taken,
        trace: &mut Trace,
    ) -> Result<Answer, Failure> {
        if let Taken::Not(found) = &outcome
            && found.success.is_none()
            && let Some(row) = found.row.as_ref().filter(|row| may_be_taken(row, wish))
        {
            let fence = match row.fenced {
                true => Fence::Raised,
                false => contender.fence,
            };
            let over = Approach::Over(row.version, fence);
            let attempt = Packet::Text(statements::attempt(contender, wish, over));
            outcome = self.take(contender, wish, &attempt, trace)?;
        }
        match outcome {
            Taken::Ours(token, None) => {
                let claim = wish.claim;
                self.unfinished = wish.queued.then_some(Grant { claim, token });
                Ok(Answer::Granted(token))
            }
            // The attempt saw the action as it was a moment before, and only now can nobody else
            // record a success.
            Taken::Ours(token, Some(success)) => {
                let parting = Parting {
                    claim: wish.claim,
                    token: Some(token),
                    gate: wish.gate,
                    queued: false,
                    keep: None,
                    run: None,
                };
                self.release(contender, &parting, trace)?;
                Ok(Answer::Done(success))
            }
            Taken::Not(found) => found.unless_done(Answer::Seen),
            // None was made, or somebody deletes them. Which, is told by the version that a look checks.
            Taken::NoRow => {
                self.one(contender, "", Outlook::Row, trace)?;
                Err(vanished())
            }
        }
    }

    /// Sends `attempt` and finds out what came of it. Who does not get the row looks at it and the line
    /// by another packet: in that of the attempt it would cost every grant that nobody disputes.
    fn take(
        &mut self,
        contender: &Contender,
        wish: &Wish,
        attempt: &Packet,
        trace: &mut Trace,
    ) -> Result<Taken, Failure> {
        let limited = Patience::Limited;
        let (proof, _) = match attempt {
            Packet::Text(text) => {
                let once = contender.once.as_ref();
                let proof =
                    |request| statements::proof(request, &contender.action, wish.claim, once);
                let packet = |request| format!("{text}{}", proof(request));
                self.exchange(limited, trace, packet, rows::proof)?
            }
            Packet::Readied(number) => {
                // As good as a number of this request: it was never sent back before.
                let read = |sets, _| rows::proof(sets, *number);
                self.exchange(limited, trace, |_| statements::take_as_readied(), read)?
            }
        };
        let Some(proof) = proof else {
            return Ok(Taken::NoRow);
        };
        trace.server_time = Some(proof.server_time);
        if proof.ours {
            return Ok(Taken::Ours(proof.token, proof.success));
        }
        let sent = trace.sent;
        let place = Place {
            claim: wish.claim,
            gate: wish.gate,
        };
        // It may be free in a moment, and was not to be taken before for a fence or for what it is to say.
        let free = match wish.gate {
            Gate::Used => statements::awaited(&contender.action),
            Gate::Absent => String::new(),
        };
        let found = self.one(contender, &free, Outlook::Line(place), trace)?;
        let row = found.row.as_ref();
        match row.filter(|row| row.is_held_by(wish.claim, None)) {
            // By an attempt of before whose answer was lost, and which was carried out only now.
            Some(row) => {
                trace.sent = sent;
                Ok(Taken::Ours(row.version.token, found.success))
            }
            None => Ok(Taken::Not(Box::new(found))),
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
}

/// How an attempt is made.
enum Packet {
    /// By these statements.
    Text(String),
    /// By what was made ready before, with a proof by this number.
    Readied([u8; 8]),
}

/// What came of an attempt.
enum Taken {
    /// The row is ours by this token; and the success that makes that needless, if there is one.
    Ours(Token, Option<Success>),
    /// It is not; what was seen after.
    Not(Box<Found>),
    /// Nobody has ever wanted the action.
    NoRow,
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
        _ if row.closed.is_some() => false,
        Some(_) if twin::is_out(Mechanism::OwnClock) => lapsed(Duration::ZERO),
        Some(_) => watched || over || abandoned,
        None => row.fenced,
    }
}
