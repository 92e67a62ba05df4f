//! Facts about a new connection to the server, for `-v`.

use std::fmt;

use super::target::{Address, SslMode};

/// A connection that was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectedServer {
    /// Address of the server.
    pub address: Address,
    /// Version of the server, as the server reports it. None if the first request failed.
    pub version: Option<String>,
    /// TLS mode of the connection. None if the connection does not use TLS.
    pub tls: Option<SslMode>,
    /// Id of the session. Contains only the lower 32 bits of the id.
    pub session_id: u32,
    /// Hosts that dlock did not use, in the order in which it tried them. Empty with one host.
    pub skipped: Vec<SkippedHost>,
}

/// A host that dlock did not use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedHost {
    /// Address of the host.
    pub address: Address,
    /// Reason, in one line. It may contain text from the server. The code that prints the reason escapes it.
    pub reason: String,
}

/// Maximum length in bytes of the reason why a host is not used.
const MAX_REASON: usize = 300;

impl SkippedHost {
    /// Returns the host with a reason that is truncated to its maximum length.
    #[must_use]
    pub fn new(address: Address, reason: impl Into<String>) -> Self {
        let mut reason = reason.into();
        reason.truncate(reason.floor_char_boundary(MAX_REASON));
        Self { address, reason }
    }
}

impl fmt::Display for SkippedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host {} is not used: {}", self.address, self.reason)
    }
}

impl fmt::Display for ConnectedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connected to {} (", self.address)?;
        if let Some(version) = &self.version {
            write!(f, "server version {version}, ")?;
        }
        match self.tls {
            Some(mode) => write!(f, "TLS with --ssl-mode {mode}")?,
            None => f.write_str("no TLS")?,
        }
        write!(f, ", session {})", self.session_id)
    }
}
