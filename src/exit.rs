//! The exit statuses of dlock: one table, from which the help, the man pages and the README are
//! written and checked.
//!
//! A status below 64 and most others are the command's own; dlock's own statuses follow
//! `sysexits.h` where it has a word for the case, and `timeout(1)`, `env(1)` and the shell for the
//! rest. Nothing here ends the process: that is `main`'s one line.

use std::fmt;

use crate::lease::action::Action;

/// The number that the process ends with, 0 to 255.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(u8);

impl Status {
    /// All went well; for `status --check`: nobody holds it.
    pub const OK: Self = Self(0);
    /// The command line or an environment variable is wrong (`EX_USAGE`).
    pub const USAGE: Self = Self(64);
    /// There is nothing that `release` could release or reopen (`EX_NOINPUT`).
    pub const NOTHING: Self = Self(66);
    /// The server could not be reached within `--db-wait` (`EX_UNAVAILABLE`).
    pub const UNAVAILABLE: Self = Self(69);
    /// A defect in dlock or an operating-system failure (`EX_SOFTWARE`).
    pub const INTERNAL: Self = Self(70);
    /// Held by another and time ran out (`EX_TEMPFAIL`), as with lockf(1) and lckdo(1).
    pub const HELD: Self = Self(75);
    /// The lease was lost or could not be kept. No other tool has a status for it; never 137 or
    /// 143, which Kubernetes reads as out of memory and as a normal stop.
    pub const LOST: Self = Self(76);
    /// Access denied or grants missing (`EX_NOPERM`).
    pub const DENIED: Self = Self(77);
    /// Configuration: unknown database, wrong schema, bad option file (`EX_CONFIG`).
    pub const CONFIG: Self = Self(78);
    /// The command ran for longer than `--max-runtime`, as with timeout(1).
    pub const TIMED_OUT: Self = Self(124);
    /// The command was found but cannot be executed, as in the shell.
    pub const NOT_EXECUTABLE: Self = Self(126);
    /// The command was not found, as in the shell.
    pub const NOT_FOUND: Self = Self(127);

    /// The status `code` that the user chose or that the command ended with.
    #[must_use]
    pub const fn from_code(code: u8) -> Self {
        Self(code)
    }

    /// The shell's status for an end by `signal`: 128 + n.
    #[must_use]
    pub fn from_signal(signal: i32) -> Self {
        Self(u8::try_from(128 + signal).unwrap_or(u8::MAX))
    }

    /// The number for `exit(3)`.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An end of dlock with a reason: carried up as an error, printed once at the top.
#[derive(Debug)]
pub struct Ending {
    /// What the process ends with.
    pub status: Status,
    /// One line for people.
    pub why: String,
    /// Which kind of end it is: no status says that, since `-E` changes it.
    pub cause: Cause,
}

/// Why dlock ends without having run the command to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// Something is wrong.
    Failed,
    /// A signal ended the waiting.
    Interrupted,
    /// This holder had it, and time ran out.
    Held(String),
    /// This holder has done it already.
    Done(String),
}

impl Ending {
    /// An end with `status` because of `why`.
    pub fn new(status: Status, why: impl fmt::Display) -> Self {
        Self {
            status,
            why: why.to_string(),
            cause: Cause::Failed,
        }
    }

    /// The same, because of `cause`.
    #[must_use]
    pub fn because(mut self, cause: Cause) -> Self {
        self.cause = cause;
        self
    }

    /// The end of a wait for `action` by `signal`.
    #[must_use]
    pub fn interrupted(signal: i32, action: &Action) -> Self {
        let why = format!("signal {signal} while waiting for {action}");
        Self::new(Status::from_signal(signal), why).because(Cause::Interrupted)
    }

    /// Whose lease or success it is that nothing was run for; none if that is not the cause.
    #[must_use]
    pub fn skipped_for(&self) -> Option<&str> {
        match &self.cause {
            Cause::Held(holder) | Cause::Done(holder) => Some(holder),
            Cause::Failed | Cause::Interrupted => None,
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Ending {}

/// Every status with its meaning: (what is printed in the first column, the meaning).
pub const TABLE: &[(&str, &str)] = &[
    (
        "the command's own",
        "passed on untouched; 128+n when signal n killed it",
    ),
    (
        "0",
        "the command succeeded, or dlock did; for status --check: nobody holds it",
    ),
    (
        "64",
        "usage: the command line or a variable is wrong, or the ttl is too short",
    ),
    (
        "66",
        "release: there is nothing to release or to open again",
    ),
    ("69", "the server could not be reached within --db-wait"),
    ("70", "internal error"),
    (
        "75",
        "held by another or closed, or for wait: not done, and time ran out (-E changes it); for status --check: held or closed",
    ),
    (
        "76",
        "the lease was lost or could not be kept, the command was stopped; with --once: its success could not be recorded; for check and release: the token is not current",
    ),
    ("77", "access denied or grants missing"),
    (
        "78",
        "configuration: unknown database, wrong schema, bad option file, TLS",
    ),
    ("124", "the command ran for longer than --max-runtime"),
    ("126", "the command was found but cannot be executed"),
    ("127", "the command was not found"),
    ("128+n", "signal n ended dlock before the command ran"),
];

/// The table as plain text, two columns, for `--help`.
#[must_use]
pub fn help() -> String {
    let width = TABLE.iter().map(|(status, _)| status.len()).max();
    let rows: Vec<String> = TABLE
        .iter()
        .map(|(status, meaning)| format!("  {status:<w$}  {meaning}", w = width.unwrap_or(0)))
        .collect();
    format!("Exit status:\n{}", rows.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::{Status, TABLE};

    #[test]
    fn every_constant_stands_in_the_table() {
        for status in [
            Status::OK,
            Status::USAGE,
            Status::NOTHING,
            Status::UNAVAILABLE,
            Status::INTERNAL,
            Status::HELD,
            Status::LOST,
            Status::DENIED,
            Status::CONFIG,
            Status::TIMED_OUT,
            Status::NOT_EXECUTABLE,
            Status::NOT_FOUND,
        ] {
            assert!(
                TABLE.iter().any(|(code, _)| *code == status.to_string()),
                "{status} is missing from the table"
            );
        }
    }

    #[test]
    fn a_signal_becomes_128_plus_n() {
        assert_eq!(Status::from_signal(15).code(), 143);
        assert_eq!(Status::from_signal(64).code(), 192);
    }
}
