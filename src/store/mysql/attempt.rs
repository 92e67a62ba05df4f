//! Taking the lease: the attempt, by itself or at the end of a wait at the gate.
//!
//! A grant counts only by what was read back of it, with the number of the request, behind the statement
//! that made it.

use super::exchange::Request;
use super::{Database, rows, statements};
use crate::store::read_back::AttemptReadBack;
use crate::store::{
    Answer, Contender, Failure, FailureKind, Gate, Mode, Parting, Place, Success, Turn, Wish,
};

/// What is read back behind an attempt, and the success that makes it needless. None if nobody has ever
/// wanted the action.
type Taken = Option<(AttemptReadBack, Option<Success>)>;

impl Database {
    /// Makes one attempt, after making the tables if there are none.
    pub(super) fn try_acquire(
        &mut self,
        contender: &Contender,
        wish: &Wish,
    ) -> Result<Answer, Failure> {
        match self.try_once(contender, wish) {
            Err(failure) if failure.kind == FailureKind::NoTables => {
                self.create_tables()?;
                self.try_once(contender, wish)
            }
            outcome => outcome,
        }
    }

    /// Where a success would make the run needless, the first attempt of a process looks before: a process
    /// with nothing to do writes nothing and does not touch the gate.
    fn try_once(&mut self, contender: &Contender, wish: &Wish) -> Result<Answer, Failure> {
        if wish.mode == Mode::First
            && contender.once.is_some()
            && let Some(success) = self.look(contender, "", None)?.success
        {
            return Ok(Answer::Done(success));
        }
        let guard = statements::may_record(contender);
        let attempt = statements::attempt(contender, wish, false);
        let packet = format!("{guard}{attempt}");
        let mut taken = self.take(contender, &packet)?;
        if taken.is_none() {
            let create = statements::create_row(&contender.action);
            taken = self.take(contender, &format!("{create}{packet}"))?;
        }
        self.outcome(contender, wish, taken)
    }

    /// Waits at the gate, then attempts.
    pub(super) fn stand(&mut self, contender: &Contender, turn: &Turn) -> Result<Answer, Failure> {
        let gone = match turn.tidy {
            true => {
                let gone = statements::gone(&contender.action);
                self.exchange(Request::Plain, &gone, rows::gone)?
            }
            false => Vec::new(),
        };
        let wish = Wish {
            claim: turn.claim,
            mode: Mode::IfFree,
            gate: Gate::Used,
        };
        // Written before: when the gate is ours, everybody behind us waits for it.
        let attempt = statements::attempt(contender, &wish, true);
        let stand = statements::stand(contender, turn, &gone);
        if !self.exchange(Request::Wait, &stand, rows::answer)? {
            return Ok(Answer::TurnedAway);
        }
        let taken = self.take(contender, &attempt)?;
        self.outcome(contender, &wish, taken)
    }

    /// Sends `attempt` and reads back what came of it.
    fn take(&mut self, contender: &Contender, attempt: &str) -> Result<Taken, Failure> {
        let packet = format!("{attempt}{}", statements::proof(contender));
        self.exchange(Request::Grant, &packet, rows::proof)
    }

    /// What to answer when the attempt of `wish` came to `taken`. A contender that does not get the row
    /// looks at it and the line by another packet: in that of the attempt it would cost every grant
    /// that nobody disputes.
    fn outcome(
        &mut self,
        contender: &Contender,
        wish: &Wish,
        taken: Taken,
    ) -> Result<Answer, Failure> {
        let Wish { claim, gate, .. } = *wish;
        let Some((row, success)) = taken else {
            // None was made, or somebody deletes them. Which, is told by the version that a look checks.
            self.look(contender, "", None)?;
            return Err(rows::vanished());
        };
        match (row.granted(claim), success) {
            // The attempt saw the action as it was a moment before, and only now can nobody else record a
            // success: the grant is given back.
            (Some(_), Some(success)) => {
                let parting = Parting {
                    claim,
                    token: Some(row.owner.token),
                    gate,
                    queued: false,
                    keep: None,
                    run: None,
                    handed_off: false,
                };
                self.release(contender, &parting)?;
                Ok(Answer::Done(success))
            }
            (Some(answer), None) => Ok(answer),
            (None, _) => {
                let found = self.look(contender, "", Some(Place { claim, gate }))?;
                match &found.row {
                    // By an earlier attempt whose answer was lost, and which was carried out only now.
                    Some(row) if row.is_held_by(claim, None) => {
                        Ok(Answer::AlreadyOurs(row.version.token))
                    }
                    _ => found.unless_done(Answer::Seen),
                }
            }
        }
    }
}
