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
