//! Waiting: from the first attempt to the grant, and what the user is told meanwhile. On the main thread.

use std::mem::replace;
use std::time::Duration;

use super::desk::Desk;
use super::done;
use crate::acquire::{Acquire, AcquiredLease, Step};
use crate::cli::ExecArgs;
use crate::event::Event;
use crate::exit::{Cause, Ending, Status};
use crate::lease::instant::BootInstant;
use crate::monitor::Word;
use crate::report::log::What;
use crate::report::words;
use crate::store::{Answer, FailureKind, Gate, Question, Reply};
use crate::sys::{clock, signal};

/// Maximum time to give back what may have been granted, when we leave the queue: a user who set a time
/// limit or sent a signal expects the end within a tenth of a second.
const PARTING: Duration = Duration::from_millis(60);

/// From this age on, what was seen of a lock is told as the past.
const STALE: Duration = Duration::from_secs(2);

impl Desk<'_> {
    /// Stands in line until the lease is ours; leaves nothing behind in it otherwise.
    pub(super) fn acquire(
        &mut self,
        mut acquire: Acquire,
        args: &ExecArgs,
    ) -> Result<AcquiredLease, Ending> {
        let outcome = self.wait_for_grant(&mut acquire, args);
        if let Err(ending) = &outcome {
            let time = match ending.cause {
                // Nobody is in a hurry.
                Cause::Done(_) => 2 * self.timing.attempt,
                _ => PARTING,
            };
            self.leave_line(&acquire, time);
        }
        outcome
    }

    fn wait_for_grant(
        &mut self,
        acquire: &mut Acquire,
        args: &ExecArgs,
    ) -> Result<AcquiredLease, Ending> {
        let started = clock::now();
        let mut gate = Gate::Used;
        let mut news: Option<Box<Reply>> = None;
        loop {
            let now = clock::now();
            let step = acquire.next(now);
            // Only once it is clear that we go on waiting: a contender that gives up says why in one line,
            // and one that takes the lease over at once has nothing to say.
            let is_taken =
                matches!(&step, Step::Ask(Question::Attempt(wish)) if wish.is_take_over());
            if let (Step::Ask(_) | Step::Wait(_), Some(reply), false) =
                (&step, news.take(), is_taken)
            {
                if replace(&mut gate, acquire.gate()) != acquire.gate() {
                    let action = &self.action;
                    let text = format_args!(
                        "named locks do not work on this server: waiting for {action} by looking"
                    );
                    self.report.detail(What::NoGate, text);
                }
                self.say_why_we_wait(acquire, &reply);
            }
            let waited = || words::duration(now.since(started));
            match step {
                Step::Ask(question) => self.ask(question),
                Step::Granted(lease) => {
                    let token = lease.grant.token;
                    self.report.granted(token);
                    let (action, waited) = (&self.action, waited());
                    let text = format_args!("{action} is ours after {waited} (token {token})");
                    self.report.detail(What::Granted, text);
                    return Ok(lease);
                }
                Step::Done(success) => {
                    return Err(done(&self.action, self.once.as_ref(), success));
                }
                Step::Held(seen, looked_at) => {
                    // A waiter at the gate has not looked at the row since it arrived.
                    let held = match now.since(looked_at) < STALE {
                        true => words::holding(&self.action, &seen),
                        false => words::was_held(&self.action, &seen),
                    };
                    let why = format!("{held}; gave up after {}", waited());
                    let cause = Cause::Held(words::whose(&seen).unwrap_or_default().to_owned());
                    let status = Status::from_code(args.conflict_exit_code);
                    return Err(Ending::new(status, why).because(cause));
                }
                Step::Unreachable(failure) => {
                    let cause = failure.map(|failure| failure.message);
                    let cause = cause.as_deref().unwrap_or("the server does not answer");
                    let why = format!("{cause}; gave up after {}", waited());
                    return Err(Ending::new(Status::UNAVAILABLE, why));
                }
                Step::Refused(failure) => return Err(Ending::new(failure.kind.status(), failure)),
                Step::Wait(until) => match self.event(until) {
                    Some(Event::Signal(signal)) if signal::is_deadly(signal.number) => {
                        return Err(Ending::interrupted(signal.number, &self.action));
                    }
                    Some(Event::Reply(reply)) => {
                        acquire.answered(clock::now(), &reply);
                        news = Some(reply);
                    }
                    Some(Event::Monitor(Word::Gone)) => {
                        return Err(Ending::new(Status::INTERNAL, "the monitor was killed"));
                    }
                    Some(Event::HungUp) => acquire.disconnected(),
                    // There is no news at the gate.
                    None if self.standing => {
                        if let Some((seen, ahead)) = acquire.seen() {
                            let waited = clock::now().since(started);
                            let text = words::still_waiting(&self.action, seen, ahead, waited);
                            self.report
                                .remind(What::Waiting.by(words::whose(seen)), text);
                        }
                    }
                    Some(_) | None => {}
                },
            }
        }
    }

    /// Tells whom we wait for.
    fn say_why_we_wait(&self, acquire: &Acquire, reply: &Reply) {
        let text = match (&reply.outcome, acquire.seen()) {
            // Told before, and not what anybody waits for.
            (Err(failure), _) if failure.kind == FailureKind::NoGate => return,
            (Err(failure), _) => {
                format!("waiting for {}: {failure}; trying again", self.action)
            }
            (Ok(Answer::Seen(..) | Answer::Queued(..)), Some((seen, ahead)))
                if seen.claim.is_some() || seen.fenced || seen.closed.is_some() =>
            {
                words::waiting(&self.action, seen, ahead)
            }
            _ => return,
        };
        let holder = acquire.seen().and_then(|(seen, _)| words::whose(seen));
        self.report.remind(What::Waiting.by(holder), text);
    }

    /// Gives up what is ours or may be without our knowing, if the server does it within `time`.
    fn leave_line(&mut self, acquire: &Acquire, time: Duration) {
        let Some(parting) = acquire.parting() else {
            return;
        };
        let now = clock::now();
        // A wait at the gate would go on; an attempt gets half of the time to be answered.
        let patience = match self.standing {
            true => now,
            false => now + time / 2,
        };
        // At once, though another may be open: the database thread needs nobody in between.
        self.ask(Question::Release(parting));
        if !self.is_released_by(patience) {
            self.database.interrupt();
            self.is_released_by(now + time);
        }
    }

    fn is_released_by(&mut self, until: BootInstant) -> bool {
        while clock::now() < until {
            if let Some(Event::Reply(reply)) = self.event(until)
                && matches!(reply.outcome, Ok(Answer::Released | Answer::NotOurs(_)))
            {
                return true;
            }
        }
        false
    }
}
