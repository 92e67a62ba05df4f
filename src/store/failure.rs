//! Failures of a request, and their meaning for the protocol.

use std::fmt;

use crate::exit::Status;

/// Reason why a request has no response.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Failure {
    /// Meaning for the protocol.
    pub kind: FailureKind,
    /// One-line message for users. It may contain text from the server. The code that prints the message escapes it.
    pub message: String,
}

/// Meaning of a failure for the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// There is no connection, or the server does not accept writes. A retry may help.
    Unreachable,
    /// The server is up, but has no free connection for this account. A retry may help.
    TooManyConnections,
    /// The server aborted the request, for example because of a conflict with another session. An immediate retry may
    /// help.
    Conflict,
    /// The request was sent, but no usable response arrived.
    Unknown,
    /// The server refused the login. If an earlier login succeeded, a retry may help, because the server may be
    /// starting or an administrator may be changing the account. Otherwise a retry does not help.
    LoginRefused,
    /// The account lacks a privilege, or uses an authentication plugin that dlock does not support. A retry does not
    /// help.
    Denied,
    /// The configuration of dlock, of the server or of the database must be changed. A retry does not help.
    Config,
    /// A proxy shares the sessions of the server among its clients, and refuses packets with several statements. A
    /// retry does not help.
    SharedSessions,
    /// The session to be killed does not exist.
    NoSuchSession,
    /// A table does not exist.
    NoTables,
    /// The server refuses named locks. The same request without the queue lock may succeed.
    NoQueueLock,
}

impl FailureKind {
    /// Returns the exit status of a dlock process that ends because of this failure.
    #[must_use]
    pub const fn status(self) -> Status {
        match self {
            Self::Unreachable
            | Self::TooManyConnections
            | Self::Conflict
            | Self::NoSuchSession
            | Self::Unknown
            | Self::NoQueueLock => Status::UNAVAILABLE,
            Self::LoginRefused | Self::Denied => Status::DENIED,
            Self::Config | Self::NoTables | Self::SharedSessions => Status::CONFIG,
        }
    }
}

impl Failure {
    /// Returns a failure with a one-line message for users.
    #[must_use]
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
