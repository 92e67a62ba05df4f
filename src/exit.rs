//! The exit statuses of dlock. The help prints [`TABLE`], and a test compares the tables in dlock(7) and the README
//! with it.
//!
//! If the command ran, dlock usually exits with the command's status. dlock's own statuses follow `sysexits.h` if that
//! file defines a status for the case, and otherwise `timeout(1)`, `env(1)` and the shell. This module never ends the
//! process; `main` does.

use std::fmt;

use crate::lease::action::Action;

/// The exit status of the process, 0 to 255.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(u8);

impl Status {
    /// Success. For `status --check`: no action is held or paused.
    pub const OK: Self = Self(0);
    /// The command line or an environment variable is invalid, or the user did not confirm a release (`EX_USAGE`).
    pub const USAGE: Self = Self(64);
    /// `release` found nothing to release or resume (`EX_NOINPUT`).
    pub const NOTHING: Self = Self(66);
    /// The server could not be reached or did not respond in time (`EX_UNAVAILABLE`).
    pub const UNAVAILABLE: Self = Self(69);
    /// A defect in dlock or an operating-system failure (`EX_SOFTWARE`).
    pub const INTERNAL: Self = Self(70);
    /// The action was held or paused until the maximum waiting time had passed (`EX_TEMPFAIL`), as in lockf(1) and
    /// lckdo(1).
    pub const HELD: Self = Self(75);
    /// The lease was lost or could not be renewed. Other tools have no status for this case. The status must not be 137
    /// or 143, which users of Kubernetes interpret as out of memory and as a normal stop.
    pub const LOST: Self = Self(76);
    /// The server denied access, or privileges are missing (`EX_NOPERM`).
    pub const DENIED: Self = Self(77);
    /// The configuration is invalid: unknown database, missing or incompatible tables, invalid file, or TLS failure
    /// (`EX_CONFIG`).
    pub const CONFIG: Self = Self(78);
    /// The command ran for longer than `--max-runtime`, as in timeout(1).
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

    /// Returns 128 + `signal`, the status that a shell reports for a process that `signal` killed.
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

/// The reason why dlock exits with one of its own statuses. Functions return it as an error; `main` prints it once.
#[derive(Debug)]
pub struct ExitError {
    /// The exit status.
    pub status: Status,
    /// The reason as one line of text for users.
    pub why: String,
    /// The kind of reason. It cannot be derived from the status, because `-E` changes the status.
    pub cause: ExitCause,
}

/// The kind of reason why dlock exits before the command has finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExitCause {
    /// A failure.
    Failed,
    /// A signal ended the wait.
    Interrupted,
    /// The holder with this name had the lease until the maximum waiting time had passed.
    Held(String),
    /// The run of the holder with this name has already succeeded, so no other run is needed.
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

    /// Sets the cause.
    #[must_use]
    pub fn because(mut self, cause: ExitCause) -> Self {
        self.cause = cause;
        self
    }

    /// Creates the error for a `signal` that ended the wait for `action`.
    #[must_use]
    pub fn interrupted(signal: i32, action: &Action) -> Self {
        let why = format!("signal {signal} while waiting for {action}");
        Self::new(Status::from_signal(signal), why).because(ExitCause::Interrupted)
    }

    /// Returns the name of the holder whose lease or success prevented the run. None for any other cause.
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

/// Every exit status: (number or description, meaning).
pub const TABLE: &[(&str, &str)] = &[
    (
        "the command's own",
        "passed on unchanged; 128+n if signal n killed the command",
    ),
    (
        "0",
        "the command or the dlock subcommand succeeded; for status --check: no action is held or paused",
    ),
    (
        "64",
        "usage error: the command line or an environment variable is invalid, the ttl is too short, or release was not confirmed",
    ),
    ("66", "for release: there was nothing to release or resume"),
    (
        "69",
        "the server could not be reached or did not respond in time; for exec and wait, --connect-timeout sets the limit",
    ),
    ("70", "internal error"),
    (
        "75",
        "the action was held or paused, or sessions of an earlier run had not ended on the server, until the waiting time ran out (for exec, -E changes this status); for wait --done: no success until the timeout; for status --check: an action is held or paused",
    ),
    (
        "76",
        "the lease was lost or could not be renewed, and the command was stopped; with --once or --once-per: the command's success could not be recorded; for check and release: the token is not current",
    ),
    ("77", "the server denied access, or privileges are missing"),
    (
        "78",
        "configuration error: unknown database, missing or incompatible tables, invalid file, or TLS failure; for doctor: a check failed",
    ),
    ("124", "the command ran for longer than --max-runtime"),
    ("126", "the command was found but cannot be executed"),
    ("127", "the command was not found"),
    ("128+n", "signal n ended dlock before it started a command"),
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
