//! The output of dlock. Messages go to stderr, as text with the prefix `dlock: ` or as JSON. Results go to
//! stdout.
//!
//! No other module prints, except that `watch::terminal` draws the screen of `status --watch`. This module
//! escapes all text from other clients and from the server, so that the text cannot move the cursor or forge
//! a line. A closed stderr or stdout is not an error.
//!
//! The main thread writes messages to stderr directly until it calls [`Report::write_behind`]. From then on,
//! a writer thread writes all messages except those about panics, so that a slow reader of stderr cannot
//! delay a renewal.

pub mod advice;
pub mod clock_jump;
pub mod columns;
pub mod doctor;
pub mod escape;
pub mod explain;
pub(crate) mod format;
pub mod history;
pub mod layout;
pub mod leader;
pub mod lease;
pub mod line;
pub mod log;
pub mod lost_grant;
pub mod messages;
pub mod release;
pub mod status;
mod stderr;
pub mod style;
#[cfg(test)]
pub(crate) mod tests;
pub mod waiting;

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use self::log::Verbosity;
use self::log::{Context, EventKind, EventMeta};
use self::stderr::{DRAIN_TIMEOUT, FLUSH_TIMEOUT, Message, Stderr};
use crate::cli::Format;
use crate::exit::{self, Status};
use crate::lease::Token;
use crate::lease::action::Action;
use crate::lease::instant::BootInstant;
use crate::store::connected::ConnectedServer;
use crate::sys::{self, clock, terminal};

/// Minimum time between two reminders on a terminal, where a reminder overwrites the previous one.
const REWRITE_INTERVAL: Duration = Duration::from_secs(1);

/// Time between the first two reminders that are printed on separate lines, as in a log file. Each later pause is twice as
/// long as the previous one.
const FIRST_REMINDER_PAUSE: Duration = Duration::from_secs(10);

/// Time from the first message of a waiter in the queue to its first reminder on a separate line. Such a reminder costs the
/// server a login, and there may be hundreds of waiters.
const FIRST_READ_PAUSE: Duration = Duration::from_secs(30);

/// Longest pause between two reminders that are printed on separate lines. A log of a long wait stays short, and still
/// shows that dlock is alive.
const LONGEST_REMINDER_PAUSE: Duration = Duration::from_mins(5);

/// Writes messages to stderr.
pub struct Report {
    verbosity: Verbosity,
    format: Format,
    /// True if stderr is the terminal of this process.
    terminal: Cell<bool>,
    stderr: RefCell<Stderr>,
    reminded_at: Cell<Option<BootInstant>>,
    /// Time from the latest reminder to the next one, if reminders are printed on separate lines.
    reminder_pause: Cell<Duration>,
    /// The context is shared with the writer thread. Its mutex is held only to copy or change the context.
    context: Arc<Mutex<Context>>,
}

impl Report {
    /// Creates a report that writes to stderr directly.
    #[must_use]
    pub fn new(verbosity: Verbosity, format: Format) -> Self {
        Self {
            verbosity,
            format,
            // Programs read JSON messages line by line, so a JSON message must never be overwritten.
            terminal: Cell::new(format == Format::Text && terminal::is_stderr_controlling()),
            stderr: RefCell::new(Stderr::direct()),
            reminded_at: Cell::new(None),
            reminder_pause: Cell::new(FIRST_REMINDER_PAUSE),
            context: Arc::default(),
        }
    }

    /// Prints all later reminders on separate lines, because this process has left its terminal.
    pub fn leave_terminal(&self) {
        self.terminal.set(false);
    }

    /// Moves the writing of messages to a writer thread. Call this after the last fork, because a process
    /// with threads must not fork, and after [signals are blocked](crate::sys::signal::SignalFd::open),
    /// because otherwise the writer thread could receive signals. Call [`Report::close`] before the process
    /// exits.
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

    /// Waits a short time for all messages to be written. Drops all later messages.
    pub fn close(&self) {
        self.stderr.borrow_mut().close();
    }

    /// Includes `action` in all later JSON messages.
    pub fn about(&self, action: &Action) {
        locked(&self.context).action = Some(action.to_string());
    }

