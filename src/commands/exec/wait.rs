//! Waiting: from the first attempt to the grant, and what the user is told meanwhile.

use std::time::Duration;

use super::desk::{Desk, LONGEST_SLEEP};
use crate::acquire::{Acquire, AcquiredLease, Step};
use crate::event::Event;
use crate::exit::{Cause, Ending, Status};
use crate::lease::instant::BootInstant;
use crate::monitor::Word;
use crate::report::log::What;
use crate::report::words;
use crate::store::{Answer, FailureKind, Gate, Question, Reply};
use crate::sys::{clock, signal};

/// For giving back what may have been granted when we leave the line: whoever set a time limit or
/// sent a signal wants us gone within a tenth of a second.
const PARTING: Duration = Duration::from_millis(60);

/// From this age on, what was seen of a lock is told as the past.
const STALE: Duration = Duration::from_secs(2);

/// How often a waiter says whom it waits for, where it cannot rewrite its line.
const REMINDER: Duration = Duration::from_secs(10);

/// What has been said while waiting.
#[derive(Debug)]
struct Talk {
    started: BootInstant,
    said_at: Option<BootInstant>,
    gate: Gate,
}

impl Desk<'_> {
    /// Stands in line until the lease is ours.
    pub(super) fn acquire(
        &mut self,
        mut acquire: Acquire,
        conflict: u8,
    ) -> Result<AcquiredLease, Ending> {
        let mut talk = Talk {
            started: clock::now(),
            said_at: None,
            gate: Gate::Used,
        };
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
                self.say_why_we_wait(&acquire, &reply, &mut talk);
            }
            let waited = || words::duration(now.since(talk.started));
            match step {
                Step::Ask(question) => {
                    self.ask(question);
                    self.standing = acquire.is_standing();
                }
                Step::Granted(lease) => {
                    let token = lease.grant.token;
                    self.report.granted(token);
                    self.report.detail(
                        What::Granted,
                        format_args!("{} is ours after {} (token {token})", self.action, waited()),
                    );
                    return Ok(lease);
                }
                Step::Done(success) => {
                    let why = words::done(&self.action, self.once.as_ref(), &success);
                    // Nobody is in a hurry: there is time to leave nothing behind in the line.
                    self.give_up(&acquire, 2 * self.timing.attempt);
                    let cause = Cause::Done(success.holder);
                    return Err(Ending::new(Status::OK, why).because(cause));
                }
                Step::Held(seen, looked_at) => {
                    // Who stood at the gate has not looked since it came.
                    let held = match now.since(looked_at) < STALE {
                        true => words::holding(&self.action, &seen),
                        false => words::was_held(&self.action, &seen),
                    };
                    let why = format!("{held}; gave up after {}", waited());
                    self.give_up(&acquire, PARTING);
                    let cause = Cause::Held(words::whose(&seen).unwrap_or_default().to_owned());
                    return Err(Ending::new(Status::from_code(conflict), why).because(cause));
                }
                Step::Unreachable(failure) => {
                    let cause = failure.map_or_else(
                        || "the server does not answer".to_owned(),
                        |failure| failure.message,
                    );
                    let why = format!("{cause}; gave up after {}", waited());
                    self.give_up(&acquire, PARTING);
                    return Err(Ending::new(Status::UNAVAILABLE, why));
                }
                Step::Refused(failure) => {
                    self.give_up(&acquire, PARTING);
                    return Err(Ending::new(failure.kind.status(), failure));
                }
                Step::Wait(until) => match self.event(until) {
                    Some(Event::Signal(signal)) if signal::is_deadly(signal.number) => {
                        self.give_up(&acquire, PARTING);
                        return Err(Ending::new(
                            Status::from_signal(signal.number),
                            format!("signal {} while waiting for {}", signal.number, self.action),
                        )
                        .because(Cause::Interrupted));
                    }
                    Some(Event::Reply(reply)) => {
                        acquire.answered(clock::now(), &reply);
                        news = Some(reply);
                    }
                    None if acquire.is_standing() => self.say_that_we_wait(&acquire, &mut talk),
                    Some(Event::Monitor(Word::Gone)) => {
                        self.give_up(&acquire, PARTING);
                        return Err(Ending::new(Status::INTERNAL, "the monitor was killed"));
                    }
                    Some(Event::HungUp) => acquire.disconnected(),
                    Some(_) | None => {}
                },
            }
        }
    }

    /// Tells whom we wait for: at once, then now and again.
    fn say_why_we_wait(&self, acquire: &Acquire, reply: &Reply, talk: &mut Talk) {
        if acquire.gate() == Gate::Absent && talk.gate == Gate::Used {
            talk.gate = Gate::Absent;
            self.report.detail(
                What::NoGate,
                format_args!(
                    "named locks do not work on this server: waiting for {} by looking",
                    self.action
                ),
            );
        }
        let text = match (&reply.outcome, acquire.seen()) {
            // Told above, and not what anybody waits for.
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
        self.remind(&text, holder, talk);
    }

    /// Tells that we still wait, of which there is no news at the gate.
    fn say_that_we_wait(&self, acquire: &Acquire, talk: &mut Talk) {
        if let Some((seen, ahead)) = acquire.seen() {
            let waited = clock::now().since(talk.started);
            let text = words::still_waiting(&self.action, seen, ahead, waited);
            self.remind(&text, words::whose(seen), talk);
        }
    }

    fn remind(&self, text: &str, holder: Option<&str>, talk: &mut Talk) {
        let pause = match self.report.is_terminal() {
            true => LONGEST_SLEEP,
            false => REMINDER,
        };
        let now = clock::now();
        if talk.said_at.is_none_or(|said| now.since(said) >= pause) {
            talk.said_at = Some(now);
            self.report.progress(What::Waiting.by(holder), text);
        }
    }

    /// Gives up what is ours or may be without our knowing, if the server does it within `time`.
    fn give_up(&mut self, acquire: &Acquire, time: Duration) {
        let Some(parting) = acquire.parting() else {
            return;
        };
        let until = clock::now() + time;
        // A wait at the gate would go on; an attempt gets half of the time to be answered.
        let patience = if acquire.is_standing() {
            until - time
        } else {
            until - time / 2
        };
        self.ask(Question::Release(parting));
        if !self.answered_release(patience) {
            self.database.interrupt();
            self.answered_release(until);
        }
    }

    /// Whether the reply to a release came in time.
    fn answered_release(&mut self, until: BootInstant) -> bool {
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
