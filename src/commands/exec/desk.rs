//! The desk of the main thread: events come in, one question at a time goes out.
//!
//! It never waits for the server without a limit, and breaks a question off that takes too long.

use std::io;
use std::time::Duration;

use super::news::News;
use crate::clock_step::ClockStep;
use crate::database::DatabaseThread;
use crate::event::Event;
use crate::event::queue::{Queue, Teller};
use crate::lease::action::Action;
use crate::lease::instant::BootInstant;
use crate::lease::once::Once;
use crate::lease::timing::Timing;
use crate::report::Report;
use crate::report::log::What;
use crate::store::mysql::Database;
use crate::store::target::Target;
use crate::store::{Contender, Question};
use crate::sys::clock;

/// Longest sleep of the loop: its timer stops while the machine sleeps, leases do not, so a
/// deadline that passed meanwhile is noticed within this time after waking up.
pub(in crate::commands) const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// Where everything comes in and goes out: events from outside, one open question to the server.
pub(in crate::commands) struct Desk<'a> {
    pub(in crate::commands) report: &'a Report,
    pub(in crate::commands) action: Action,
    /// Which success makes a run needless, and so must be recorded.
    pub(in crate::commands) once: Option<Once>,
    pub(in crate::commands) timing: Timing,
    events: Queue,
    pub(in crate::commands) database: DatabaseThread,
    /// Questions asked and not answered; the database thread takes them one by one.
    open: u32,
    /// Since when the first of them has been open, if any is.
    open_since: BootInstant,
    /// Whether we wait at the gate: the open question takes as long as the line does.
    pub(super) standing: bool,
    clock: ClockStep,
    /// Who else is told what becomes of the run.
    pub(in crate::commands) news: News,
}

impl Desk<'_> {
    /// Starts the database thread.
    pub(in crate::commands) fn open(
        report: &Report,
        timing: Timing,
        contender: Contender,
        target: Target,
        events: Queue,
        teller: Teller,
    ) -> io::Result<Desk<'_>> {
        let database = Database::new(target, timing.attempt, timing.ttl);
        Ok(Desk {
            report,
            news: News::to_nobody(&contender),
            action: contender.action.clone(),
            once: contender.once.clone(),
            timing,
            events,
            database: DatabaseThread::start(database, contender, teller)?,
            open: 0,
            open_since: clock::now(),
            standing: false,
            clock: ClockStep::default(),
        })
    }

    /// Asks; the reply comes as an event.
    pub(in crate::commands) fn ask(&mut self, question: Question) {
        if self.open == 0 {
            self.open_since = clock::now();
        }
        self.open += 1;
        self.standing |= matches!(question, Question::Stand(_));
        self.database.ask(question);
    }

    /// Whether a question waits for its reply.
    pub(super) const fn is_asking(&self) -> bool {
        self.open > 0
    }

    /// The next event, none at `until`. An open question that has used up its limits is broken off
    /// here: the driver's own limits count per system call and need never strike.
    pub(in crate::commands) fn event(&mut self, until: BootInstant) -> Option<Event> {
        loop {
            let now = clock::now();
            let is_limited = self.is_asking() && !self.standing;
            let overdue = is_limited.then(|| self.open_since + 3 * self.timing.attempt);
            if overdue.is_some_and(|overdue| now >= overdue) {
                self.database.interrupt();
                self.open_since = now;
                continue;
            }
            let wake = overdue.map_or(until, |overdue| overdue.min(until));
            let sleep = wake.since(now).min(LONGEST_SLEEP);
            match self.events.next(sleep) {
                Some(Event::Reply(reply)) => {
                    self.open = self.open.saturating_sub(1);
                    (self.open_since, self.standing) = (clock::now(), false);
                    if let Some(step) = self.clock.observe(&reply) {
                        let text = format_args!(
                            "the server's clock was set {step}; ages in dlock status are off by that"
                        );
                        self.report.notice(What::ClockStep, text);
                    }
                    return Some(Event::Reply(reply));
                }
                Some(event) => {
                    self.news.heard(self.report, &event);
                    return Some(event);
                }
                None if clock::now() >= until || sleep == LONGEST_SLEEP => return None,
                None => {}
            }
        }
    }

    /// Ends the database thread, unless it is stuck: then the end of the process ends it.
    pub(in crate::commands) fn leave(self) {
        if !self.is_asking() {
            self.database.stop();
        }
    }
}
