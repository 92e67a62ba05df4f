//! Giving the lease up, and recording what came of the command under it.

use super::exchange::{Patience, Trace};
use super::rows::Freed;
use super::{Database, rows, statements};
use crate::store::{Answer, Contender, Failure, FailureKind, Parting};

impl Database {
    /// Does what is left to do after a grant to who stood in line, and nobody waits for: gives up its
    /// place, which does not count as long as the lease goes on.
    ///
    /// # Errors
    /// Any failure; the connection is gone then. The place goes with the release.
    pub fn finish(&mut self, contender: &Contender) -> Result<(), Failure> {
        let Some(grant) = self.unfinished.take() else {
            return Ok(());
        };
        let prepares = self.prepares;
        let finish = |request| statements::finish(request, contender, grant, prepares);
        self.exchange(Patience::Limited, &mut Trace::new(), finish, rows::answer)
            .inspect_err(|_| self.left_behind = Some(grant.claim))?;
        if let Some(connection) = self.connection.as_mut().filter(|_| prepares) {
            connection.readied = Some(grant);
        }
        Ok(())
    }

    pub(super) fn release(
        &mut self,
        contender: &Contender,
        parting: &Parting,
        trace: &mut Trace,
    ) -> Result<Answer, Failure> {
        let parting = &Parting {
            queued: parting.queued || self.left_behind == Some(parting.claim),
            ..*parting
        };
        let readied = self
            .connection
            .as_ref()
            .and_then(|connection| connection.readied)
            .is_some_and(|grant| {
                (grant.claim, Some(grant.token)) == (parting.claim, parting.token)
            });
        let release = |request| statements::release(request, contender, parting, readied);
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
