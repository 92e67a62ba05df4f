//! Every line that dlock prints: to stderr with `dlock: ` in front or as JSON, or a result to stdout.
//!
//! Nothing else prints. Each line is escaped here as a whole, so no text of another client or of
//! a server can move the cursor or forge a line. A closed stderr or stdout is no reason to fail.
//!
//! The main thread says what there is to say. It writes to stderr itself until
//! [`Report::write_behind`]; from then on a writer thread does, so that no lease waits for a reader.

pub mod doctor;
pub mod escape;
mod form;
pub mod history;
pub mod log;
pub mod status;
mod stderr;
pub mod words;

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use self::log::{Context, Subject, What};
use self::stderr::{Message, Stderr};
use crate::cli::Format;
use crate::lease::Token;
use crate::lease::action::Action;
use crate::lease::instant::BootInstant;
use crate::sys::{self, clock};

/// Shortest pause between two reminders that rewrite their line.
const REWRITE: Duration = Duration::from_secs(1);

/// Shortest pause between two reminders where each is a line of its own.
const REMINDER: Duration = Duration::from_secs(10);

/// How much is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Only why dlock failed.
    Quiet,
    /// And what somebody who waits wants to know.
    Normal,
    /// And each step.
    Verbose,
}

/// The way to stderr.
pub struct Report {
    verbosity: Verbosity,
    format: Format,
    terminal: bool,
    stderr: RefCell<Stderr>,
    reminded_at: Cell<Option<BootInstant>>,
    /// Shared with the writer thread; held for a copy only.
    context: Arc<Mutex<Context>>,
}

impl Report {
    /// A report to stderr, which may be a terminal or not.
    #[must_use]
    pub fn new(verbosity: Verbosity, format: Format) -> Self {
        Self {
            verbosity,
            format,
            // No program waits for a line that is overwritten.
            terminal: format == Format::Text && io::stderr().is_terminal(),
            stderr: RefCell::new(Stderr::direct()),
            reminded_at: Cell::new(None),
            context: Arc::default(),
        }
    }

    /// Leaves all writing to a thread from now on: after the last fork, which threads forbid, and after
    /// [signals are taken](crate::sys::signal::Inbox::open), or the thread would be sent them. The
    /// caller calls [`Report::close`] at the end.
    pub fn write_behind(&self) {
        let (format, context) = (self.format, Arc::clone(&self.context));
        let notice = move |count| {
            let context = locked(&context).clone();
            let subject = What::MessagesDropped.into();
            let text = words::dropped(count);
            line(format, Verbosity::Quiet, subject, &context, &text)
        };
        let stderr = self.stderr.replace(Stderr::Closed).queued(notice);
        self.stderr.replace(stderr);
    }

    /// Waits for a short time until all is written; nothing is after it.
    pub fn close(&self) {
        self.stderr.borrow_mut().close();
    }

    /// From now on, all that is said is about `action`.
    pub fn about(&self, action: &Action) {
        locked(&self.context).action = Some(action.to_string());
    }

    /// From now on, all that is said is about the grant of `token`.
    pub fn granted(&self, token: Token) {
        locked(&self.context).token = Some(token.0);
    }

    /// Says why dlock failed or stopped the command; never silenced.
    pub fn error<'a>(&self, subject: impl Into<Subject<'a>>, text: impl Display) {
        self.line(Verbosity::Quiet, subject.into(), &text);
    }

    /// Says what somebody who waits or will be surprised wants to know.
    pub fn notice<'a>(&self, subject: impl Into<Subject<'a>>, text: impl Display) {
        self.line(Verbosity::Normal, subject.into(), &text);
    }

    /// Says a step.
    pub fn detail<'a>(&self, subject: impl Into<Subject<'a>>, text: impl Display) {
        self.line(Verbosity::Verbose, subject.into(), &text);
    }

    /// Says whom or what we wait for: at once, and then no more often than anybody wants to read it. On a
    /// terminal the next line overwrites this one.
    pub fn remind<'a>(&self, subject: impl Into<Subject<'a>>, text: impl Display) {
        let pause = match self.terminal {
            true => REWRITE,
            false => REMINDER,
        };
        let now = clock::now();
        let reminded_at = self.reminded_at.get();
        if reminded_at.is_some_and(|reminded| now.since(reminded) < pause) {
            return;
        }
        self.reminded_at.set(Some(now));
        if !self.terminal {
            return self.notice(subject, text);
        }
        if self.verbosity >= Verbosity::Normal {
            let text = escape::printable(&text.to_string()).into_owned();
            self.send(Message::Passing(format!("dlock: {text}")));
        }
    }

    /// Leaves the terminal with a clean line and all said before, as far as its reader keeps up: what
    /// the command writes comes after that.
    pub fn finish(&self) {
        self.stderr.borrow_mut().finish();
    }

    /// Shows text of several lines that is escaped already, as a table or the facts of a lock are; not
    /// where each line is an object.
    pub fn block(&self, text: &str) {
        if self.verbosity >= Verbosity::Normal && self.format == Format::Text {
            self.send(Message::Lasting(text.to_owned()));
        }
    }

    /// Asks for a yes or a no, whose absence is a no; never silenced.
    pub fn ask(&self, question: &str) {
        let question = escape::printable(question);
        self.send(Message::Lasting(format!("dlock: {question} [y/N] ")));
    }

    fn line(&self, level: Verbosity, subject: Subject, text: &dyn Display) {
        if self.verbosity >= level {
            let context = locked(&self.context).clone();
            let line = line(self.format, level, subject, &context, &text.to_string());
            self.send(Message::Lasting(line));
        }
    }

    fn send(&self, message: Message) {
        self.stderr.borrow_mut().send(message);
    }
}

/// Neither thread leaves it half changed, so a panic spoils nothing.
fn locked(context: &Mutex<Context>) -> MutexGuard<'_, Context> {
    context.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A message as it is written.
fn line(
    format: Format,
    level: Verbosity,
    subject: Subject,
    context: &Context,
    text: &str,
) -> String {
    match format {
        Format::Text => format!("dlock: {}\n", escape::printable(text)),
        Format::Json => log::line(level, subject, context, text),
    }
}

/// Tells of a panic, on whatever thread of whatever process of ours; never waits, so that a lease
/// does not depend on it. Lost if nobody reads stderr.
pub fn panicked(format: Format, panic: &dyn Display) {
    let text = format!("internal error: {panic}");
    let subject = What::Failed.into();
    let line = line(
        format,
        Verbosity::Quiet,
        subject,
        &Context::default(),
        &text,
    );
    // Not by the lock of std's stderr, which a writer thread that is stuck holds.
    sys::stderr::write_if_room(line.as_bytes());
}

/// Whether anybody reads what is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// As far as we know.
    There,
    /// No more: the pipe is closed.
    Gone,
}

/// Prints a result to stdout.
///
/// # Errors
/// Those of the write, but for a reader that has gone away: it has seen what it wanted.
pub fn result(text: &str) -> io::Result<()> {
    stream(text).map(drop)
}

/// Prints one of many results to stdout, at once; also tells whether to go on.
///
/// # Errors
/// Those of the write, but for a reader that has gone away.
pub fn stream(text: &str) -> io::Result<Reader> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Ok(()) => Ok(Reader::There),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(error),
    }
}
