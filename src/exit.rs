//! The exit statuses of dlock, and the table that describes them.
//!
//! If the command ran, dlock usually exits with the command's status. dlock's own statuses follow `sysexits.h` if that
//! file defines a status for the case, and otherwise `timeout(1)`, `env(1)` and the shell. This module never ends the
//! process; `main` does.

mod table;

use std::fmt;

pub use self::table::{OFFLINE, TABLE, TableRow, help, row_of, rows};

use crate::sys::signal_name;

/// The exit status of the process, 0 to 255.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(u8);

impl Status {
    /// Success. For `status --check`: no action is held or paused.
    pub const OK: Self = Self(0);
    /// The command line or an environment variable is invalid, or the user did not confirm a release (`EX_USAGE`).
    pub const USAGE: Self = Self(64);
    /// `release` found nothing to release, pause or resume (`EX_NOINPUT`).
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

    /// Returns words for the end of a run for which dlock chose this status.
    #[must_use]
    pub const fn run_end(self) -> &'static str {
        match self {
            Self::TIMED_OUT => "timed out",
            Self::NOT_EXECUTABLE | Self::NOT_FOUND => "not started",
            Self::LOST => "lease lost",
            _ => "failed",
        }
    }

    /// Returns the number for `exit(3)`.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }

    /// Returns true if dlock exits with this status because the command ran for too long.
    #[must_use]
    pub const fn is_time_out(self) -> bool {
        self.0 == Self::TIMED_OUT.0
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
    pub fn interrupted(signal: i32, action: impl fmt::Display) -> Self {
        let why = format!(
            "{} while waiting for {action}",
            signal_name::describe(signal)
        );
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

/// Returns `why`, followed by the exit status that dlock sets. `is_custom` is true if the user chose the status with -E.
#[must_use]
pub fn with_status(why: &str, status: Status, is_custom: bool) -> String {
    match is_custom {
        true => format!("{why} (exit status {status}, set by -E)"),
        false => format!("{why} (exit status {status}; see dlock explain {status})"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Status, TABLE, help, row_of};

    #[test]
    fn help_lists_every_status() {
        insta::assert_snapshot!(help(None));
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
                TABLE.iter().any(|row| row.status == status.to_string()),
                "{status} is missing from the table"
            );
        }
    }

    #[test]
    fn help_of_a_subcommand_lists_only_its_statuses() {
        insta::assert_snapshot!(
            ["exec", "release", "status", "version"]
                .map(|name| format!("{name}: {}", help(Some(name))))
                .join("\n")
        );
    }

    #[test]
    fn every_status_has_a_row() {
        for (code, status) in [
            (76, "76"),
            (137, "128+n"),
            (1, "the command's own"),
            (128, "the command's own"),
        ] {
            assert_eq!(row_of(code).status, status);
        }
        for code in 0..=u8::MAX {
            assert!(!row_of(code).next.is_empty(), "{code}");
        }
    }

    #[test]
    fn status_of_a_signal_is_128_plus_n() {
        assert_eq!(Status::from_signal(15).code(), 143);
        assert_eq!(Status::from_signal(64).code(), 192);
    }
}
