//! The desk of the main thread: events come in, one question at a time goes out.
//!
//! It never waits for the server without a limit, and breaks a question off that takes too long.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use crate::clock_step::{self, ClockStep};
use crate::database::DatabaseThread;
use crate::event::Event;
use crate::lease::action::Action;
use crate::lease::instant::BootInstant;
use crate::lease::timing::Timing;
use crate::monitor::Monitor;
use crate::report::{Report, words};
use crate::store::mysql::Database;
use crate::store::{Contender, Question, Reply};
use crate::sys::clock;

/// Longest sleep of the loop: its timer stops while the machine sleeps, leases do not, so a
/// deadline that passed meanwhile is noticed within this time after waking up.
pub(super) const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// Where everything comes in and goes out: events from outside, one open question to the server.
pub(super) struct Desk<'a> {
    pub(super) report: &'a Report,
    pub(super) action: Action,
    pub(super) timing: Timing,
    events: Receiver<Event>,
    pub(super) database: DatabaseThread,
    pub(super) monitor: Monitor,
    /// Questions asked and not answered; the database thread takes them one by one.
    open: u32,
    /// Since when the first of them has been open.
    open_since: BootInstant,
    /// Whether the open question takes as long as the line does.
    pub(super) standing: bool,
    clock: ClockStep,
}

impl Desk<'_> {
    /// Starts the database thread.
    pub(super) fn open(
        report: &Report,
        timing: Timing,
        contender: Contender,
        database: Database,
        monitor: Monitor,
        (sender, events): (Sender<Event>, Receiver<Event>),
    ) -> io::Result<Desk<'_>> {
        Ok(Desk {
            report,
            action: contender.action.clone(),
            timing,
            events,
            database: DatabaseThread::start(database, contender, sender)?,
            monitor,
            open: 0,
            open_since: clock::now(),
            standing: false,
            clock: ClockStep::default(),
        })
    }

    /// Asks; the reply comes as an event.
    pub(super) fn ask(&mut self, question: Question) {
        if self.open == 0 {
            self.open_since = clock::now();
        }
        self.open += 1;
        self.database.ask(question);
    }

    /// The next event, none at `until`. An open question that has used up its limits is broken off
    /// here: the driver's own limits count per system call and need never strike.
    pub(super) fn event(&mut self, until: BootInstant) -> Option<Event> {
        loop {
            let now = clock::now();
            let patience = 3 * self.timing.attempt;
            let limited = self.open > 0 && !self.standing;
            let overdue = limited.then(|| self.open_since + patience);
            if overdue.is_some_and(|overdue| now >= overdue) {
                self.database.interrupt();
                self.open_since = now;
                continue;
            }
            let wake = overdue.map_or(until, |overdue| overdue.min(until));
            let sleep = wake.since(now).min(LONGEST_SLEEP);
            match self.events.recv_timeout(sleep) {
                Ok(Event::Reply(reply)) => {
                    self.open = self.open.saturating_sub(1);
                    self.open_since = clock::now();
                    self.standing = false;
                    self.notice_clock_step(&reply);
                    return Some(Event::Reply(reply));
                }
                Ok(event) => return Some(event),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    if clock::now() >= until || sleep == LONGEST_SLEEP {
                        return None;
                    }
                }
            }
        }
    }

    fn notice_clock_step(&mut self, reply: &Reply) {
        let (way, by) = match self.clock.observe(reply) {
            Some(clock_step::Step::Forward(by)) => ("forward", by),
            Some(clock_step::Step::Back(by)) => ("back", by),
            None => return,
        };
        self.report.notice(format_args!(
            "the server's clock was set {way} by {}; ages in dlock status are off by that",
            words::duration(by)
        ));
    }

    /// Ends the database thread, unless it is stuck: then the end of the process ends it.
    pub(super) fn leave(self) {
        if self.open == 0 {
            self.database.stop();
        }
    }
}
