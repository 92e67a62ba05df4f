//! Releasing: giving the lease up with the record of the run, in bounded time.

use std::time::Duration;

use super::desk::Desk;
use crate::event::Event;
use crate::lease::instant::Deadline;
use crate::report::log::What;
use crate::report::words;
use crate::store::{Answer, Failure, Parting, Question};
use crate::sys::{clock, signal};

/// Pause before a failed release is tried again: enough for a server to come back, not so much
/// that the bounded time holds only a few tries.
const RELEASE_RETRY: Duration = Duration::from_millis(100);

/// What we know of the lease when the command is dead.
#[derive(Debug, Clone, Copy)]
pub(super) enum Lease {
    /// It was ours when last heard of, and is until then.
    Ours(Deadline),
    /// It is not ours any more; that has been told.
    Lost,
}

/// Whether what had to be recorded was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recorded {
    /// It was, or nothing had to be.
    Yes,
    /// A success that others rely on was not: it did not happen, as far as they know.
    No,
}

impl Desk<'_> {
    /// Gives the lease up. A failure is told; it changes the status only where a success had to be
    /// recorded, for which there is time as long as the lease lasts. The lease lapses by itself.
    pub(super) fn release(&mut self, parting: Parting, lease: Lease) -> Recorded {
        let is_success = parting.run.is_some_and(|run| run.fate.is_success());
        let must_record = self.once.is_some() && is_success;
        let shortly = clock::now() + 2 * self.timing.attempt;
        let until = match lease {
            Lease::Ours(deadline) if must_record => deadline.kill.max(shortly),
            Lease::Ours(_) | Lease::Lost => shortly,
        };
        let mut failure: Option<Failure> = None;
        self.ask(Question::Release(parting));
        let mut again_at = None;
        while clock::now() < until {
            let event = self.event(again_at.unwrap_or(until));
            if let Some(Event::Signal(signal)) = &event
                && signal::is_deadly(signal.number)
                && clock::now() > shortly
            {
                break;
            }
            let Some(Event::Reply(reply)) = event else {
                if again_at.take_if(|at| clock::now() >= *at).is_some() {
                    self.ask(Question::Release(parting));
                }
                continue;
            };
            match reply.outcome {
                Ok(Answer::Released) => {
                    let text = format_args!("{} is released", self.action);
                    self.report.detail(What::Released, text);
                    return Recorded::Yes;
                }
                Ok(Answer::ReleasedOnly(failure)) => {
                    self.report.notice(
                        What::NotRecorded,
                        format_args!(
                            "this run of {} is not in the history: {failure}",
                            self.action
                        ),
                    );
                    return Recorded::Yes;
                }
                Ok(Answer::NotOurs) if must_record => {
                    self.report.error(
                        What::NotRecorded,
                        format_args!(
                            "{} succeeded too late: its lease was not ours any more, so it does \
                             not count as done",
                            self.action
                        ),
                    );
                    return Recorded::No;
                }
                Ok(Answer::NotOurs) => {
                    // A release whose answer was lost looks like this when it is repeated.
                    if failure.is_none() && matches!(lease, Lease::Ours(_)) {
                        self.report.notice(
                            What::NotReleased,
                            format_args!("{} was not ours any more at its release", self.action),
                        );
                    }
                    return Recorded::Yes;
                }
                // A renewal that was still open.
                Ok(_) => {}
                Err(error) => {
                    failure = Some(error);
                    again_at = Some(clock::now() + RELEASE_RETRY);
                }
            }
        }
        let cause = failure.map_or_else(
            || "no answer from the server".to_owned(),
            |failure| failure.message,
        );
        if must_record {
            self.report.error(
                What::NotRecorded,
                format_args!(
                    "{} succeeded, but that could not be recorded: {cause}; it does not count as \
                     done",
                    self.action
                ),
            );
            return Recorded::No;
        }
        if let Lease::Ours(_) = lease {
            self.report.notice(
                What::NotReleased,
                format_args!(
                    "cannot release {}: {cause}; it lapses within {}",
                    self.action,
                    words::duration(self.timing.ttl)
                ),
            );
        }
        Recorded::Yes
    }
}
