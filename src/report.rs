//! Every line that dlock prints: to stderr with `dlock: ` in front or as JSON, or a result to stdout.
//!
//! Nothing else prints. Each line is escaped here as a whole, so no text of another client or of
//! a server can move the cursor or forge a line. A closed stderr or stdout is no reason to fail.

pub mod doctor;
pub mod escape;
mod form;
pub mod history;
pub mod log;
pub mod status;
pub mod words;

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::io::{self, Write};

use self::log::{Context, Subject};
use crate::cli::Format;
use crate::lease::Token;
use crate::lease::action::Action;
use crate::sys::terminal;

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
#[derive(Debug)]
pub struct Report {
    verbosity: Verbosity,
    format: Format,
    terminal: bool,
    /// Whether the last line on the terminal is one that the next may overwrite.
    unfinished: Cell<bool>,
    context: RefCell<Context>,
}

impl Report {
    /// A report to stderr, which may be a terminal or not.
    #[must_use]
    pub fn new(verbosity: Verbosity, format: Format) -> Self {
        Self {
            verbosity,
            format,
            // No program waits for a line that is overwritten.
            terminal: format == Format::Text && terminal::is_stderr(),
            unfinished: Cell::new(false),
            context: RefCell::default(),
        }
    }

    /// From now on, all that is said is about `action`.
    pub fn about(&self, action: &Action) {
        self.context.borrow_mut().action = Some(action.to_string());
    }

    /// From now on, all that is said is about the grant of `token`.
    pub fn granted(&self, token: Token) {
        self.context.borrow_mut().token = Some(token.0);
    }

    /// Whether waiting is shown on one line that is rewritten.
    #[must_use]
    pub const fn is_terminal(&self) -> bool {
        self.terminal
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

    /// Says something that the next line makes obsolete: on a terminal that line overwrites it.
    pub fn progress<'a>(&self, subject: impl Into<Subject<'a>>, text: impl Display) {
        if !self.terminal {
            return self.notice(subject, text);
        }
        if self.verbosity >= Verbosity::Normal {
            let text = escape::printable(&text.to_string()).into_owned();
            self.write(&format!("\r\x1b[Kdlock: {text}"));
            self.unfinished.set(true);
        }
    }

    /// Leaves the terminal with a clean line, before the command writes to it.
    pub fn finish(&self) {
        if self.unfinished.replace(false) {
            self.write("\r\x1b[K");
        }
    }

    /// Shows text of several lines that is escaped already, as a table or the facts of a lock are; not
    /// where each line is an object.
    pub fn block(&self, text: &str) {
        if self.verbosity >= Verbosity::Normal && self.format == Format::Text {
            self.finish();
            self.write(text);
        }
    }

    /// Asks for a yes or a no, whose absence is a no; never silenced.
    pub fn ask(&self, question: &str) {
        self.finish();
        self.write(&format!("dlock: {} [y/N] ", escape::printable(question)));
    }

    fn line(&self, level: Verbosity, subject: Subject, text: &dyn Display) {
        if self.verbosity < level {
            return;
        }
        self.finish();
        let text = text.to_string();
        self.write(&match self.format {
            Format::Text => format!("dlock: {}\n", escape::printable(&text)),
            Format::Json => log::line(level, subject, &self.context.borrow(), &text),
        });
    }

    #[expect(clippy::unused_self, reason = "the only way to stderr")]
    fn write(&self, text: &str) {
        // One write, so that lines of several processes do not mix; lost if nobody listens.
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }
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
