//! The settings of one source, which may be incomplete, and the merge of two sources.
//!
//! Settings are merged field by field. Host and socket are one field, [`Endpoint`], so that a host from one source
//! overrides a socket from a source with lower precedence, and vice versa. Otherwise dlock could acquire the lock on
//! the wrong server.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::store::target::{Secret, SslMode};

/// The hosts or the socket of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// The hosts, in the order in which dlock tries them. There is at least one.
    Hosts(Vec<HostEntry>),
    /// The path of a Unix socket.
    Socket(PathBuf),
}

/// One entry of a list of hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostEntry {
    /// A valid host name or IP address, without brackets.
    pub(super) host: String,
    /// The port of this entry. None uses the port of all entries that have none.
    pub(super) port: Option<u16>,
}

/// Returns true if `hosts` is only `localhost`, without a port. As in the `mysql` client, a socket is then allowed.
pub(super) fn is_localhost(hosts: &[HostEntry]) -> bool {
    matches!(hosts, [HostEntry { host, port: None }] if host.eq_ignore_ascii_case("localhost"))
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

    /// Returns the names of the fields that are set, as option files spell them.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        let endpoint = self.endpoint.as_ref().map(|endpoint| match endpoint {
            Endpoint::Hosts(_) => "host",
            Endpoint::Socket(_) => "socket",
        });
        [
            endpoint,
            self.port.map(|_| "port"),
            self.user.as_ref().map(|_| "user"),
            self.password.as_ref().map(|_| "password"),
            self.database.as_ref().map(|_| "database"),
            self.ssl_mode.map(|_| "ssl-mode"),
            self.ssl_ca.as_ref().map(|_| "ssl-ca"),
            self.ssl_cert.as_ref().map(|_| "ssl-cert"),
            self.ssl_key.as_ref().map(|_| "ssl-key"),
        ]
        .into_iter()
        .flatten()
    }
}

/// Settings, and where each of them is set.
#[derive(Debug, Default)]
pub(super) struct Source {
    pub(super) settings: Partial,
    /// The origin of each setting in `settings`: an option, an environment variable, a path, or a path and a line.
    pub(super) origins: BTreeMap<&'static str, String>,
}

impl Source {
    /// Returns the source with `settings`. `origin` returns the origin of the setting with the given name.
    pub(super) fn new(settings: Partial, origin: impl Fn(&'static str) -> String) -> Self {
        let origins = settings.names().map(|name| (name, origin(name))).collect();
        Self { settings, origins }
    }

    /// Adds the settings of `lower` that are missing.
    pub(super) fn or(self, lower: Self) -> Self {
        let settings = self.settings.or(lower.settings);
        let mut origins = lower.origins;
        origins.extend(self.origins);
        let names: Vec<&str> = settings.names().collect();
        // An overridden host is still in `origins` if the server is a socket, and vice versa.
        origins.retain(|name, _| names.contains(name));
        Self { settings, origins }
    }

    /// Returns the origin of the host or the socket. None if neither is set.
    pub(super) fn server_origin(&self) -> Option<&str> {
        let origin = |name| self.origins.get(name).map(String::as_str);
        origin("host").or_else(|| origin("socket"))
    }
}
