//! The meaning of the options of one group, `[client]` or `[dlock]`.
//!
//! A group stores the options that have been read. If an option is repeated, the last value applies, as in the `mysql`
//! client. This module supports MySQL's `ssl-mode` and MariaDB's `ssl` and `ssl-verify-server-cert`, and combines these
//! options into one TLS mode. It does not process files or lines.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::settings::{Endpoint, HostEntry, Partial, Source, is_localhost};
use super::value::{self, InvalidValue};
use crate::store::target::{Secret, SslMode};

/// The result of [`Group::assign`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Assignment {
    /// dlock uses the option.
    Done,
    /// dlock uses the option, and its value is a password.
    Sensitive,
    /// dlock does not use the option.
    Unknown,
}

/// MariaDB's switch for TLS.
const SSL: &str = "ssl";

/// MariaDB's switch for the verification of the server's certificate.
const VERIFY: &str = "ssl-verify-server-cert";

/// The options that dlock uses, as messages list them.
pub(super) const KNOWN: &str = "host, port, socket, user, password, database, ssl-mode, ssl-ca, ssl-cert, ssl-key, \
                                ssl and ssl-verify-server-cert";

/// The options of one group.
#[derive(Default)]
pub(super) struct Group {
    hosts: Option<Vec<HostEntry>>,
    socket: Option<PathBuf>,
    ssl: Option<bool>,
    verify: Option<bool>,
    other: Partial,
    /// The file and the line of the last value of each setting.
    places: BTreeMap<String, String>,
}

impl Group {
    /// Sets the option `key`, which is spelled with `-` and has no `loose-` prefix. `place` is the file and the line of
    /// the option.
    pub(super) fn assign(
        &mut self,
        key: &str,
        text: Option<String>,
        place: &str,
    ) -> Result<Assignment, InvalidValue> {
        if let Some((name, switch, on)) = self.switch(key) {
            let given = text.as_deref().map_or(Ok(true), value::switch)?;
            *switch = Some(given == on);
            self.places.insert(name.to_owned(), place.to_owned());
            return Ok(Assignment::Done);
        }
        let Some(setter) = setter(key) else {
            return Ok(Assignment::Unknown);
        };
        // If `password` has no value, the `mysql` client prompts for the password. dlock does not prompt.
        let text = text.ok_or("needs a value")?;
        self.places.insert(key.to_owned(), place.to_owned());
        setter(self, text)
    }

    /// Returns the switch that `key` sets, its name, and whether `key` turns the switch on. None if `key` is not a
    /// switch.
    fn switch(&mut self, key: &str) -> Option<(&'static str, &mut Option<bool>, bool)> {
        let (key, on) = ["skip-", "disable-"]
            .iter()
            .find_map(|prefix| key.strip_prefix(prefix))
            .map_or((key, true), |rest| (rest, false));
        match key.strip_prefix("enable-").filter(|_| on).unwrap_or(key) {
            SSL => Some((SSL, &mut self.ssl, on)),
            VERIFY => Some((VERIFY, &mut self.verify, on)),
            _ => None,
        }
    }

    /// Combines the options of the group into settings.
    pub(super) fn into_source(self) -> Source {
        // As in the `mysql` client, the socket is used only if the host is localhost or not set. Debian sets a socket
        // in [client], which must not override a different host in the same group.
        let endpoint = match (self.hosts, self.socket) {
            (Some(hosts), Some(socket)) if is_localhost(&hosts) => Some(Endpoint::Socket(socket)),
            (Some(hosts), _) => Some(Endpoint::Hosts(hosts)),
            (None, socket) => socket.map(Endpoint::Socket),
        };
        let (ssl_mode, ssl_mode_key) = match (self.other.ssl_mode, self.ssl, self.verify) {
            (Some(mode), ..) => (Some(mode), "ssl-mode"),
            (_, Some(false), _) => (Some(SslMode::Disabled), SSL),
            (_, _, Some(false)) => (Some(SslMode::Required), VERIFY),
            // The client of MariaDB 11.4 and later does the same. Older clients do not verify the certificate in this
            // case.
            (_, Some(true), _) => (Some(SslMode::VerifyIdentity), SSL),
            (_, _, Some(true)) => (Some(SslMode::VerifyIdentity), VERIFY),
            (None, None, None) => (None, SSL),
        };
        let settings = Partial {
            endpoint,
            ssl_mode,
            ..self.other
        };
        let places = self.places;
        Source::new(settings, |name| {
            let key = if name == "ssl-mode" {
                ssl_mode_key
            } else {
                name
            };
            places.get(key).cloned().unwrap_or_default()
        })
    }
}

