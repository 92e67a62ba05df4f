//! Giving the lease up, and recording what came of the command under it.

use super::exchange::Request;
use super::{Database, rows, statements};
use crate::lease::{Grant, Token};
use crate::store::{Answer, Contender, Failure, FailureKind, Parting};

impl Database {
    /// Hands the lease off, on the connection that the row names.
    pub(super) fn hand_off(
        &mut self,
        contender: &Contender,
        grant: Grant,
    ) -> Result<Answer, Failure> {
        let packet = statements::hand_off(contender, grant.claim);
        // On another session than the row's nobody would believe it.
        match self.connection.is_some() && self.exchange(Request::Plain, &packet, rows::answer)? {
            true => Ok(Answer::HandedOff),
            false => Ok(Answer::NotOurs(None)),
        }
    }

    /// Frees the row, or finds out why it is not ours to free.
    pub(super) fn release(
        &mut self,
        contender: &Contender,
        parting: &Parting,
    ) -> Result<Answer, Failure> {
        let release = statements::release(contender, parting);
        match self.exchange(Request::Plain, &release, rows::freed) {
            // The lease is given up all the same, and a success recorded that others rely on.
            Err(failure)
                if parting.run.is_some()
                    && contender.history > 0
                    && matches!(failure.kind, FailureKind::Denied | FailureKind::NoTables) =>
            {
                let without = Contender {
                    history: 0,
                    ..contender.clone()
                };
                Ok(match self.release(&without, parting)? {
                    Answer::Released => Answer::ReleasedOnly(failure),
                    other => other,
                })
            }
            Err(failure) => Err(failure),
            Ok(freed) => {
                let answer = freed.answer(parting).ok_or_else(still_there)?;
                if freed.needs_settling(parting) {
                    self.settle(contender, parting, freed.broken)?;
                }
                Ok(answer)
            }
        }
    }

    /// Frees a row that an operator has left to us, and records a run whose row was freed by hand.
    fn settle(
        &mut self,
        contender: &Contender,
        parting: &Parting,
        broken: Option<Token>,
    ) -> Result<(), Failure> {
        let settle = statements::settle(contender, parting, broken);
        match self.exchange(Request::Plain, &settle, rows::answer)? {
            true => Ok(()),
            false => Err(still_there()),
        }
    }
}

fn still_there() -> Failure {
    let why = "the lease is still there after its release";
    Failure::new(FailureKind::Unknown, why)
}
