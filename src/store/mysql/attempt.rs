//! Taking the lease: the attempt, by itself or at the end of a wait at the gate.

use std::time::Duration;

use super::exchange::{Found, Patience, Trace, number, vanished};
use super::rows::Proof;
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
        // Both written before: when the gate is ours, everybody behind us waits for it.
        let attempt = statements::attempt(contender, &turn.wish, Approach::AtGate);
        let number = number()?;
        let ready = (self.prepares)
            .then(|| statements::ready_to_take(number, contender, &turn.wish))
            .flatten();
        let stand = |request| {
            let ready = ready.as_deref().unwrap_or_default();
            let stand = statements::stand(request, contender, turn, &gone);
            format!("{ready}{stand}")
        };
        if let (false, _) = self.exchange(Patience::Endless, trace, stand, rows::answer)? {
            return Ok(Answer::TurnedAway);
        }
        let taken = match ready {
            Some(_) => self.take_as_readied(contender, &turn.wish, number, trace)?,
            None => self.take(contender, &turn.wish, &attempt, trace)?,
        };
        self.or_over(contender, &turn.wish, taken, trace)
    }

    fn attempt(
        &mut self,
        contender: &Contender,
        wish: &Wish,
        trace: &mut Trace,
    ) -> Result<Answer, Failure> {
        let guard = statements::may_record(contender);
        let attempt = statements::attempt(contender, wish, Approach::Free);
        let packet = format!("{guard}{attempt}");
        let outcome = self.take(contender, wish, &packet, trace);
        let mut taken = self.or_create_tables(outcome, |database| {
            database.take(contender, wish, &packet, trace)
        })?;
        if let Taken::NoRow = taken {
            let create = statements::create_row(&contender.action);
            taken = self.take(contender, wish, &format!("{create}{packet}"), trace)?;
        }
        self.or_over(contender, wish, taken, trace)
    }

    /// What to answer when `taken` is what came of an attempt; makes another if the row is to be had
    /// by its state as it was seen.
    fn or_over(
        &mut self,
        contender: &Contender,
        wish: &Wish,
        mut taken: Taken,
        trace: &mut Trace,
    ) -> Result<Answer, Failure> {
        if let Taken::Not(found) = &taken
            && found.success.is_none()
            && let Some(row) = found.row.as_ref().filter(|row| may_be_taken(row, wish))
        {
            let fence = match row.fenced {
                true => Fence::Raised,
                false => contender.fence,
            };
            let over = Approach::Over(row.version, fence);
            let attempt = statements::attempt(contender, wish, over);
            taken = self.take(contender, wish, &attempt, trace)?;
        }
        match taken {
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
            Taken::NoRow => Err(vanished()),
        }
    }

    /// Sends `attempt` and finds out what came of it.
    fn take(
        &mut self,
        contender: &Contender,
        wish: &Wish,
        attempt: &str,
        trace: &mut Trace,
    ) -> Result<Taken, Failure> {
        let packet = |request| {
            let once = contender.once.as_ref();
            let proof = statements::proof(request, &contender.action, wish.claim, once);
            format!("{attempt}{proof}")
        };
        let (proof, _) = self.exchange(Patience::Limited, trace, packet, rows::proof)?;
        self.taken(contender, wish, proof, trace)
    }

    /// The same for an attempt that was made ready, with a proof by `number`.
    fn take_as_readied(
        &mut self,
        contender: &Contender,
        wish: &Wish,
        number: [u8; 8],
        trace: &mut Trace,
    ) -> Result<Taken, Failure> {
        let packet = |_| statements::take_as_readied();
        // As good as the request's own number: it was never sent back before.
        let read = |sets, _| rows::proof(sets, number);
        let (proof, _) = self.exchange(Patience::Limited, trace, packet, read)?;
        self.taken(contender, wish, proof, trace)
    }

    /// What `proof` says. Whose the row is not looks at it and the line by a packet of its own: in that
    /// of the attempt it would cost every grant that nobody disputes.
    fn taken(
        &mut self,
        contender: &Contender,
        wish: &Wish,
        proof: Option<Proof>,
        trace: &mut Trace,
    ) -> Result<Taken, Failure> {
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
        let found = self.one(contender, "", Outlook::Line(place), trace)?;
        let row = found.row.as_ref();
        match row.filter(|row| row.is_held_by(wish.claim, None)) {
            // By an attempt of before whose answer was lost, and which was carried out only now.
            Some(row) => {
                trace.sent = sent;
                Ok(Taken::Ours(row.version.token, found.success))
            }
            None => Ok(Taken::Not(found)),
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

/// What came of an attempt.
enum Taken {
    /// The row is ours by this token; and the success that makes that needless, if there is one.
    Ours(Token, Option<Success>),
    /// It is not; what was seen after.
    Not(Found),
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