type Setter = fn(&mut Group, String) -> Result<Assignment, InvalidValue>;

/// Returns the function that sets the value of `key`. None if dlock does not use `key`.
fn setter(key: &str) -> Option<Setter> {
    let setter: Setter = match key {
        "host" => |group, text| set(&mut group.hosts, value::hosts(&text)),
        "port" => |group, text| set(&mut group.other.port, value::port(&text)),
        "socket" => |group, text| set(&mut group.socket, value::path(&text)),
        "user" => |group, text| set(&mut group.other.user, value::name(&text)),
        "database" => |group, text| set(&mut group.other.database, value::name(&text)),
        "ssl-mode" => |group, text| set(&mut group.other.ssl_mode, value::ssl_mode(&text)),
        "ssl-ca" => |group, text| set(&mut group.other.ssl_ca, value::path(&text)),
        "ssl-cert" => |group, text| set(&mut group.other.ssl_cert, value::path(&text)),
        "ssl-key" => |group, text| set(&mut group.other.ssl_key, value::path(&text)),
        "password" => |group, text| {
            let sensitive = !text.is_empty();
            group.other.password = Some(Secret::new(text));
            Ok(if sensitive {
                Assignment::Sensitive
            } else {
                Assignment::Done
            })
        },
        _ => return None,
    };
    Some(setter)
}

fn set<T>(
    field: &mut Option<T>,
    value: Result<T, InvalidValue>,
) -> Result<Assignment, InvalidValue> {
    *field = Some(value?);
    Ok(Assignment::Done)
}

#[cfg(test)]
mod tests {
    use super::{Assignment, Group, value};
    use crate::config::settings::{Endpoint, Partial};
    use crate::store::target::SslMode;

    /// Returns the settings of a group with `options`. Each option is `key` or `key=value`.
    #[track_caller]
    fn group(options: &[&str]) -> Partial {
        let mut group = Group::default();
        for option in options {
            let (key, value) = option
                .split_once('=')
                .map_or((*option, None), |(key, value)| {
                    (key, Some(value.to_owned()))
                });
            assert_ne!(
                group.assign(key, value, "f:1"),
                Ok(Assignment::Unknown),
                "{option}"
            );
        }
        group.into_source().settings
    }

    #[test]
    fn socket_is_used_only_for_localhost() {
        let host = |text: &str| value::hosts(text).ok().map(Endpoint::Hosts);
        let socket = || Some(Endpoint::Socket("/s".into()));
        for (options, wanted) in [
            (&["host=db"][..], host("db")),
            (&["host=a,b:3307"], host("a,b:3307")),
            (&["host=localhost,b", "socket=/s"], host("localhost,b")),
            (&["socket=/s"], socket()),
            (&["host=localhost"], host("localhost")),
            (&["host=localhost", "socket=/s"], socket()),
            (&["socket=/s", "host=db"], host("db")),
            (&["socket=/s", "host=127.0.0.1"], host("127.0.0.1")),
            (&["user=u"], None),
        ] {
            assert_eq!(group(options).endpoint, wanted, "{options:?}");
        }
    }

