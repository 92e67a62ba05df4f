//! The settings of one source, which may be incomplete, and the merge of two sources.
//!
//! Settings are merged field by field. Host and socket are one field, [`Endpoint`], so that a host from a higher source
//! overrides the socket of a lower one and vice versa. A lock that is acquired on the wrong server protects nothing.

use std::path::PathBuf;

use crate::store::target::{Secret, SslMode};

/// The address of the server without the port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// A checked host name or IP literal, without brackets.
    Host(String),
    /// The path of a Unix socket.
    Socket(PathBuf),
}

/// The settings of one source, or of several merged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Partial {
    pub(super) place: Option<Endpoint>,
    pub(super) port: Option<u16>,
    pub(super) user: Option<String>,
    /// An empty password means that there is no password and that lower sources are not used.
    pub(super) password: Option<Secret>,
    pub(super) database: Option<String>,
    pub(super) ssl_mode: Option<SslMode>,
    pub(super) ssl_ca: Option<PathBuf>,
    pub(super) ssl_cert: Option<PathBuf>,
    pub(super) ssl_key: Option<PathBuf>,
}

impl Partial {
    /// Merges these settings with those of `lower`, which are used for missing fields.
    pub(super) fn or(self, lower: Self) -> Self {
        Self {
            place: self.place.or(lower.place),
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