    /// Includes `action`, and `token` if its lease is granted, in all later JSON messages.
    pub fn about_lease(&self, action: &Action, token: Option<Token>) {
        let mut context = locked(&self.context);
        context.action = Some(action.to_string());
        context.token = token.map(|token| token.0);
    }

    /// Reports why dlock fails or stops the command. Prints at every verbosity.
    pub fn error<'a>(&self, meta: impl Into<EventMeta<'a>>, text: impl Display) {
        self.line(Verbosity::Quiet, meta.into(), &text);
    }

    /// Reports why dlock itself sets the exit status of `exec`. Text contains the status; JSON has a field for it. Prints
    /// at every verbosity.
    pub fn exit_status(&self, meta: EventMeta, status: Status, why: &str) {
        // Only a lock that is held or paused can have a status that the user chose.
        let is_custom = meta.is_skipped() && status != Status::HELD;
        let meta = meta.ending_with(status.code());
        match self.format {
            Format::Text => self.error(meta, exit::with_status(why, status, is_custom)),
            Format::Json => self.error(meta, why),
        }
    }

    /// Reports the progress of a wait, a result, or an unexpected event. Prints unless the verbosity is
    /// [`Verbosity::Quiet`].
    pub fn info<'a>(&self, meta: impl Into<EventMeta<'a>>, text: impl Display) {
        self.line(Verbosity::Normal, meta.into(), &text);
    }

    /// Returns true if the steps of the run are printed.
    pub fn is_verbose(&self) -> bool {
        self.verbosity >= Verbosity::Verbose
    }

    /// Reports a step of the run. Prints only if the verbosity is [`Verbosity::Verbose`].
    pub fn debug<'a>(&self, meta: impl Into<EventMeta<'a>>, text: impl Display) {
        self.line(Verbosity::Verbose, meta.into(), &text);
    }

    /// Reports the server of a new connection, and the hosts that were not used, as steps of the run.
    pub fn connected(&self, server: &ConnectedServer) {
        for skipped in &server.skipped {
            self.debug(EventKind::HostSkipped, skipped);
        }
        self.debug(EventKind::Connected, server);
    }

    /// Reports a grant or a release: as JSON, at the level info, because programs count these events. As text, only if the
    /// verbosity is [`Verbosity::Verbose`], or if `is_news` is true, because an earlier message has announced it.
    pub fn milestone<'a>(&self, meta: impl Into<EventMeta<'a>>, text: impl Display, is_news: bool) {
        match self.format == Format::Json || is_news {
            true => self.info(meta, text),
            false => self.debug(meta, text),
        }
    }

    /// Returns true if a reminder was printed that the next message does not overwrite.
    pub fn has_reminded(&self) -> bool {
        self.reminded_at.get().is_some() && !self.terminal.get()
    }

    /// Reports why dlock waits. Prints the first reminder immediately, and later reminders at most once per
    /// interval. On a terminal, the next message overwrites the reminder, which is cut to the width of the terminal. In
    /// the background of a terminal, prints nothing, because the user may be typing.
    pub fn remind<'a>(&self, meta: impl Into<EventMeta<'a>>, text: impl Display) {
        if !self.has_passed(self.reminder_pause.get()) {
            return;
        }
        if self.reminded_at.replace(Some(clock::now())).is_some() {
            let pause = self.reminder_pause.get();
            self.reminder_pause.set(next_reminder_pause(pause));
        }
        if !self.terminal.get() {
            return self.info(meta, text);
        }
        if self.verbosity >= Verbosity::Normal
            && let Some(width) = terminal::foreground_stderr_width()
        {
            let text = format!("dlock: {}", escape::printable(&text.to_string()));
            // Some terminals wrap as soon as the last column is written.
            let text = line::fit(&text, width.saturating_sub(1));
            self.send(Message::Transient(text));
        }
    }

    /// Returns true if a reminder is due for which dlock reads the present state. On separate lines, such reminders follow
    /// half as often as others.
    pub fn is_reminder_due(&self) -> bool {
        self.verbosity >= Verbosity::Normal
            && self.has_passed(read_pause(self.reminder_pause.get()))
            && (!self.terminal.get() || terminal::foreground_stderr_width().is_some())
    }

    /// Returns true if `pause` has passed since the latest reminder or, on a terminal, [`REWRITE_INTERVAL`].
    fn has_passed(&self, pause: Duration) -> bool {
        let interval = match self.terminal.get() {
            true => REWRITE_INTERVAL,
            false => pause,
        };
        let reminded_at = self.reminded_at.get();
        reminded_at.is_none_or(|reminded| clock::now().since(reminded) >= interval)
    }

    /// Returns true if reminders are rewritten in place, on a terminal.
    pub fn rewrites_reminders(&self) -> bool {
        self.terminal.get()
    }

    /// Makes the next reminder on a terminal print without a pause, because the size of the terminal has changed.
    pub fn resized(&self) {
        if self.terminal.get() {
            self.reminded_at.set(None);
        }
    }

    /// Makes the next reminder print without a pause, because it is about another lock than the previous one.
    pub fn begins_to_wait(&self) {
        self.reminded_at.set(None);
        self.reminder_pause.set(FIRST_REMINDER_PAUSE);
    }

    /// Erases the reminder on the terminal, and waits a short time for all earlier messages to be written, so
    /// that later output, such as the command's output, normally follows the messages.
    pub fn finish(&self) {
        self.stderr.borrow_mut().finish(FLUSH_TIMEOUT);
    }

    /// Erases the reminder on the terminal, and waits for all earlier messages to be written, on a busy machine too. Call
    /// this function only if this process stops now.
    pub fn finish_before_stop(&self) {
        self.stderr.borrow_mut().finish(DRAIN_TIMEOUT);
    }

    /// Prints several lines of text that the caller has escaped, such as a table or the details of a lock.
    /// Prints nothing if messages are JSON or if the verbosity is [`Verbosity::Quiet`].
    pub fn block(&self, text: &str) {
        if self.verbosity >= Verbosity::Normal && self.format == Format::Text {
            self.send(Message::Permanent(text.to_owned()));
        }
    }

    /// Prints a yes-or-no question whose default answer is no. Prints at every verbosity.
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

