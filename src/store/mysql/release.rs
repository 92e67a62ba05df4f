//! Giving the lease up, and recording what came of the command under it.

use super::exchange::{Patience, Trace};
use super::rows::Freed;
use super::{Database, rows, statements};
use crate::store::{Answer, Contender, Failure, FailureKind, Parting};

impl Database {
    pub(super) fn release(
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
                let run = parting.token.zip(parting.run);
                let run = run.filter(|_| contender.history > 0);
                let settle = |request| {
                    statements::settle(
                        request,
                        contender,
                        parting.claim,
                        run.map(|(token, _)| token),
                    )
                };
                self.exchange(Patience::Limited, trace, settle, rows::answer)?;
                Ok(Answer::NotOurs)
            }
        }
    }
}
