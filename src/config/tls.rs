//! The TLS settings of a connection, with defaults for settings that the user has not set.
//!
//! A mode that the user has set always applies. The default over TCP is `verify_identity` if the user has set
//! certificate files, or if the host is neither `localhost` nor a loopback address. In all other cases, the default is
//! no TLS. If a mode requires TLS, dlock does not fall back to an unencrypted connection.

use std::net::IpAddr;

use super::error::Error;
use super::settings::{Setting, Settings};
use super::value;
use crate::store::target::{Address, SslMode, Tls};

/// Returns the TLS settings for a connection to `address`.
pub(super) fn settings(address: &Address, settings: &Settings) -> Result<Tls, Error> {
    let mode = settings.parsed(Setting::SslMode, value::ssl_mode)?;
    let path = |setting| settings.parsed(setting, value::path);
    let ca = path(Setting::SslCa)?;
    let identity = match (path(Setting::SslCert)?, path(Setting::SslKey)?) {
        (Some(cert), Some(key)) => Some((cert, key)),
        (None, None) => None,
        (Some(_), None) => return Err(Error::usage(incomplete_pair("ssl-cert", "ssl-key"))),
        (None, Some(_)) => return Err(Error::usage(incomplete_pair("ssl-key", "ssl-cert"))),
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

fn incomplete_pair(given: &str, missing: &str) -> String {
    let variable = missing.to_uppercase().replace('-', "_");
    format!("{given} is set without {missing}; also set --{missing} (DLOCK_{variable})")
}

/// Returns true if `host` is `localhost` or a loopback address. Does not resolve other names, because the name server
/// may return a different address when dlock connects.
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
    use super::settings;
    use crate::config::settings::{Setting, Settings};
    use crate::exit::Status;
    use crate::store::target::{Address, SslMode, Tls};

    fn tcp(host: &str) -> Address {
        Address::Tcp {
            host: host.to_owned(),
            port: 3306,
        }
    }

    fn given(pairs: &[(Setting, &str)]) -> Settings {
        let mut settings = Settings::default();
        for (setting, text) in pairs {
            let set = settings.set(*setting, (*text).to_owned(), "--x");
            set.expect("the value is valid");
        }
        settings
    }

    #[test]
    fn only_local_connections_default_to_no_tls() {
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
            let tls = settings(&tcp(host), &given(&[])).expect("the settings are valid");
            assert_eq!((tls.mode, tls.chosen), (wanted, false), "{host}");
        }
    }

    #[test]
    fn explicit_mode_always_applies() {
        for address in [
            tcp("localhost"),
            tcp("db"),
            Address::Socket("/run/sock".into()),
        ] {
            for mode in [SslMode::Disabled, SslMode::Required, SslMode::VerifyCa] {
                let text = mode.to_string();
                let given = given(&[(Setting::SslMode, &text), (Setting::SslCa, "/ca")]);
                let tls = settings(&address, &given).expect("the settings are valid");
                assert_eq!(
                    tls,
                    Tls {
                        mode,
                        chosen: true,
                        ca: Some("/ca".into()),
                        identity: None
                    }
                );
            }
        }
    }

    #[test]
    fn certificates_without_a_mode_select_verify_identity() {
        let ca = given(&[(Setting::SslCa, "/ca")]);
        let identity = given(&[(Setting::SslCert, "/c"), (Setting::SslKey, "/k")]);
        for host in ["localhost", "127.0.0.1", "db"] {
            let tls = settings(&tcp(host), &ca).expect("the settings are valid");
            assert_eq!((tls.mode, tls.chosen), (SslMode::VerifyIdentity, true));
            let tls = settings(&tcp(host), &identity).expect("the settings are valid");
            assert_eq!((tls.mode, tls.chosen), (SslMode::VerifyIdentity, true));
            assert_eq!(tls.identity, Some(("/c".into(), "/k".into())));
        }
        let socket = Address::Socket("/run/sock".into());
        let tls = settings(&socket, &ca).expect("the settings are valid");
        assert_eq!((tls.mode, tls.chosen), (SslMode::Disabled, false));
    }

    #[test]
    fn certificate_requires_its_key_and_vice_versa() {
        for (setting, wanted) in [
            (Setting::SslCert, "--ssl-key (DLOCK_SSL_KEY)"),
            (Setting::SslKey, "--ssl-cert (DLOCK_SSL_CERT)"),
        ] {
            let half = given(&[(setting, "/x")]);
            let error = settings(&tcp("db"), &half).expect_err("the pair is incomplete");
            assert!(error.to_string().contains(wanted), "{error}");
            assert_eq!(error.status(), Status::USAGE);
        }
    }
}
