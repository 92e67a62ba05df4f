//! Address and credentials of the database. `config` collects them, and `store::mysql` connects with them.
//!
//! The types are plain values, and their functions read no files and open no sockets. The password is a [`Secret`],
//! which cannot be printed by accident.

use std::fmt;
use std::path::PathBuf;

use strum::Display;

/// A string that dlock may send only to the server. It does not implement `Display`, and its `Debug` output does not
/// contain the string.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps `text`. The caller should not keep a copy of the string.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// Returns the string. The caller must not print it.
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

/// Address of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// Host and port.
    Tcp {
        /// Host name, or IP address without brackets. dlock tries the addresses that a host name resolves to until a
        /// server responds.
        host: String,
        /// TCP port. The default is 3306.
        port: u16,
    },
    /// Path of a Unix socket.
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

/// TLS mode of the connection. The values have the same names as in the `mysql` client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Display)]
#[strum(serialize_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum SslMode {
    /// No TLS.
    Disabled,
    /// TLS. The certificate is not verified.
    Required,
    /// TLS with a certificate that is signed by a trusted authority.
    VerifyCa,
    /// TLS with a certificate that is signed by a trusted authority and names the host.
    VerifyIdentity,
}

/// TLS settings of one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// TLS mode.
    pub mode: SslMode,
    /// True if the user set `mode`. False if `mode` is the default for the address.
    pub chosen: bool,
    /// PEM file with CA certificates that dlock trusts in addition to the public certificate authorities. None trusts
    /// only the public certificate authorities.
    pub ca: Option<PathBuf>,
    /// PEM files that contain the client's certificate chain and its private key. None sends no certificate.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// One database on one server, and the account to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Address of the server.
    pub address: Address,
    /// Name of the account.
    pub user: String,
    /// Password of the account. None logs in without a password.
    pub password: Option<Secret>,
    /// Database that contains dlock's tables.
    pub database: String,
    /// TLS settings. They have no effect on a Unix socket.
    pub tls: Tls,
}

/// The servers of one database, in the order in which dlock tries them. They have the same account and the same name of
/// the database. There is at least one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Targets {
    first: Target,
    others: Vec<Target>,
}

impl Targets {
    /// Returns the server that dlock tries first.
    #[must_use]
    pub const fn first(&self) -> &Target {
        &self.first
    }

    /// Returns the servers in order.
    pub fn iter(&self) -> impl Iterator<Item = &Target> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Returns true if there is more than one server.
    #[must_use]
    pub const fn are_several(&self) -> bool {
        !self.others.is_empty()
    }

    /// Returns true if the addresses can lead to another server. A Unix socket cannot.
    #[must_use]
    pub fn can_move(&self) -> bool {
        let is_tcp = |target: &Target| matches!(target.address, Address::Tcp { .. });
        self.iter().any(is_tcp)
    }

    /// Returns the name of the database that contains dlock's tables.
    #[must_use]
    pub fn database(&self) -> &str {
        &self.first.database
    }
}

impl From<Target> for Targets {
    fn from(first: Target) -> Self {
        let others = Vec::new();
        Self { first, others }
    }
}

impl Extend<Target> for Targets {
    fn extend<T: IntoIterator<Item = Target>>(&mut self, others: T) {
        self.others.extend(others);
    }
}

/// Prints the addresses, separated by commas.
impl fmt::Display for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first.address.fmt(f)?;
        let mut others = self.others.iter();
        others.try_for_each(|target| write!(f, ",{}", target.address))
    }
}
