//! Holding: from the grant to the release, with the command in between.

use super::desk::{Desk, LONGEST_SLEEP};
use super::release::{Lease, Recorded};
use crate::acquire::Hold;
use crate::event::Event;
use crate::exit::Status;
use crate::lease::instant::BootInstant;
use crate::renew::{Renewals, Verdict};
use crate::report::words;
use crate::store::{Failure, Fate, Run};
use crate::supervise::{Act, Blame, Input, Supervisor};
use crate::sys::process::{Child, End};
use crate::sys::{clock, signal};

/// Failing renewals: since when, and the last reason.
#[derive(Debug, Default)]
struct Trouble {
    since: Option<BootInstant>,
    last: Option<Failure>,
}

impl Desk<'_> {
    /// Keeps the lease while the command runs, stops the command if that fails, and releases once
    /// it is dead.
    pub(super) fn hold(&mut self, child: &Child, hold: &Hold, shares_terminal: bool) -> Status {
        let started = clock::now();
        let mut renewals = Renewals::new(hold.grant, hold.gate, self.timing, hold.sent);
        let mut supervisor =
            Supervisor::new(renewals.deadline(), self.timing.grace, shares_terminal);
        let mut trouble = Trouble::default();
        let end = loop {
            let now = clock::now();
            if let Some(question) = renewals.due(now) {
                self.ask(question);
            }
            self.step(child, &mut supervisor, Input::Tick, &trouble);
            let wake = [renewals.wake_at(), supervisor.wake_at()];
            let until = wake.into_iter().flatten().min();
            let input = match self.event(until.unwrap_or(now + LONGEST_SLEEP)) {
                Some(Event::Signal(signal)) if signal.number != signal::CHILD => {
                    Some(Input::Signal(signal))
                }
                Some(Event::Reply(reply)) => {
                    let verdict = renewals.answered(clock::now(), *reply);
                    self.judge(verdict, &mut trouble)
                }
                Some(Event::Signal(_)) | None => None,
            };
            if let Some(input) = input {
                self.step(child, &mut supervisor, input, &trouble);
            }
            if let Some(end) = child.ended() {
                break end;
            }
        };
        self.report.detail(match end {
            End::Exited(code) => format!("the command exited with {code}"),
            End::Killed(signal) => format!("the command was killed by signal {signal}"),
        });
        let fate = match (supervisor.blame(), end) {
            (Blame::Lost | Blame::Expired, _) => Fate::Lost,
            (Blame::Nobody, End::Exited(status)) => Fate::Exited(status),
            (Blame::Nobody, End::Killed(signal)) => Fate::Killed(u8::try_from(signal).unwrap_or(0)),
        };
        let lease = match supervisor.blame() {
            Blame::Lost => Lease::Lost,
            Blame::Expired | Blame::Nobody => Lease::Ours(renewals.deadline()),
        };
        let took = clock::now().since(started);
        let keep = match fate {
            Fate::Lost => None,
            _ => self
                .min_hold
                .checked_sub(took)
                .filter(|keep| !keep.is_zero()),
        };
        match self.release(hold.parting(Some(Run { fate, took }), keep), lease) {
            Recorded::Yes => supervisor.status(end),
            Recorded::No => Status::LOST,
        }
    }

    /// What a renewal's verdict means for the command; failures are told when they begin and end.
    fn judge(&self, verdict: Verdict, trouble: &mut Trouble) -> Option<Input> {
        match verdict {
            Verdict::Renewed(deadline) => {
                if let Some(since) = trouble.since.take() {
                    let ago = words::duration(clock::now().since(since));
                    self.report
                        .notice(format_args!("{} is renewed again after {ago}", self.action));
                }
                trouble.last = None;
                Some(Input::Renewed(deadline))
            }
            Verdict::Failed(failure) => {
                let text = format!("cannot renew {}: {failure}; trying again", self.action);
                if trouble.since.is_none() {
                    trouble.since = Some(clock::now());
                    self.report.notice(text);
                } else {
                    self.report.detail(text);
                }
                trouble.last = Some(failure);
                None
            }
            Verdict::Lost(seen) => {
                self.report.error(format_args!(
                    "lost {}: {}; stopping the command",
                    self.action,
                    if seen.claim.is_some() {
                        words::holding(&self.action, &seen)
                    } else {
                        "its row was freed by somebody else".to_owned()
                    }
                ));
                Some(Input::Lost)
            }
        }
    }

    /// Lets the supervisor decide and sends what it says.
    fn step(&self, child: &Child, supervisor: &mut Supervisor, input: Input, trouble: &Trouble) {
        let before = supervisor.blame();
        let acts = supervisor.step(clock::now(), input);
        if before == Blame::Nobody && supervisor.blame() == Blame::Expired {
            let cause = trouble.last.as_ref().map_or_else(
                || "no answer from the server".to_owned(),
                ToString::to_string,
            );
            self.report.error(format_args!(
                "cannot keep {}: {cause}; stopping the command",
                self.action
            ));
        }
        for act in acts {
            match act {
                Act::Forward(signal) => {
                    self.report
                        .detail(format_args!("forwarding signal {signal}"));
                    child.forward(signal);
                }
                Act::Stop(signal) => {
                    self.report
                        .detail(format_args!("sending signal {signal} to the command"));
                    child.stop(signal);
                }
            }
        }
    }
}