/// Returns the pause between two reminders that follows `pause`.
fn next_reminder_pause(pause: Duration) -> Duration {
    (pause * 2).min(LONGEST_REMINDER_PAUSE)
}

/// Returns the pause before a reminder for which dlock reads the present state, if the pause before others is `pause`.
fn read_pause(pause: Duration) -> Duration {
    (pause * 2).clamp(FIRST_READ_PAUSE, LONGEST_REMINDER_PAUSE)
}

/// Locks the context. Ignores poisoning, because a panic cannot leave the context half changed.
fn locked(context: &Mutex<Context>) -> MutexGuard<'_, Context> {
    context.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Formats a message as one line of text or of JSON, including the newline.
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

/// Reports a panic in any thread of any dlock process. Never blocks, so it cannot delay a renewal. The
/// message is lost if stderr has no room for it.
pub fn panicked(format: Format, panic: &dyn Display) {
    let text = format!("internal error: {panic}");
    let meta = EventKind::Failed.into();
    let line = line(format, Verbosity::Quiet, meta, &Context::default(), &text);
    // std's lock on stderr is not used, because a stuck writer thread may hold that lock.
    sys::stderr::write_if_room(line.as_bytes());
}

/// State of the reader of stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// The pipe is not closed, or stdout is not a pipe.
    There,
    /// The reader has closed the pipe.
    Gone,
}

/// Prints a result to stdout.
///
/// # Errors
/// Returns an error if the write fails. A closed pipe is not an error, because its reader needs no more
/// output.
pub fn result(text: &str) -> io::Result<()> {
    stream(text).map(drop)
}

/// Prints one of many results to stdout and flushes stdout. Returns [`Reader::Gone`] if the pipe is
/// closed, so that the caller can stop.
///
/// # Errors
/// Returns an error if the write fails, unless the pipe is closed.
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
