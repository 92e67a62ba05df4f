//! Giving the lease up, and recording what came of the command under it.

use std::os::fd::AsFd;
use std::time::Duration;

use super::exchange::{Patience, Trace};
use super::rows::Freed;
use super::{Database, rows, statements};
use crate::lease::Grant;
use crate::store::{Answer, Contender, Failure, FailureKind, Gate, Parting};
use crate::sys::alarm::wait_for_at_most;
use crate::twin::{self, Mechanism};

/// How long the row is left to who comes next after a notice. To free it then and there would have it
/// locked, and the disk at work, just when that one wants both. It takes some 0.3 ms to come; if it takes
/// longer than this it finds the row free.
const LEFT_ALONE: Duration = Duration::from_millis(5);

/// From this on that a run has taken, somebody may have come to wait for its end, and what a notice costs
/// where nobody has does not show. Who stood in line has others behind it soon enough.
const LONG_RUN: Duration = Duration::from_millis(100);

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
        let noticed = self.give_notice(contender, parting, trace)?;
        self.free(contender, parting, noticed, trace)
    }

    /// Gives notice, so that who comes next need not wait for the row to be free. Not where the row has
    /// something to say that the next one must know before its command starts.
    fn give_notice(
        &mut self,
        contender: &Contender,
        parting: &Parting,
        trace: &mut Trace,
    ) -> Result<bool, Failure> {
        if twin::is_out(Mechanism::HandOff) {
            return Ok(false);
        }
        let claim = parting.claim;
        let (Some(token), Some(run), None, None, Gate::Used) = (
            parting.token,
            parting.run,
            parting.keep,
            &contender.once,
            parting.gate,
        ) else {
            return Ok(false);
        };
        let grant = Some(Grant { claim, token });
        if self.noticed == grant {
            return Ok(true);
        }
        // On another session than the row's nobody would believe it.
        let Some(connection) = &self.connection else {
            return Ok(false);
        };
        let readied = connection.readied == grant;
        if !readied && run.took < LONG_RUN {
            return Ok(false);
        }
        // Whatever becomes of the answer, somebody may act on it.
        self.noticed = grant;
        let notice = |request| statements::give_notice(request, contender, claim, readied);
        let (noticed, _) = self.exchange(Patience::Limited, trace, notice, rows::answer)?;
        match noticed {
            true => self.leave_alone(),
            false => self.noticed = None,
        }
        Ok(noticed)
    }

    /// Waits for who comes next to come; not if the server ends the connection.
    fn leave_alone(&self) {
        if let Some(socket) = self.interrupter.watched() {
            // An error comes of a lack of memory; then nobody waits.
            let _ = wait_for_at_most([socket.as_fd()], LEFT_ALONE);
        }
    }

    /// Frees the row; `noticed` tells that somebody else may have it by now.
    fn free(
        &mut self,
        contender: &Contender,
        parting: &Parting,
        noticed: bool,
        trace: &mut Trace,
    ) -> Result<Answer, Failure> {
        let release = |request| statements::release(request, contender, parting, noticed);
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
                let answer = self.free(&contender, parting, noticed, trace)?;
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
