//! The exit statuses of dlock: one table that generates the help, and that the man pages and the README are checked
//! against.
//!
//! A status below 64 and most others are the command's own. dlock's own statuses follow `sysexits.h` if it defines one
//! for the case, and `timeout(1)`, `env(1)` and the shell otherwise. Nothing in this module ends the process; `main`
//! does.

use std::fmt;

use crate::lease::action::Action;

/// The exit status of the process, 0 to 255.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(u8);

impl Status {
    /// Success. For `status --check`: the action is not held.
    pub const OK: Self = Self(0);
    /// The command line or an environment variable is wrong (`EX_USAGE`).
    pub const USAGE: Self = Self(64);
    /// `release` found nothing to release or resume (`EX_NOINPUT`).
    pub const NOTHING: Self = Self(66);
    /// The server could not be reached within `--connect-timeout` (`EX_UNAVAILABLE`).
    pub const UNAVAILABLE: Self = Self(69);
    /// A defect in dlock or an operating-system failure (`EX_SOFTWARE`).
    pub const INTERNAL: Self = Self(70);
    /// Another holder has the lease and the wait limit is over (`EX_TEMPFAIL`), as with lockf(1) and lckdo(1).
    pub const HELD: Self = Self(75);
    /// The lease was lost or could not be renewed. No other tool has a status for this. It must not be 137 or 143,
    /// which Kubernetes interprets as out of memory and as a normal stop.
    pub const LOST: Self = Self(76);
    /// Access denied or grants missing (`EX_NOPERM`).
    pub const DENIED: Self = Self(77);
    /// The configuration is wrong: unknown database, wrong schema, bad option file (`EX_CONFIG`).
    pub const CONFIG: Self = Self(78);
    /// The command ran for longer than `--max-runtime`, as with timeout(1).
    pub const TIMED_OUT: Self = Self(124);
    /// The command was found but cannot be executed, as in the shell.
    pub const NOT_EXECUTABLE: Self = Self(126);
    /// The command was not found, as in the shell.
    pub const NOT_FOUND: Self = Self(127);

    /// Returns the status `code`, which the user chose or the command exited with.
    #[must_use]
    pub const fn from_code(code: u8) -> Self {
        Self(code)
    }

    /// Returns the status that a shell returns for a process killed by `signal`: 128 + n.
    #[must_use]
    pub fn from_signal(signal: i32) -> Self {
        Self(u8::try_from(128 + signal).unwrap_or(u8::MAX))
    }

    /// Returns the number for `exit(3)`.
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

/// The reason why dlock ends with a status of its own. It is returned as an error and printed once, at the top.
#[derive(Debug)]
pub struct ExitError {
    /// The exit status.
    pub status: Status,
    /// The reason in one line, for users.
    pub why: String,
    /// The kind of reason. The status does not show it, because `-E` changes the status.
    pub cause: ExitCause,
}

/// The kind of reason for which dlock ends before the command has run to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExitCause {
    /// A failure.
    Failed,
    /// A signal ended the wait.
    Interrupted,
    /// This holder had the lease, and the wait limit was over.
    Held(String),
    /// This holder has already succeeded, so no run is needed.
    Done(String),
}

impl ExitError {
    /// Creates an error with `status` and the reason `why`. Its cause is [`ExitCause::Failed`].
    pub fn new(status: Status, why: impl fmt::Display) -> Self {
        Self {
            status,
            why: why.to_string(),
            cause: ExitCause::Failed,
        }
    }

    /// Returns this error with `cause` as its cause.
    #[must_use]
    pub fn because(mut self, cause: ExitCause) -> Self {
        self.cause = cause;
        self
    }

    /// Creates the error for a wait for `action` that `signal` ended.
    #[must_use]
    pub fn interrupted(signal: i32, action: &Action) -> Self {
        let why = format!("signal {signal} while waiting for {action}");
        Self::new(Status::from_signal(signal), why).because(ExitCause::Interrupted)
    }

    /// Returns the holder whose lease or success is the reason why nothing was run. None for any other cause.
    #[must_use]
    pub fn skipped_for(&self) -> Option<&str> {
        match &self.cause {
            ExitCause::Held(holder) | ExitCause::Done(holder) => Some(holder),
            ExitCause::Failed | ExitCause::Interrupted => None,
        }
    }
}

impl fmt::Display for ExitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for ExitError {}

/// Every status with its meaning: (text of the first column, meaning).
pub const TABLE: &[(&str, &str)] = &[
    (
        "the command's own",
        "passed on untouched; 128+n when signal n killed it",
    ),
    (
        "0",
        "the command succeeded, or dlock did; for status --check: no action is held",
    ),
    (
        "64",
        "usage: the command line or a variable is wrong, or the ttl is too short",
    ),
    ("66", "release: there is nothing to release or to resume"),
    (
        "69",
        "the server could not be reached within --connect-timeout",
    ),
    ("70", "internal error"),
    (
        "75",
        "held by another or paused, or for wait: not done, and time ran out (-E changes it); for status --check: held or paused",
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

/// Returns the table as plain text in two columns, for `--help`.
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
    use super::{Status, TABLE, help};

    #[test]
    fn help_lists_every_status() {
        insta::assert_snapshot!(help());
    }

    #[test]
    fn every_constant_is_in_the_table() {
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
    fn status_of_a_signal_is_128_plus_n() {
        assert_eq!(Status::from_signal(15).code(), 143);
        assert_eq!(Status::from_signal(64).code(), 192);
    }
}
