//! An error in the connection settings, with its exit status.
//!
//! The message may contain the names of options and files, and line numbers. It must never contain the value of a
//! setting. If the value is invalid, the reason in the message is an [`InvalidValue`](super::value::InvalidValue),
//! which is a constant string.

use std::fmt;

use crate::exit::Status;

/// An error in the connection settings, as a message for users and an exit status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    message: String,
    status: Status,
}

impl Error {
    /// Creates an error about the command line or the environment.
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            status: Status::USAGE,
        }
    }

    /// Creates an error about a file that the command line, the environment or an option file specifies.
    pub(super) fn file(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            status: Status::CONFIG,
        }
    }

    /// Returns the exit status: [`Status::USAGE`] or [`Status::CONFIG`].
    #[must_use]
    pub const fn status(&self) -> Status {
        self.status
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
