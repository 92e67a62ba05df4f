//! Where the database is and how to get in: what `config` collects and `store::mysql` connects to.
//!
//! Plain values; nothing here reads a file or opens a socket. The password lives in [`Secret`],
//! which cannot be printed by accident.

use std::fmt;
use std::path::PathBuf;

/// A text that must reach the server and nothing else: no `Display`, and `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps `text`, of which no copy should be kept.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// The text itself, for the driver's `pass`.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The server's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A host name or an IP literal (no brackets) and a port.
    Tcp {
        /// Name or literal; every address that it resolves to is tried.
        host: String,
        /// TCP port, 3306 unless told otherwise.
        port: u16,
    },
    /// A Unix socket.
    Socket(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Socket(path) => path.display().fmt(f),
        }
    }
}

/// How far the server is to be trusted; the words are the `mysql` client's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum SslMode {
    /// No TLS.
    Disabled,
    /// TLS without a check of the certificate.
    Required,
    /// TLS, and the certificate is signed by a known authority.
    VerifyCa,
    /// TLS, and the certificate is signed by a known authority and names the host.
    VerifyIdentity,
}

impl fmt::Display for SslMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Disabled => "disabled",
            Self::Required => "required",
            Self::VerifyCa => "verify_ca",
            Self::VerifyIdentity => "verify_identity",
        })
    }
}

/// TLS settings in force for one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// What is checked.
    pub mode: SslMode,
    /// Whether somebody asked for `mode`, as opposed to the default for the address.
    pub chosen: bool,
    /// PEM file with authorities trusted besides the built-in public ones.
    pub ca: Option<PathBuf>,
    /// PEM files of our own certificate chain and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// One database on one server, and who we are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Where the server listens.
    pub address: Address,
    /// Account name.
    pub user: String,
    /// Password, if any.
    pub password: Option<Secret>,
    /// Database that holds dlock's tables.
    pub database: String,
    /// TLS settings; of no effect on a Unix socket.
    pub tls: Tls,
}
