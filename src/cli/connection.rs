//! The connection options, which all subcommands share.
//!
//! This module contains only the grammar. `config` reads the files that these options specify, and merges the settings.

use std::path::PathBuf;

use clap::ArgMatches;
use clap::parser::ValueSource;

use crate::store::target::SslMode;

/// Connection options.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Connection")]
pub struct ConnectionArgs {
    /// Server and database, as mysql://USER@HOST/DATABASE.
    ///
    /// The full format is mysql://[USER[:PASSWORD]@][HOST[:PORT][,...]][/DATABASE][?KEY=VALUE&...]. KEY
    /// is socket, ssl-mode, ssl-ca, ssl-cert or ssl-key. Special characters must be percent-encoded.
    ///
    /// Other users of the machine can read the command line. Therefore pass a password with DLOCK_URL,
    /// --url-file, --password-file, DLOCK_PASSWORD or --defaults-file.
    #[arg(
        long,
        env = "DLOCK_URL",
        hide_env_values = true,
        value_name = "URL",
        global = true
    )]
    pub url: Option<String>,

    /// File that contains the URL, for example a mounted Kubernetes secret.
    #[arg(long, env = "DLOCK_URL_FILE", value_name = "PATH", global = true)]
    pub url_file: Option<PathBuf>,

    /// Option file in the format of the mysql client; dlock reads the groups [client] and [dlock].
    #[arg(long, env = "DLOCK_DEFAULTS_FILE", value_name = "PATH", global = true)]
    pub defaults_file: Option<PathBuf>,

    /// Host name or address of the server, or a list of hosts: HOST[:PORT][,...].
    ///
    /// With several hosts, dlock uses the first one that accepts writes. All of them must store the same
    /// database. See SEVERAL HOSTS in dlock-connection(7).
    #[arg(long, env = "DLOCK_HOST", value_name = "HOSTS", global = true)]
    pub host: Option<String>,

    /// TCP port of the hosts that specify no port [default: 3306].
    #[arg(long, env = "DLOCK_PORT", value_name = "PORT", global = true, value_parser = port)]
    pub port: Option<u16>,

    /// Unix socket of the server, instead of host and port.
    #[arg(long, env = "DLOCK_SOCKET", value_name = "PATH", global = true)]
    pub socket: Option<PathBuf>,

    /// User name of the account on the server.
    #[arg(long, env = "DLOCK_USER", value_name = "USER", global = true)]
    pub user: Option<String>,

    /// File that contains the password; dlock ignores a trailing newline.
    ///
    /// Alternatively, the variable DLOCK_PASSWORD can contain the password.
    #[arg(long, env = "DLOCK_PASSWORD_FILE", value_name = "PATH", global = true)]
    pub password_file: Option<PathBuf>,

    /// Database that contains dlock's tables.
    #[arg(long, env = "DLOCK_DATABASE", value_name = "NAME", global = true)]
    pub database: Option<String>,

    /// TLS mode [default: verify_identity; disabled for localhost, loopback addresses and Unix sockets].
    ///
    /// If --ssl-ca or --ssl-cert is set, the default for localhost and loopback addresses is also
    /// verify_identity.
    #[arg(
        long,
        env = "DLOCK_SSL_MODE",
        value_enum,
        value_name = "MODE",
        ignore_case = true,
        global = true
    )]
    pub ssl_mode: Option<SslMode>,

    /// PEM file with CA certificates that dlock trusts in addition to the public certificate authorities.
    #[arg(long, env = "DLOCK_SSL_CA", value_name = "PATH", global = true)]
    pub ssl_ca: Option<PathBuf>,

    /// PEM file with the client certificate, if the server requires one.
    #[arg(long, env = "DLOCK_SSL_CERT", value_name = "PATH", global = true)]
    pub ssl_cert: Option<PathBuf>,

    /// PEM file with the private key for the certificate in --ssl-cert.
    #[arg(long, env = "DLOCK_SSL_KEY", value_name = "PATH", global = true)]
    pub ssl_key: Option<PathBuf>,

    /// The names of the options that are given on the command line. The other options come from environment variables.
    #[arg(skip)]
    pub on_command_line: Vec<String>,
}

impl ConnectionArgs {
    /// Returns true if a URL, a URL file or an option file is set. Each of them can contain any connection setting.
    #[must_use]
    pub const fn names_a_source(&self) -> bool {
        self.url.is_some() || self.url_file.is_some() || self.defaults_file.is_some()
    }

    /// Notes which options in `matches` are given on the command line.
    pub fn note_command_line(&mut self, matches: &ArgMatches) {
        let is_typed = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let ids = matches.ids().map(clap::Id::as_str).filter(is_typed);
        self.on_command_line = ids.map(|id| id.replace('_', "-")).collect();
    }
}

/// Parses a TCP port. `config` refuses 0.
///
/// # Errors
/// Fails if `text` is not a port. Names the cause if Kubernetes has set `DLOCK_PORT`.
fn port(text: &str) -> Result<u16, &'static str> {
    text.parse().map_err(|_| match text.contains("://") {
        true => {
            "Kubernetes sets DLOCK_PORT for a Service with the name dlock; \
             set enableServiceLinks: false in the spec of the pod"
        }
        false => "must be a number from 1 to 65535",
    })
}
