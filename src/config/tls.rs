//! Which TLS is in force when nobody, or somebody in part, said so.
//!
//! The rule: a mode that was given holds; files with certificates without a mode ask for the full
//! check; else nothing on the machine itself and the full check on a network. There is no mode that
//! falls back to plain text by itself.

use std::net::IpAddr;
use std::path::PathBuf;

use super::error::Error;
use crate::store::target::{Address, SslMode, Tls};

/// The settings for `address`.
pub(super) fn settings(
    address: &Address,
    mode: Option<SslMode>,
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
) -> Result<Tls, Error> {
    let identity = match (cert, key) {
        (Some(cert), Some(key)) => Some((cert, key)),
        (None, None) => None,
        (Some(_), None) => return Err(Error::usage(lonely("ssl-cert", "ssl-key"))),
        (None, Some(_)) => return Err(Error::usage(lonely("ssl-key", "ssl-cert"))),
    };
    let has_files = ca.is_some() || identity.is_some();
    let (mode, chosen) = match (mode, address) {
        (Some(mode), _) => (mode, true),
        (None, Address::Socket(_)) => (SslMode::Disabled, false),
        (None, Address::Tcp { .. }) if has_files => (SslMode::VerifyIdentity, true),
        (None, Address::Tcp { host, .. }) if is_this_machine(host) => (SslMode::Disabled, false),
        (None, Address::Tcp { .. }) => (SslMode::VerifyIdentity, false),
    };
    Ok(Tls {
        mode,
        chosen,
        ca,
        identity,
    })
}

fn lonely(given: &str, missing: &str) -> String {
    let variable = missing.to_uppercase().replace('-', "_");
    format!("{given} is given without {missing}: set --{missing} (DLOCK_{variable}) too")
}

/// Whether `host` never leaves the machine. Names other than `localhost` are not looked up: what
/// the name server says now is no promise for the connection.
fn is_this_machine(host: &str) -> bool {
    host.parse::<IpAddr>().map_or_else(
        |_| {
            host.strip_suffix('.')
                .unwrap_or(host)
                .eq_ignore_ascii_case("localhost")
        },
        |address| address.to_canonical().is_loopback(),
    )
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::settings;
    use crate::exit::Status;
    use crate::store::target::{Address, SslMode, Tls};

    fn tcp(host: &str) -> Address {
        Address::Tcp {
            host: host.to_owned(),
            port: 3306,
        }
    }

    #[test]
    fn only_what_stays_on_the_machine_goes_without_tls_by_default() {
        for (host, wanted) in [
            ("localhost", SslMode::Disabled),
            ("LocalHost.", SslMode::Disabled),
            ("127.0.0.1", SslMode::Disabled),
            ("127.9.9.9", SslMode::Disabled),
            ("::1", SslMode::Disabled),
            ("::ffff:127.0.0.1", SslMode::Disabled),
            ("db", SslMode::VerifyIdentity),
            ("localhost.example", SslMode::VerifyIdentity),
            ("127.0.0.1.example", SslMode::VerifyIdentity),
            ("10.0.0.1", SslMode::VerifyIdentity),
            ("0.0.0.0", SslMode::VerifyIdentity),
            ("::", SslMode::VerifyIdentity),
            ("::ffff:10.0.0.1", SslMode::VerifyIdentity),
            ("fe80::1%lo", SslMode::VerifyIdentity),
        ] {
            let tls = settings(&tcp(host), None, None, None, None).expect("good");
            assert_eq!((tls.mode, tls.chosen), (wanted, false), "{host}");
        }
    }

    #[test]
    fn a_mode_that_is_given_holds_everywhere() {
        for address in [
            tcp("localhost"),
            tcp("db"),
            Address::Socket("/run/sock".into()),
        ] {
            for mode in [SslMode::Disabled, SslMode::Required, SslMode::VerifyCa] {
                let ca = Some(PathBuf::from("/ca"));
                let tls = settings(&address, Some(mode), ca.clone(), None, None).expect("good");
                assert_eq!(
                    tls,
                    Tls {
                        mode,
                        chosen: true,
                        ca,
                        identity: None
                    }
                );
            }
        }
    }

    #[test]
    fn certificates_without_a_mode_ask_for_the_full_check() {
        let path = |text: &str| Some(PathBuf::from(text));
        for host in ["localhost", "127.0.0.1", "db"] {
            let tls = settings(&tcp(host), None, path("/ca"), None, None).expect("good");
            assert_eq!((tls.mode, tls.chosen), (SslMode::VerifyIdentity, true));
            let tls = settings(&tcp(host), None, None, path("/c"), path("/k")).expect("good");
            assert_eq!((tls.mode, tls.chosen), (SslMode::VerifyIdentity, true));
            assert_eq!(tls.identity, Some(("/c".into(), "/k".into())));
        }
        let socket = Address::Socket("/run/sock".into());
        let tls = settings(&socket, None, path("/ca"), None, None).expect("good");
        assert_eq!((tls.mode, tls.chosen), (SslMode::Disabled, false));
    }

    #[test]
    fn a_certificate_and_its_key_come_together() {
        let path = || Some(PathBuf::from("/x"));
        for (cert, key, wanted) in [
            (path(), None, "--ssl-key (DLOCK_SSL_KEY)"),
            (None, path(), "--ssl-cert (DLOCK_SSL_CERT)"),
        ] {
            let error = settings(&tcp("db"), None, None, cert, key).expect_err("half");
            assert!(error.to_string().contains(wanted), "{error}");
            assert_eq!(error.status(), Status::USAGE);
        }
    }
}
