//! What the options of one group, `[client]` or `[dlock]`, mean to dlock.
//!
//! Holds what was set so far; the last one wins, as in the `mysql` client. Knows MySQL's `ssl-mode`
//! and MariaDB's `ssl` and `ssl-verify-server-cert`, of which one mode is made in the end. Does not
//! know files or lines.

use std::path::PathBuf;

use super::partial::{Partial, Place};
use super::value::{self, Fault};
use crate::store::target::{Secret, SslMode};

/// What became of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Assignment {
    /// It is one of ours.
    Done,
    /// It is one of ours and holds a password.
    Sensitive,
    /// It is none of ours.
    Unknown,
}

/// The options of one group.
#[derive(Default)]
pub(super) struct Group {
    host: Option<String>,
    socket: Option<PathBuf>,
    ssl: Option<bool>,
    verify: Option<bool>,
    rest: Partial,
}

impl Group {
    /// Takes `key`, spelled with `-`, without `loose-`.
    pub(super) fn assign(&mut self, key: &str, text: Option<String>) -> Result<Assignment, Fault> {
        if let Some((switch, on)) = self.switch(key) {
            let given = text.as_deref().map_or(Ok(true), value::switch)?;
            *switch = Some(given == on);
            return Ok(Assignment::Done);
        }
        let Some(setter) = setter(key) else {
            return Ok(Assignment::Unknown);
        };
        // For `password` the client would ask on the terminal.
        let text = text.ok_or("needs a value")?;
        setter(self, text)
    }

    /// The switch that `key` turns, and whether `key` turns it on.
    fn switch(&mut self, key: &str) -> Option<(&mut Option<bool>, bool)> {
        let (key, on) = ["skip-", "disable-"]
            .iter()
            .find_map(|prefix| key.strip_prefix(prefix))
            .map_or((key, true), |rest| (rest, false));
        match key.strip_prefix("enable-").filter(|_| on).unwrap_or(key) {
            "ssl" => Some((&mut self.ssl, on)),
            "ssl-verify-server-cert" => Some((&mut self.verify, on)),
            _ => None,
        }
    }

    /// What the group says as a whole.
    pub(super) fn into_partial(self) -> Partial {
        // As in the client, the socket is the way to localhost only. Debian puts one into [client];
        // it must not turn a host that is named beside it into this machine.
        let place = match (self.host, self.socket) {
            (Some(host), Some(socket)) if host.eq_ignore_ascii_case("localhost") => {
                Some(Place::Socket(socket))
            }
            (Some(host), _) => Some(Place::Host(host)),
            (None, socket) => socket.map(Place::Socket),
        };
        let ssl_mode = self.rest.ssl_mode.or(match (self.ssl, self.verify) {
            (Some(false), _) => Some(SslMode::Disabled),
            (_, Some(false)) => Some(SslMode::Required),
            // As from MariaDB 11.4 on; older clients looked at no certificate here.
            (Some(true), _) | (_, Some(true)) => Some(SslMode::VerifyIdentity),
            (None, None) => None,
        });
        Partial {
            place,
            ssl_mode,
            ..self.rest
        }
    }
}

type Setter = fn(&mut Group, String) -> Result<Assignment, Fault>;

/// How the value of `key` is taken; `None` when `key` is none of ours.
fn setter(key: &str) -> Option<Setter> {
    let setter: Setter = match key {
        "host" => |group, text| done(&mut group.host, value::host(&text)),
        "port" => |group, text| done(&mut group.rest.port, value::port(&text)),
        "socket" => |group, text| done(&mut group.socket, value::path(&text)),
        "user" => |group, text| done(&mut group.rest.user, value::name(&text)),
        "database" => |group, text| done(&mut group.rest.database, value::name(&text)),
        "ssl-mode" => |group, text| done(&mut group.rest.ssl_mode, value::ssl_mode(&text)),
        "ssl-ca" => |group, text| done(&mut group.rest.ssl_ca, value::path(&text)),
        "ssl-cert" => |group, text| done(&mut group.rest.ssl_cert, value::path(&text)),
        "ssl-key" => |group, text| done(&mut group.rest.ssl_key, value::path(&text)),
        "password" => |group, text| {
            let sensitive = !text.is_empty();
            group.rest.password = Some(Secret::new(text));
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

fn done<T>(field: &mut Option<T>, value: Result<T, Fault>) -> Result<Assignment, Fault> {
    *field = Some(value?);
    Ok(Assignment::Done)
}

#[cfg(test)]
mod tests {
    use super::{Assignment, Group};
    use crate::config::partial::{Partial, Place};
    use crate::store::target::SslMode;

    /// The group that has `options`, each `key` or `key=value`.
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
                group.assign(key, value),
                Ok(Assignment::Unknown),
                "{option}"
            );
        }
        group.into_partial()
    }

    #[test]
    fn a_socket_is_the_way_to_localhost_only() {
        let host = |name: &str| Some(Place::Host(name.to_owned()));
        let socket = || Some(Place::Socket("/s".into()));
        for (options, wanted) in [
            (&["host=db"][..], host("db")),
            (&["socket=/s"], socket()),
            (&["host=localhost"], host("localhost")),
            (&["host=localhost", "socket=/s"], socket()),
            (&["socket=/s", "host=db"], host("db")),
            (&["socket=/s", "host=127.0.0.1"], host("127.0.0.1")),
            (&["user=u"], None),
        ] {
            assert_eq!(group(options).place, wanted, "{options:?}");
        }
    }

    #[test]
    fn the_switches_of_mariadb_become_one_mode() {
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
    fn the_last_one_wins() {
        assert_eq!(group(&["user=a", "user=b"]).user.as_deref(), Some("b"));
    }

    #[test]
    fn values_that_are_missing_or_bad_are_refused() {
        for (key, value, wanted) in [
            ("host", None, "needs a value"),
            ("password", None, "needs a value"),
            ("host", Some(""), "is empty"),
            ("user", Some(""), "is empty"),
            ("port", Some("x"), "must be a number from 1 to 65535"),
            ("ssl", Some("maybe"), "must be on or off"),
        ] {
            let outcome = Group::default().assign(key, value.map(str::to_owned));
            assert_eq!(outcome, Err(wanted), "{key}");
        }
    }

    #[test]
    fn an_empty_password_is_no_secret() {
        let mut group = Group::default();
        assert_eq!(
            group.assign("password", Some(String::new())),
            Ok(Assignment::Done)
        );
        assert_eq!(
            group.assign("password", Some("p".into())),
            Ok(Assignment::Sensitive)
        );
        assert_eq!(
            group.assign("pass", Some("p".into())),
            Ok(Assignment::Unknown)
        );
    }
}
