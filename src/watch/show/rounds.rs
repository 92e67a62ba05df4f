//! One question to the server an interval, and everything that happens meanwhile in one stream.
//!
//! The server is asked on a thread of its own, over one connection that is kept as long as nothing
//! goes wrong. No question is asked before the last is answered, so a slow server has less to do.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::Wishes;
use crate::database::THREAD_NAME;
use crate::lease::action::Action;
use crate::lease::instant::BootInstant;
use crate::store::mysql::{Database, Selection};
use crate::store::target::Target;
use crate::store::{Entry, Failure, FailureKind};
use crate::sys::clock;
use crate::sys::signal::Inbox;
use crate::sys::socket::Interrupter;
use crate::watch::asked::Asked;
use crate::watch::heard::Heard;
use crate::watch::key::Key;

/// Bound on one connect, one read, one write, as of a status that is shown once.
const LIMIT: Duration = Duration::from_secs(5);

/// When a question counts as not answered, name resolution included.
const PATIENCE: Duration = Duration::from_secs(15);

/// Longest sleep: ages on the screen are in seconds.
const TICK: Duration = Duration::from_secs(1);

/// At the end, how long to wait for the answer to an open question: the connection is then closed
/// properly.
const PARTING: Duration = Duration::from_millis(200);

/// The server ends our session when it has not heard of us for two intervals, and at least this long:
/// somebody may stop us for a moment.
const IDLE: Duration = Duration::from_mins(1);

/// How many runs are shown of an action that is open.
const RUNS: u32 = 50;

/// One thing that happened.
#[derive(Debug)]
pub enum Event {
    /// A key was pressed.
    Key(Key),
    /// A signal reached us.
    Signal(i32),
    /// The server answered, or did not.
    Survey(Result<Box<Heard>, Failure>),
    /// The last runs of an action, newest first, or why they are not known.
    History(Action, Result<Vec<Entry>, Failure>),
    /// Nothing, but time has gone by.
    Tick,
}

#[derive(Debug)]
enum Question {
    Survey,
    History(Action),
}

/// The questions and what comes of them.
#[derive(Debug)]
pub struct Rounds {
    server: String,
    interval: Duration,
    sender: Sender<Event>,
    events: Receiver<Event>,
    questions: Sender<Question>,
    interrupter: Interrupter,
    database: JoinHandle<()>,
    /// When the next question is due.
    due: BootInstant,
    /// Since when one is open.
    open: Option<BootInstant>,
    /// Whether the last one failed, and was asked again at once.
    is_repeated: bool,
    /// Of which action the last runs are wanted.
    wanted: Option<Action>,
    /// Whether these could not be told; they are asked for again when the server answers.
    is_refused: bool,
}

impl Rounds {
    /// Starts the threads that wait for the server and for signals; the first question is due.
    ///
    /// # Errors
    /// When the kernel gives no thread.
    pub fn start(wishes: Wishes, target: Target, inbox: Inbox) -> io::Result<Self> {
        let interval = wishes.interval;
        let server = target.address.to_string();
        let (sender, events) = mpsc::channel();
        listen(inbox, sender.clone())?;
        let database = Database::new(target, LIMIT, (interval * 2).max(IDLE));
        let interrupter = database.interrupter();
        let (questions, database) = answer(wishes.asked, database, sender.clone())?;
        Ok(Self {
            server,
            interval,
            sender,
            events,
            questions,
            interrupter,
            database,
            due: clock::now(),
            open: None,
            is_repeated: false,
            wanted: None,
            is_refused: false,
        })
    }

    /// Where others tell what has happened.
    #[must_use]
    pub fn sender(&self) -> Sender<Event> {
        self.sender.clone()
    }

    /// Asks for the last runs of `action` as soon as no other question is open.
    pub fn want_history(&mut self, action: Option<&Action>) {
        if self.wanted.as_ref() != action {
            self.wanted = action.cloned();
            self.is_refused = false;
        }
    }

