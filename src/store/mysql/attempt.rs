//! Taking the lease: the attempt, by itself or at the end of a wait at the gate.

use std::time::Duration;

use super::exchange::{Patience, Trace};
use super::statements::{self, Approach, Outlook};
use super::{Database, rows};
use crate::store::{
    ALLOWANCE, Answer, Contender, Failure, FailureKind, Fence, GATE_ALLOWANCE, Gate, Parting,
    Place, Remainder, Sighting, Turn, Wish,
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

    pub(super) fn stand(
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
