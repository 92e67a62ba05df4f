//! Releasing: giving the lease up with the record of the run, in bounded time.

use super::desk::Desk;
use super::hold::FinishedRun;
use crate::acquire::AcquiredLease;
use crate::event::Event;
use crate::outcome::RunOutcome;
use crate::releasing::{Released, Releasing, Step};
use crate::report::log::What;
use crate::report::words;
use crate::store::{Loss, Parting, Run};
use crate::sys::{clock, signal};

impl Desk<'_> {
    /// Gives the lease of a run up whose tree is dead. A failure changes how the run ended only where a
    /// success had to be recorded, for which there is time as long as the lease lasts; otherwise the
    /// lease expires by itself.
    pub(super) fn release(&mut self, lease: &AcquiredLease, mut run: FinishedRun) -> FinishedRun {
        if run.outcome == RunOutcome::LeftBehind {
            // With a process of the command alive, the lease has to stay.
            return run;
        }
        let must_record = self.once.is_some() && run.outcome == RunOutcome::Exited(0);
        let parting = self.parting(lease, &run);
        let hands_off = self.once.is_none() && lease.is_awaited(run.took);
        let mut releasing = Releasing::new(parting, hands_off, clock::now());
        let shortly = clock::now() + 2 * self.timing.attempt;
        let until = match run.outcome.is_ours() && must_record {
            true => run.deadline.kill.max(shortly),
            false => shortly,
        };
        while clock::now() < until {
            // A renewal that is still open has its reply first.
            let wake = match self.is_asking() {
                true => None,
                false => match releasing.next(clock::now()) {
                    Step::Ask(question) => {
                        self.ask(question);
                        None
                    }
                    Step::Wait(wake) => wake,
                    Step::Over(released) => return self.released(run, &released, must_record),
                },
            };
            let was_asked = releasing.is_asked();
            match self.event(wake.map_or(until, |wake| wake.min(until))) {
                Some(Event::Reply(reply)) if was_asked => releasing.answered(clock::now(), &reply),
                Some(Event::HungUp) => releasing.disconnected(clock::now()),
                Some(Event::Signal(signal))
                    if signal::is_deadly(signal.number) && clock::now() > shortly =>
                {
                    break;
                }
                _ => {}
            }
        }
        let cause = releasing.failure().map_or_else(
            || "no answer from the server".to_owned(),
            |failure| failure.message.clone(),
        );
        if must_record {
            run.reason = String::from("its success could not be recorded");
            run.outcome = RunOutcome::Unrecorded;
            let text = format_args!(
                "{} succeeded, but that could not be recorded: {cause}; it does not count as done",
                self.action
            );
            self.report.error(What::NotRecorded, text);
        } else if run.outcome.is_ours() {
            let text = format_args!(
                "cannot release {}: {cause}; it lapses within {}",
                self.action,
                words::duration(self.timing.ttl)
            );
            self.report.notice(What::NotReleased, text);
        }
        run
    }

    /// What is to be given up after `run`.
    fn parting(&self, lease: &AcquiredLease, run: &FinishedRun) -> Parting {
        let keep = self.min_hold.checked_sub(run.took);
        let keep = keep.filter(|keep| !keep.is_zero() && run.outcome.is_ours());
        let took = run.took;
        let parting = lease.parting(run.outcome.fate().map(|fate| Run { fate, took }), keep);
        match run.outcome {
            // The token is another by now, and the row is still ours to free.
            RunOutcome::Revoked => Parting {
                token: None,
                ..parting
            },
            _ => parting,
        }
    }

    /// What the run came to after its release, which is reported.
    fn released(
        &self,
        mut run: FinishedRun,
        released: &Released,
        must_record: bool,
    ) -> FinishedRun {
        let before = run.outcome;
        run.outcome = before.after(released);
        let action = &self.action;
        match released {
            Released::Recorded => {
                let text = format_args!("{action} is released");
                self.report.detail(What::Released, text);
            }
            Released::Unrecorded(failure) => {
                let text = format_args!("this run of {action} is not in the history: {failure}");
                self.report.notice(What::NotRecorded, text);
            }
            Released::NotOurs(loss) if before != run.outcome => {
                let how = match loss {
                    Loss::Revoked => "released by an operator",
                    Loss::TakenOver => "not ours any more",
                };
                run.reason = format!("{action} was {how} before the command had ended");
                let (what, so) = match must_record {
                    true => (What::NotRecorded, ", so its success does not count as done"),
                    false => (What::NotReleased, ""),
                };
                self.report.error(what, format_args!("{}{so}", run.reason));
            }
            // That has been reported.
            Released::NotOurs(_) => {}
        }
        run
    }
}