    /// Waits for the next thing to happen, and asks meanwhile what is due.
    pub fn wait(&mut self) -> Event {
        loop {
            let now = clock::now();
            let wake = match self.open {
                None => {
                    self.ask(now);
                    self.open.map_or(self.due, |_| now + TICK)
                }
                Some(since) if now >= since + PATIENCE => {
                    // The reply comes all the same, unless a name is being resolved for ever.
                    self.interrupter.interrupt();
                    self.open = Some(now);
                    return Event::Survey(Err(self.silence()));
                }
                Some(since) => since + PATIENCE,
            };
            let sleep = wake.since(now).min(TICK);
            match self.events.recv_timeout(sleep) {
                Ok(event) => {
                    if let Some(event) = self.note(event) {
                        return event;
                    }
                }
                Err(_) if sleep == TICK => return Event::Tick,
                Err(_) => {}
            }
        }
    }

    /// Asks what is due, if anything is.
    fn ask(&mut self, now: BootInstant) {
        let history = self.wanted.clone().filter(|_| !self.is_refused);
        let question = match history {
            _ if now >= self.due => {
                self.due = now + self.interval;
                Question::Survey
            }
            Some(action) => Question::History(action),
            None => return,
        };
        self.open = Some(now);
        // Fails only if the thread is gone, and then no answer comes: that is noticed in time.
        let _ = self.questions.send(question);
    }

    /// Notes what an event means for the next question; none if nobody else need know.
    fn note(&mut self, event: Event) -> Option<Event> {
        match &event {
            Event::Survey(Ok(_)) => {
                self.open = None;
                self.is_repeated = false;
                self.is_refused = false;
            }
            // A connection that the server had closed, say, after we were stopped for a while.
            Event::Survey(Err(failure))
                if failure.kind == FailureKind::Unknown && !self.is_repeated =>
            {
                self.open = None;
                self.is_repeated = true;
                self.due = clock::now();
                return None;
            }
            Event::Survey(Err(_)) => self.open = None,
            Event::History(action, outcome) => {
                self.open = None;
                self.is_refused = outcome.is_err();
                if outcome.is_ok() && self.wanted.as_ref() == Some(action) {
                    self.wanted = None;
                }
            }
            Event::Key(_) | Event::Signal(_) | Event::Tick => {}
        }
        Some(event)
    }

    /// Ends the connection properly, unless a question stays open: then the end of the process ends it.
    pub fn leave(mut self) {
        let until = clock::now() + PARTING;
        while self.open.is_some()
            && let Ok(event) = self.events.recv_timeout(until.since(clock::now()))
        {
            self.note(event);
        }
        drop(self.questions);
        if self.open.is_none() {
            // A panic in it has been reported by the panic hook.
            let _ = self.database.join();
        }
    }

    fn silence(&self) -> Failure {
        Failure {
            kind: FailureKind::Unreachable,
            message: format!("no answer from {} within {PATIENCE:?}", self.server),
        }
    }
}

/// Starts the thread that tells of each signal.
fn listen(inbox: Inbox, events: Sender<Event>) -> io::Result<()> {
    let thread = thread::Builder::new().name("listen".to_owned());
    thread
        .spawn(move || {
            while let Ok(signal) = inbox.take() {
                if events.send(Event::Signal(signal.number)).is_err() {
                    return;
                }
            }
        })
        .map(drop)
}

/// Starts the thread that asks the server.
fn answer(
    asked: Asked,
    mut database: Database,
    events: Sender<Event>,
) -> io::Result<(Sender<Question>, JoinHandle<()>)> {
    let (questions, inbox) = mpsc::channel();
    let thread = thread::Builder::new()
        .name(THREAD_NAME.to_owned())
        .spawn(move || {
            for question in inbox {
                let event = match question {
                    Question::Survey => Event::Survey(survey(&asked, &mut database)),
                    Question::History(action) => {
                        let only = Selection::Named(std::slice::from_ref(&action));
                        let entries = database.history(only, RUNS);
                        Event::History(action, entries)
                    }
                };
                if events.send(event).is_err() {
                    return;
                }
            }
        })?;
    Ok((questions, thread))
}

fn survey(asked: &Asked, database: &mut Database) -> Result<Box<Heard>, Failure> {
    let mut survey = database.survey(asked.selection())?;
    asked.complete(&mut survey);
    Ok(Box::new(Heard::new(survey, clock::now(), clock::wall())))
}