    #[test]
    fn mariadb_switches_are_combined_into_one_mode() {
        for (options, wanted) in [
            (&["user=u"][..], None),
            (&["ssl"], Some(SslMode::VerifyIdentity)),
            (&["ssl=1"], Some(SslMode::VerifyIdentity)),
            (&["enable-ssl"], Some(SslMode::VerifyIdentity)),
            (&["ssl=OFF"], Some(SslMode::Disabled)),
            (&["skip-ssl"], Some(SslMode::Disabled)),
            (&["disable-ssl"], Some(SslMode::Disabled)),
            (&["skip-ssl=0"], Some(SslMode::VerifyIdentity)),
            (&["ssl", "skip-ssl"], Some(SslMode::Disabled)),
            (&["ssl-verify-server-cert"], Some(SslMode::VerifyIdentity)),
            (
                &["ssl", "ssl-verify-server-cert=0"],
                Some(SslMode::Required),
            ),
            (&["skip-ssl-verify-server-cert"], Some(SslMode::Required)),
            (
                &["skip-ssl", "ssl-verify-server-cert"],
                Some(SslMode::Disabled),
            ),
            (&["ssl-mode=VERIFY_CA", "skip-ssl"], Some(SslMode::VerifyCa)),
        ] {
            assert_eq!(group(options).ssl_mode, wanted, "{options:?}");
        }
    }

    #[test]
    fn last_value_of_a_repeated_option_applies() {
        assert_eq!(group(&["user=a", "user=b"]).user.as_deref(), Some("b"));
    }

    #[test]
    fn missing_and_invalid_values_are_refused() {
        for (key, value, wanted) in [
            ("host", None, "needs a value"),
            ("password", None, "needs a value"),
            ("host", Some(""), "is empty"),
            ("user", Some(""), "is empty"),
            ("port", Some("x"), "must be a number from 1 to 65535"),
            ("ssl", Some("maybe"), "must be on or off"),
        ] {
            let outcome = Group::default().assign(key, value.map(str::to_owned), "f:1");
            assert_eq!(outcome, Err(wanted), "{key}");
        }
    }

    #[test]
    fn empty_password_is_not_sensitive() {
        let mut group = Group::default();
        assert_eq!(
            group.assign("password", Some(String::new()), "f:1"),
            Ok(Assignment::Done)
        );
        assert_eq!(
            group.assign("password", Some("p".into()), "f:1"),
            Ok(Assignment::Sensitive)
        );
        assert_eq!(
            group.assign("pass", Some("p".into()), "f:1"),
            Ok(Assignment::Unknown)
        );
    }

    #[test]
    fn origin_is_the_line_of_the_option_that_decides() {
        for (options, name, wanted) in [
            (&["socket=/s", "host=db"][..], "host", "f:2"),
            (&["socket=/s", "host=localhost"], "socket", "f:1"),
            (&["user=a", "user=b"], "user", "f:2"),
            (&["ssl-mode=VERIFY_CA", "skip-ssl"], "ssl-mode", "f:1"),
            (&["skip-ssl", "ssl-verify-server-cert"], "ssl-mode", "f:1"),
            (&["ssl", "ssl-verify-server-cert=0"], "ssl-mode", "f:2"),
        ] {
            let mut group = Group::default();
            for (option, line) in options.iter().zip(1..) {
                let (key, value) = match option.split_once('=') {
                    Some((key, value)) => (key, Some(value.to_owned())),
                    None => (*option, None),
                };
                let assigned = group.assign(key, value, &format!("f:{line}"));
                assert_eq!(assigned, Ok(Assignment::Done), "{option}");
            }
            let source = group.into_source();
            assert_eq!(
                source.origins.get(name).map(String::as_str),
                Some(wanted),
                "{options:?}"
            );
        }
    }

    #[test]
    fn list_of_known_options_is_complete() {
        for name in super::KNOWN.replace(" and ", ", ").split(", ") {
            let value = match name {
                "port" => "1",
                "ssl" | "ssl-verify-server-cert" => "on",
                "ssl-mode" => "required",
                _ => "x",
            };
            let assigned = Group::default().assign(name, Some(value.to_owned()), "f:1");
            assert!(
                matches!(assigned, Ok(Assignment::Done | Assignment::Sensitive)),
                "{name}"
            );
        }
    }
}
