//! `dlock wait`: until nobody holds the action, or until it has succeeded.
//!
//! It looks again and again and changes nothing, so it needs no right but to read. It stays out of
//! the line: at the gate it would be one that everybody behind has to wait for.

use std::time::Duration;

use anyhow::Context;

use super::exec::desk::Desk;
use crate::cli::Wait;
use crate::cli::wait::WaitArgs;
use crate::event::Event;
use crate::event::queue::Queue;
use crate::exit::{Ending, Status};
use crate::lease::action::Action;
use crate::lease::instant::BootInstant;
use crate::lease::once::{Key, Once};
use crate::lease::timing::Timing;
use crate::report::log::What;
use crate::report::{Report, words};
use crate::store::takeover::{HolderSession, allowed_in};
use crate::store::target::Target;
use crate::store::{
    Answer, Contender, Failure, FailureKind, Fence, Holder, Question, Sighting, State,
};
use crate::sys::clock;
use crate::sys::signal::{self, Inbox};

/// First and longest pause between two looks: soon enough for a short job, and then one cheap
/// question a second from everybody who waits.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The lease that limits of time are taken from; we have none.
const TTL: Duration = Duration::from_secs(30);

/// What is known of the thing waited for.
struct Watch<'a> {
    report: &'a Report,
    action: Action,
    /// The success that is waited for; none: the action is to be free.
    done: Option<Key>,
    seen: Option<Sighting>,
    failure: Option<Failure>,
    /// The last good answer, or the start.
    heard: BootInstant,
}

/// Waits.
///
/// # Errors
/// When time runs out, a signal comes, or the server does not answer or refuses.
pub fn run(args: WaitArgs, target: Target, report: &Report) -> anyhow::Result<Status> {
    let action = args.action.or(args.named).context("no action")?;
    report.about(&action);
    let done = args.done.map(Option::unwrap_or_default);
    let timing = Timing::new(TTL, None).map_err(|why| Ending::new(Status::INTERNAL, why))?;
    let contender = Contender {
        action: action.clone(),
        holder: Holder::default(),
        ttl: timing.ttl,
        once: done.clone().map(Once::Ever),
        history: 0,
        fence: Fence::AsItIs,
    };
    let inbox = Inbox::open(true).context("cannot take signals")?;
    report.write_behind();
    let (events, teller) = Queue::new(inbox, None).context("cannot wait for events")?;
    let mut desk = Desk::open(report, timing, contender, target, events, teller)
        .context("cannot start a thread")?;
    let started = clock::now();
    let limit = match args.timeout {
        Wait::Forever => None,
        Wait::AtMost(timeout) => Some(started + timeout),
    };
    let mut watch = Watch {
        report,
        action,
        done,
        seen: None,
        failure: None,
        heard: started,
    };
    let outcome = watch.until_over(&mut desk, started, limit, args.db_wait);
    report.finish();
    desk.leave();
    Ok(outcome?)
}

impl Watch<'_> {
    /// Looks until it is over, with a pause between two looks.
    fn until_over(
        &mut self,
        desk: &mut Desk,
        started: BootInstant,
        limit: Option<BootInstant>,
        reach: Duration,
    ) -> Result<Status, Ending> {
        let mut pause = FIRST_PAUSE;
        loop {
            if self.look(desk)? {
                return Ok(Status::OK);
            }
            let now = clock::now();
            let waited = words::duration(now.since(started));
            if let Some(failure) = &self.failure
                && now.since(self.heard) >= reach
            {
                let why = format!("{failure}; gave up after {waited}");
                return Err(Ending::new(failure.kind.status(), why));
            }
            if limit.is_some_and(|limit| now >= limit) {
                let status = match (&self.failure, &self.seen) {
                    (Some(failure), None) => failure.kind.status(),
                    _ => Status::HELD,
                };
                let why = format!("{}; gave up after {waited}", self.state());
                return Err(Ending::new(status, why));
            }
            let holder = self.seen.as_ref().and_then(words::whose);
            let text = format_args!("waiting: {}", self.state());
            self.report.remind(What::Waiting.by(holder), text);
            let next_at = now + pause;
            pause = (pause * 3 / 2).min(LONGEST_PAUSE);
            self.rest(desk, limit.map_or(next_at, |limit| next_at.min(limit)))?;
        }
    }

    /// Looks once; whether what we wait for is there.
    fn look(&mut self, desk: &mut Desk) -> Result<bool, Ending> {
        desk.ask(Question::Look);
        let reply = loop {
            match desk.event(clock::now() + LONGEST_PAUSE) {
                Some(Event::Reply(reply)) => break reply,
                Some(Event::Signal(signal)) => self.heed(signal.number)?,
                // The desk breaks a question off that takes too long: the reply comes.
                Some(_) | None => {}
            }
        };
        let now = clock::now();
        match reply.outcome {
            Ok(Answer::Done(_)) => return Ok(true),
            Ok(Answer::Looked(seen)) => {
                (self.heard, self.failure) = (now, None);
                let over = self.done.is_none() && is_free(&seen);
                self.seen = Some(seen);
                return Ok(over);
            }
            // Nobody has run anything yet, and the first who does makes them.
            Err(failure) if failure.kind == FailureKind::NoTables && self.done.is_some() => {
                self.heard = now;
                self.failure = None;
            }
            Err(failure) => match failure.kind {
                // It let us in before: it is starting, or its grants are being changed.
                FailureKind::NotAdmitted if self.seen.is_some() => self.failure = Some(failure),
                FailureKind::NotAdmitted
                | FailureKind::Denied
                | FailureKind::Config
                | FailureKind::NoTables => {
                    return Err(Ending::new(failure.kind.status(), failure));
                }
                _ => self.failure = Some(failure),
            },
            Ok(other) => self.failure = Some(Failure::unexpected(&other)),
        }
        Ok(false)
    }

    /// Does nothing until `until`.
    fn rest(&self, desk: &mut Desk, until: BootInstant) -> Result<(), Ending> {
        while clock::now() < until {
            if let Some(Event::Signal(signal)) = desk.event(until) {
                self.heed(signal.number)?;
            }
        }
        Ok(())
    }

    /// A signal that would end us does.
    fn heed(&self, number: i32) -> Result<(), Ending> {
        match signal::is_deadly(number) {
            true => Err(Ending::interrupted(number, &self.action)),
            false => Ok(()),
        }
    }

    /// How things stand.
    fn state(&self) -> String {
        if let Some(failure) = &self.failure {
            return failure.to_string();
        }
        let held = self
            .seen
            .as_ref()
            .filter(|seen| seen.state() != State::Free)
            .map(|seen| words::holding(&self.action, seen));
        match (&self.done, held) {
            (None, held) => held.unwrap_or_else(|| format!("{} is held", self.action)),
            (Some(key), None) => format!("{} is not done", words::with_key(&self.action, key)),
            (Some(key), Some(held)) => {
                format!("{} is not done; {held}", words::with_key(&self.action, key))
            }
        }
    }
}

/// Whether nobody has it: a lease that lapsed is left alone for a moment, since the next in line
/// may be about to take it over.
fn is_free(seen: &Sighting) -> bool {
    match seen.state() {
        _ if seen.closed.is_some() => false,
        State::Free => true,
        _ => allowed_in(seen, HolderSession::Unknown).is_zero(),
    }
}
