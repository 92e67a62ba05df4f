//! Output of dlock: messages to stderr, as text with the prefix `dlock: ` or as JSON, and results to
//! stdout.
//!
//! No other module prints. Each line is escaped here as a whole, so that no text of another client or of
//! a server can move the cursor or forge a line. A closed stderr or stdout is not an error.
//!
//! The main thread reports the messages. It writes to stderr directly until [`Report::write_behind`];
//! after that a writer thread writes, so that a slow reader of stderr cannot delay a renewal.

pub mod doctor;
pub mod escape;
mod format;
pub mod history;
pub mod log;
pub mod messages;
pub mod status;
mod stderr;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use self::log::Verbosity;
use self::log::{Context, EventKind, EventMeta};
use self::stderr::{Message, Stderr};
use crate::cli::Format;
use crate::lease::Token;
use crate::lease::action::Action;
use crate::lease::instant::BootInstant;
use crate::sys::{self, clock};

/// Minimum time between two reminders that rewrite their line.
const REWRITE_INTERVAL: Duration = Duration::from_secs(1);

/// Minimum time between two reminders that are printed on lines of their own.
const REMINDER_INTERVAL: Duration = Duration::from_secs(10);

/// Writes messages to stderr.
pub struct Report {
    verbosity: Verbosity,
    format: Format,
    terminal: bool,
    stderr: RefCell<Stderr>,
    reminded_at: Cell<Option<BootInstant>>,
    /// Shared with the writer thread. The lock is held only to copy or to change the context.
    context: Arc<Mutex<Context>>,
}

impl Report {
    /// Creates a report that writes to stderr directly.
    #[must_use]
    pub fn new(verbosity: Verbosity, format: Format) -> Self {
        Self {
            verbosity,
            format,
            // Programs read a log line by line, so a line must never be overwritten.
            terminal: format == Format::Text && io::stderr().is_terminal(),
            stderr: RefCell::new(Stderr::direct()),
            reminded_at: Cell::new(None),
            context: Arc::default(),
        }
    }

    /// Starts to write on a thread of its own. Call this after the last fork, because a process with
    /// threads must not fork, and after [signals are blocked](crate::sys::signal::SignalFd::open),
    /// because otherwise the thread could receive them. The caller calls [`Report::close`] at the end.
    pub fn write_behind(&self) {
        let (format, context) = (self.format, Arc::clone(&self.context));
        let dropped_line = move |count| {
            let context = locked(&context).clone();
            let meta = EventKind::MessagesDropped.into();
            let text = messages::dropped(count);
            line(format, Verbosity::Quiet, meta, &context, &text)
        };
        let stderr = self.stderr.replace(Stderr::Closed).queued(dropped_line);
        self.stderr.replace(stderr);
    }

    /// Waits for a short time until all messages are written. Later messages are dropped.
    pub fn close(&self) {
        self.stderr.borrow_mut().close();
    }

    /// Adds `action` to the context of all later messages.
    pub fn about(&self, action: &Action) {
        locked(&self.context).action = Some(action.to_string());
    }

    /// Adds the token of the grant to the context of all later messages.
    pub fn granted(&self, token: Token) {
        locked(&self.context).token = Some(token.0);
    }

    /// Reports why dlock fails or stops the command. Printed at every verbosity.
    pub fn error<'a>(&self, meta: impl Into<EventMeta<'a>>, text: impl Display) {
        self.line(Verbosity::Quiet, meta.into(), &text);
    }

    /// Reports what a user who waits wants to know, or what may surprise a user.
    pub fn info<'a>(&self, meta: impl Into<EventMeta<'a>>, text: impl Display) {
        self.line(Verbosity::Normal, meta.into(), &text);
    }

    /// Reports a step.
    pub fn debug<'a>(&self, meta: impl Into<EventMeta<'a>>, text: impl Display) {
        self.line(Verbosity::Verbose, meta.into(), &text);
    }

    /// Reports why dlock waits: at once, and then at most once per interval. On a terminal the next line
    /// overwrites this one.
    pub fn remind<'a>(&self, meta: impl Into<EventMeta<'a>>, text: impl Display) {
        let interval = match self.terminal {
            true => REWRITE_INTERVAL,
            false => REMINDER_INTERVAL,
        };
        let now = clock::now();
        let reminded_at = self.reminded_at.get();
        if reminded_at.is_some_and(|reminded| now.since(reminded) < interval) {
            return;
        }
        self.reminded_at.set(Some(now));
        if !self.terminal {
            return self.info(meta, text);
        }
        if self.verbosity >= Verbosity::Normal {
            let text = escape::printable(&text.to_string()).into_owned();
            self.send(Message::Transient(format!("dlock: {text}")));
        }
    }

    /// Erases a reminder from the terminal and waits until all earlier messages are written, as long as
    /// the reader keeps up. The output of the command follows them.
    pub fn finish(&self) {
        self.stderr.borrow_mut().finish();
    }

    /// Prints text of several lines that is already escaped, such as a table or the facts of a lock.
    /// Prints nothing if the messages are JSON.
    pub fn block(&self, text: &str) {
        if self.verbosity >= Verbosity::Normal && self.format == Format::Text {
            self.send(Message::Permanent(text.to_owned()));
        }
    }

    /// Prints a question whose answer is yes or no; no answer means no. Printed at every verbosity.
    pub fn prompt(&self, question: &str) {
        let question = escape::printable(question);
        self.send(Message::Permanent(format!("dlock: {question} [y/N] ")));
    }

    fn line(&self, level: Verbosity, meta: EventMeta, text: &dyn Display) {
        if self.verbosity >= level {
            let context = locked(&self.context).clone();
            let line = line(self.format, level, meta, &context, &text.to_string());
            self.send(Message::Permanent(line));
        }
    }

    fn send(&self, message: Message) {
        self.stderr.borrow_mut().send(message);
    }
}

/// Returns the context. No thread leaves it half changed, so it is usable after a panic.
fn locked(context: &Mutex<Context>) -> MutexGuard<'_, Context> {
    context.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the message in the form in which it is written.
fn line(
    format: Format,
    level: Verbosity,
    meta: EventMeta,
    context: &Context,
    text: &str,
) -> String {
    match format {
        Format::Text => format!("dlock: {}\n", escape::printable(text)),
        Format::Json => log::line(level, meta, context, text),
    }
}

/// Reports a panic in any thread of any dlock process. Never waits, so that no lease depends on it; the
/// message is lost if stderr is not read.
pub fn panicked(format: Format, panic: &dyn Display) {
    let text = format!("internal error: {panic}");
    let meta = EventKind::Failed.into();
    let line = line(format, Verbosity::Quiet, meta, &Context::default(), &text);
    // std's lock of stderr is not used, because a writer thread that is stuck holds it.
    sys::stderr::write_if_room(line.as_bytes());
}

/// State of the reader of stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// The reader is there, as far as dlock knows.
    There,
    /// The reader has closed the pipe.
    Gone,
}

/// Prints a result to stdout.
///
/// # Errors
/// Returns the errors of the write. A closed pipe is not an error: its reader has seen enough.
pub fn result(text: &str) -> io::Result<()> {
    stream(text).map(drop)
}

/// Prints one of many results to stdout and flushes it. Returns the state of the reader, so that the
/// caller can stop.
///
/// # Errors
/// Returns the errors of the write, except for a closed pipe.
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
