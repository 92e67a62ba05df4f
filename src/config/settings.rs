//! The settings of one source, which may be incomplete, and the merge of two sources.
//!
//! Settings are merged field by field. Host and socket are one field, [`Endpoint`], so that a host from one source
//! overrides a socket from a source with lower precedence, and vice versa. Otherwise dlock could acquire the lock on
//! the wrong server.

use std::path::PathBuf;

use crate::store::target::{Secret, SslMode};

/// The host or the socket of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// A valid host name or IP address, without brackets.
    Host(String),
    /// The path of a Unix socket.
    Socket(PathBuf),
}

/// The settings of one source, or of several merged sources. None means that none of these sources sets the field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Partial {
    pub(super) endpoint: Option<Endpoint>,
    pub(super) port: Option<u16>,
    pub(super) user: Option<String>,
    /// If the password is empty, dlock logs in without a password. An empty password also overrides sources with lower
    /// precedence.
    pub(super) password: Option<Secret>,
    pub(super) database: Option<String>,
    pub(super) ssl_mode: Option<SslMode>,
    pub(super) ssl_ca: Option<PathBuf>,
    pub(super) ssl_cert: Option<PathBuf>,
    pub(super) ssl_key: Option<PathBuf>,
}

impl Partial {
    /// Fills missing fields from `lower`, the settings with lower precedence.
    pub(super) fn or(self, lower: Self) -> Self {
        Self {
            endpoint: self.endpoint.or(lower.endpoint),
            port: self.port.or(lower.port),
            user: self.user.or(lower.user),
            password: self.password.or(lower.password),
            database: self.database.or(lower.database),
            ssl_mode: self.ssl_mode.or(lower.ssl_mode),
            ssl_ca: self.ssl_ca.or(lower.ssl_ca),
            ssl_cert: self.ssl_cert.or(lower.ssl_cert),
            ssl_key: self.ssl_key.or(lower.ssl_key),
        }
    }
}
