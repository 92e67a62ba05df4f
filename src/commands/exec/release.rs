//! Releasing: giving the lease up with the record of the run, in bounded time. On the main thread.

use super::desk::Desk;
use super::hold::FinishedRun;
use crate::acquire::AcquiredLease;
use crate::cli::ExecArgs;
use crate::event::Event;
use crate::outcome::RunOutcome;
use crate::releasing::{Released, Releasing, Step};
use crate::report::log::What;
use crate::report::words;
use crate::store::Loss;
use crate::sys::{clock, signal};

impl Desk<'_> {
    /// Gives the lease of a run up whose tree is dead. A failure changes how the run ended only where a success had to be recorded, for which there
    /// is time as long as the lease lasts; otherwise the lease expires by itself.
    pub(super) fn release(
        &mut self,
        lease: &AcquiredLease,
        run: &mut FinishedRun,
        args: &ExecArgs,
    ) {
        if run.outcome == RunOutcome::LeftBehind {
            // With a process of the command alive, the lease has to stay.
            return;
        }
        let must_record = self.once.is_some() && run.outcome == RunOutcome::Exited(0);
        let min_hold = args.once.min_hold.unwrap_or_default();
        let parting = run.outcome.parting(lease, run.took, min_hold);
        let hands_off = self.once.is_none() && lease.is_awaited(run.took);
        let mut releasing = Releasing::new(parting, hands_off, clock::now());
        let shortly = clock::now() + 2 * self.timing.attempt;
        let until = match must_record {
            true => run.deadline.kill.max(shortly),
            false => shortly,
        };
        while clock::now() < until {
            let step = match self.is_asking() {
                // A renewal that is still open has its reply first.
                true => Step::Wait(None),
                false => releasing.next(clock::now()),
            };
            let wake = match step {
                Step::Ask(question) => {
                    self.ask(question);
                    None
                }
                Step::Wait(wake) => wake,
                Step::Over(released) => return self.released(run, &released, must_record),
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
        let why = releasing
            .failure()
            .map_or("no answer from the server", |it| &it.message);
        let action = &self.action;
        if must_record {
            run.reason = String::from("its success could not be recorded");
            run.outcome = RunOutcome::Unrecorded;
            let text = format_args!(
                "{action} succeeded, but that could not be recorded: {why}; it does not count as done"
            );
            self.report.error(What::NotRecorded, text);
        } else if run.outcome.is_ours() {
            let ttl = words::duration(self.timing.ttl);
            let text = format_args!("cannot release {action}: {why}; it lapses within {ttl}");
            self.report.notice(What::NotReleased, text);
        }
    }

    /// What the run came to after its release, which is reported.
    fn released(&self, run: &mut FinishedRun, released: &Released, must_record: bool) {
        let outcome = run.outcome.after(released);
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
            Released::NotOurs(loss) if run.outcome != outcome => {
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
        run.outcome = outcome;
    }
}
