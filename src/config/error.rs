//! What was wrong with the connection settings, and the exit status that it leads to.
//!
//! The message names options, files and lines. It must never hold a value: where the value comes
//! from a place that may hold a password, the text is a [`Fault`](super::value::Fault), which is
//! fixed when dlock is built.

use std::fmt;

use crate::exit::Status;

/// Settings that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    message: String,
    status: Status,
}

impl Error {
    /// The command line or the environment is wrong.
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            status: Status::USAGE,
        }
    }

    /// A file that the command line names is wrong.
    pub(super) fn file(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            status: Status::CONFIG,
        }
    }

    /// What to exit with: [`Status::USAGE`] or [`Status::CONFIG`].
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
