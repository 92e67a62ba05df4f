//! The grammar of `serve`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// The examples in the help text.
const EXAMPLES: &str = "\
dlock serve                                    # the page http://127.0.0.1:7878/\n\
dlock serve --listen unix:/run/dlock.sock      # for a proxy with TLS and a login\n\
dlock serve --listen 0.0.0.0:7878 --token-file /etc/dlock.token";

/// Options of `serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = super::footer::footer(EXAMPLES), after_long_help = super::footer::long_footer("serve", EXAMPLES))]
pub struct ServeArgs {
    /// Address of the page: IP:PORT, localhost:PORT or unix:PATH.
    ///
    /// With port 0, the kernel chooses a free port, and dlock prints it. Every user of the machine can read the
    /// page on a loopback address. On a Unix socket, only users with write permission on the socket can.
    #[arg(
        long,
        env = "DLOCK_OPT_LISTEN",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:7878"
    )]
    pub listen: Listen,

    /// File with the token that clients must send, at least 16 bytes.
    ///
    /// This option is required unless dlock listens on a loopback address or a Unix socket. Programs send the
    /// token as a bearer token; browsers ask for a password, which is the token. dlock does not encrypt: use a
    /// proxy with TLS if others can read the network traffic.
    #[arg(long, env = "DLOCK_OPT_TOKEN_FILE", value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    /// Additional host name with which browsers reach the page, for example the name of a proxy; this option may be
    /// repeated.
    #[arg(long, value_name = "NAME")]
    pub allow_host: Vec<String>,

    /// Minimum time between two queries to the server.
    #[arg(
        long,
        env = "DLOCK_OPT_INTERVAL",
        value_name = "INTERVAL",
        default_value = "2s"
    )]
    #[arg(value_parser = super::watch::interval)]
    pub interval: Duration,
}

/// The address on which the page is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// A TCP address.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl Listen {
    /// Returns true if only processes of this machine can connect.
    #[must_use]
    pub const fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

impl FromStr for Listen {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let localhost = text.strip_prefix("localhost:");
        match (text.strip_prefix("unix:"), localhost.map(str::parse)) {
            (Some(path), _) if !path.is_empty() => Ok(Self::Unix(path.into())),
            (None, Some(Ok(port))) => Ok(Self::Tcp((Ipv4Addr::LOCALHOST, port).into())),
            (None, None) => text.parse().map(Self::Tcp).map_err(|_| EXPECTED),
            _ => Err(EXPECTED),
        }
    }
}

/// The message about a value that is not an address.
const EXPECTED: &str = "must be IP:PORT, localhost:PORT or unix:PATH, for example 127.0.0.1:7878";

#[cfg(test)]
mod tests {
    use super::Listen;

    #[test]
    fn address_is_an_ip_address_with_a_port_or_a_path() {
        for (text, wanted) in [
            ("127.0.0.1:7878", true),
            ("localhost:0", true),
            ("[::1]:80", true),
            ("unix:/run/x", true),
            ("0.0.0.0:80", false),
            ("10.0.0.1:80", false),
            ("[::]:80", false),
        ] {
            let address: Listen = text.parse().expect("an address");
            assert_eq!(address.is_local(), wanted, "{text}");
        }
        for text in [
            "",
            "7878",
            ":7878",
            "localhost",
            "localhost:x",
            "unix:",
            "example.org:80",
        ] {
            assert!(text.parse::<Listen>().is_err(), "{text}");
        }
    }
}
