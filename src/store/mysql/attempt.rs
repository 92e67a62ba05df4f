//! Taking the lease: the attempt, by itself or at the end of a wait at the gate.
//!
//! A grant counts only by what was read back of it, with the number of the request, behind the statement
//! that made it.

use super::exchange::{Found, Patience, Trace, vanished};
use super::statements::{self, Approach, Outlook};
use super::{Database, rows};
use crate::lease::{Claim, Token};
use crate::store::{
    Answer, Contender, Failure, FailureKind, Fence, Gate, Mode, Parting, Place, Success, Turn, Wish,
};

impl Database {
    /// Makes one attempt. Where a success would make the run needless, the first of a process looks
    /// before: a process with nothing to do writes nothing and does not touch the gate.
    pub(super) fn try_acquire(
        &mut self,
        contender: &Contender,
        wish: &Wish,
        trace: &mut Trace,
    ) -> Result<Answer, Failure> {
        if wish.mode == Mode::First && contender.once.is_some() {
            let look = self.one(contender, "", Outlook::Row, trace);
            let found = self.or_create_tables(look, |database| {
                database.one(contender, "", Outlook::Row, trace)
            })?;
            if let Some(success) = found.success {
                return Ok(Answer::Done(success));
            }
        }
        let Wish { claim, gate, .. } = *wish;
        let approach = match wish.mode {
            Mode::First | Mode::IfFree => Approach::Free,
            Mode::TakeOver { version, fenced } => Approach::Over(
                version,
                match fenced {
                    true => Fence::Raised,
                    false => contender.fence,
                },
            ),
        };
        let guard = statements::may_record(contender);
        let attempt = statements::attempt(contender, claim, gate, approach);
        let packet = format!("{guard}{attempt}");
        let outcome = self.take(contender, &packet, trace);
        let mut taken =
            self.or_create_tables(outcome, |database| database.take(contender, &packet, trace))?;
        if let Taken::NoRow = taken {
            let create = statements::create_row(&contender.action);
            taken = self.take(contender, &format!("{create}{packet}"), trace)?;
        }
        self.outcome(contender, claim, gate, taken, trace)
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
                self.exchange(Patience::Limited, trace, gone, rows::gone)?
            }
            false => Vec::new(),
        };
        let (claim, gate) = (turn.claim, Gate::Used);
        // Written before: when the gate is ours, everybody behind us waits for it.
        let attempt = statements::attempt(contender, claim, gate, Approach::AtGate);
        let stand = |request| statements::stand(request, contender, turn, &gone);
        if !self.exchange(Patience::Endless, trace, stand, rows::answer)? {
            return Ok(Answer::TurnedAway);
        }
        let taken = self.take(contender, &attempt, trace)?;
        self.outcome(contender, claim, gate, taken, trace)
    }

    /// Sends `attempt` and reads back what came of it.
    fn take(
        &mut self,
        contender: &Contender,
        attempt: &str,
        trace: &mut Trace,
    ) -> Result<Taken, Failure> {
        let once = contender.once.as_ref();
        let packet = |request| {
            let proof = statements::proof(request, &contender.action, once);
            format!("{attempt}{proof}")
        };
        trace.grants = true;
        let proof = self.exchange(Patience::Limited, trace, packet, rows::proof)?;
        Ok(proof.map_or(Taken::NoRow, |proof| {
            trace.server_time = Some(proof.server_time);
            Taken::Proof(Box::new(proof))
        }))
    }

    /// What to answer when an attempt of `claim` came to `taken`. A contender that does not get the row
    /// looks at it and the line by another packet: in that of the attempt it would cost every grant
    /// that nobody disputes.
    fn outcome(
        &mut self,
        contender: &Contender,
        claim: Claim,
        gate: Gate,
        taken: Taken,
        trace: &mut Trace,
    ) -> Result<Answer, Failure> {
        match taken {
            Taken::Proof(proof) => match (proof.row.granted(claim), proof.success) {
                (Some(_), Some(success)) => {
                    let given = (proof.row.owner.token, success);
                    self.give_back(contender, claim, gate, given, trace)
                }
                (Some(answer), None) => Ok(answer),
                (None, _) => {
                    let place = Place { claim, gate };
                    let found = self.one(contender, "", Outlook::Line(place), trace)?;
                    match found.held_by(claim) {
                        // By an earlier attempt whose answer was lost, and which was carried out only now.
                        Some(late) => Ok(Answer::AlreadyOurs(late)),
                        None => found.unless_done(Answer::Seen),
                    }
                }
            },
            // None was made, or somebody deletes them. Which, is told by the version that a look checks.
            Taken::NoRow => {
                self.one(contender, "", Outlook::Row, trace)?;
                Err(vanished())
            }
        }
    }

    /// Gives a grant back that a success makes needless: the attempt saw the action as it was a moment
    /// before, and only now can nobody else record a success.
    fn give_back(
        &mut self,
        contender: &Contender,
        claim: Claim,
        gate: Gate,
        (token, success): (Token, Success),
        trace: &mut Trace,
    ) -> Result<Answer, Failure> {
        let parting = Parting {
            claim,
            token: Some(token),
            gate,
            queued: false,
            keep: None,
            run: None,
            handed_off: false,
        };
        self.release(contender, &parting, trace)?;
        Ok(Answer::Done(success))
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

impl Found {
    /// The token, if the row is held by `claim`.
    fn held_by(&self, claim: Claim) -> Option<Token> {
        let row = self.row.as_ref()?;
        row.is_held_by(claim, None).then_some(row.version.token)
    }
}

/// What came of an attempt.
enum Taken {
    /// What was read back behind it.
    Proof(Box<rows::Proof>),
    /// Nobody has ever wanted the action.
    NoRow,
}
