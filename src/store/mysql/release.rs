//! Giving the lease up, and recording what came of the command under it.

use super::exchange::{Patience, Trace};
use super::{Database, rows, statements};
use crate::lease::{Grant, Token};
use crate::store::{Answer, Contender, Failure, FailureKind, Parting};

impl Database {
    /// Hands the lease off, on the connection that the row names.
    pub(super) fn hand_off(
        &mut self,
        contender: &Contender,
        grant: Grant,
        trace: &mut Trace,
    ) -> Result<Answer, Failure> {
        // On another session than the row's nobody would believe it.
        if self.connection.is_none() {
            return Ok(Answer::NotOurs(None));
        }
        let packet = |request| statements::hand_off(request, contender, grant.claim);
        Ok(
            match self.exchange(Patience::Limited, trace, packet, rows::answer)? {
                true => Answer::HandedOff,
                false => Answer::NotOurs(None),
            },
        )
    }

    /// Frees the row, or finds out why it is not ours to free.
    pub(super) fn release(
        &mut self,
        contender: &Contender,
        parting: &Parting,
        trace: &mut Trace,
    ) -> Result<Answer, Failure> {
        let release = |request| statements::release(request, contender, parting);
        match self.exchange(Patience::Limited, trace, release, rows::freed) {
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
                Ok(match self.release(&without, parting, trace)? {
                    Answer::Released => Answer::ReleasedOnly(failure),
                    other => other,
                })
            }
            Err(failure) => Err(failure),
            Ok(freed) => {
                let answer = freed.answer(parting).ok_or_else(still_there)?;
                if freed.needs_settling(parting) {
                    self.settle(contender, parting, freed.broken, trace)?;
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
        trace: &mut Trace,
    ) -> Result<(), Failure> {
        let token = parting
            .token
            .filter(|_| parting.run.is_some() && contender.history > 0);
        let settle = |request| statements::settle(request, contender, parting.claim, broken, token);
        match self.exchange(Patience::Limited, trace, settle, rows::answer)? {
            true => Ok(()),
            false => Err(still_there()),
        }
    }
}

fn still_there() -> Failure {
    Failure {
        kind: FailureKind::Unknown,
        message: "the lease is still there after its release".to_owned(),
    }
}
