//! What one source says, which may be little, and how two sources make one.
//!
//! Merging is field by field. Host and socket are one field, [`Place`], so that a host named by a
//! higher source silences the socket of a lower one and the other way round: a lock taken on the
//! wrong server protects nothing.

use std::path::PathBuf;

use crate::store::target::{Secret, SslMode};

/// Where the server is, before the port is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// A checked host name or literal, without brackets.
    Host(String),
    /// The path of a Unix socket.
    Socket(PathBuf),
}

/// The settings of one source, or of several merged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Partial {
    pub(super) place: Option<Place>,
    pub(super) port: Option<u16>,
    pub(super) user: Option<String>,
    /// Empty means: none, and do not ask a lower source.
    pub(super) password: Option<Secret>,
    pub(super) database: Option<String>,
    pub(super) ssl_mode: Option<SslMode>,
    pub(super) ssl_ca: Option<PathBuf>,
    pub(super) ssl_cert: Option<PathBuf>,
    pub(super) ssl_key: Option<PathBuf>,
}

impl Partial {
    /// These settings, and for what they leave open, those of `lower`.
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
