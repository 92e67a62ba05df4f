//! The meaning of the options of one group, `[client]` or `[dlock]`.
//!
//! A group stores the options that have been read. If an option is repeated, the last value applies, as in the `mysql`
//! client. This module supports MySQL's `ssl-mode` and MariaDB's `ssl` and `ssl-verify-server-cert`, and combines these
//! options into one TLS mode. It does not process files or lines.

use super::settings::{Setting, Settings};
use super::value::{self, InvalidValue};
use crate::store::target::SslMode;

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

/// Returns the options that dlock uses, as messages list them.
pub(super) fn known_options() -> String {
    let names: Vec<&str> = Setting::ALL.iter().map(|setting| setting.name()).collect();
    format!("{}, {SSL} and {VERIFY}", names.join(", "))
}

/// The options of one group.
#[derive(Default)]
pub(super) struct Group {
    settings: Settings,
    ssl: Option<Switch>,
    verify: Option<Switch>,
}

/// A switch of MariaDB.
struct Switch {
    is_on: bool,
    /// The file and the line.
    place: String,
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
        if let Some((switch, on)) = self.switch(key) {
            let given = text.as_deref().map_or(Ok(true), value::switch)?;
            *switch = Some(Switch {
                is_on: given == on,
                place: place.to_owned(),
            });
            return Ok(Assignment::Done);
        }
        let Ok(setting) = key.parse::<Setting>() else {
            return Ok(Assignment::Unknown);
        };
        // If `password` has no value, the `mysql` client prompts for the password. dlock does not prompt.
        let text = text.ok_or("needs a value")?;
        let is_password = setting == Setting::Password && !text.is_empty();
        self.settings.set(setting, text, place)?;
        Ok(match is_password {
            true => Assignment::Sensitive,
            false => Assignment::Done,
        })
    }

    /// Returns the switch that `key` sets, and whether `key` turns the switch on. None if `key` is not a switch.
    fn switch(&mut self, key: &str) -> Option<(&mut Option<Switch>, bool)> {
        let (key, on) = ["skip-", "disable-"]
            .iter()
            .find_map(|prefix| key.strip_prefix(prefix))
            .map_or((key, true), |rest| (rest, false));
        match key.strip_prefix("enable-").filter(|_| on).unwrap_or(key) {
            SSL => Some((&mut self.ssl, on)),
            VERIFY => Some((&mut self.verify, on)),
            _ => None,
        }
    }

    /// Combines the options of the group into settings.
    pub(super) fn into_settings(mut self) -> Settings {
        // As in the `mysql` client, the socket is used only if the host is localhost or not set. Debian sets a socket
        // in [client], which must not override a different host in the same group.
        self.settings.prefer_socket_to_localhost();
        if self.settings.contains(Setting::Host) {
            self.settings.remove(Setting::Socket);
        }
        let (mode, switch) = match (self.ssl, self.verify) {
            (Some(ssl), _) if !ssl.is_on => (SslMode::Disabled, ssl),
            (_, Some(verify)) if !verify.is_on => (SslMode::Required, verify),
            // The client of MariaDB 11.4 and later does the same. Older clients do not verify the certificate in this
            // case.
            (Some(switch), _) | (None, Some(switch)) => (SslMode::VerifyIdentity, switch),
            (None, None) => return self.settings,
        };
        if !self.settings.contains(Setting::SslMode) {
            let text = mode.to_string();
            self.settings
                .set_valid(Setting::SslMode, text, &switch.place);
        }
        self.settings
    }
}

#[cfg(test)]
mod tests {
    use super::{Assignment, Group};
    use crate::config::settings::{Setting, Settings};

    /// Returns the settings of a group with `options`. Each option is `key` or `key=value`.
    #[track_caller]
    fn group(options: &[&str]) -> Settings {
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
        group.into_settings()
    }

    #[test]
    fn socket_is_used_only_for_localhost() {
        let socket = ("socket", "/s");
        for (options, wanted) in [
            (&["host=db"][..], ("host", "db")),
            (&["host=a,b:3307"], ("host", "a,b:3307")),
            (&["host=localhost,b", "socket=/s"], ("host", "localhost,b")),
            (&["socket=/s"], socket),
            (&["host=localhost"], ("host", "localhost")),
            (&["host=localhost", "socket=/s"], socket),
            (&["socket=/s", "host=db"], ("host", "db")),
            (&["socket=/s", "host=127.0.0.1"], ("host", "127.0.0.1")),
        ] {
            assert_eq!(group(options).texts(), [wanted], "{options:?}");
        }
    }

    #[test]
    fn mariadb_switches_are_combined_into_one_mode() {
        for (options, wanted) in [
            (&["user=u"][..], None),
            (&["ssl"], Some("verify_identity")),
            (&["ssl=1"], Some("verify_identity")),
            (&["enable-ssl"], Some("verify_identity")),
            (&["ssl=OFF"], Some("disabled")),
            (&["skip-ssl"], Some("disabled")),
            (&["disable-ssl"], Some("disabled")),
            (&["skip-ssl=0"], Some("verify_identity")),
            (&["ssl", "skip-ssl"], Some("disabled")),
            (&["ssl-verify-server-cert"], Some("verify_identity")),
            (&["ssl", "ssl-verify-server-cert=0"], Some("required")),
            (&["skip-ssl-verify-server-cert"], Some("required")),
            (&["skip-ssl", "ssl-verify-server-cert"], Some("disabled")),
            (&["ssl-mode=VERIFY_CA", "skip-ssl"], Some("VERIFY_CA")),
        ] {
            let found = group(options);
            assert_eq!(found.text(Setting::SslMode), wanted, "{options:?}");
        }
    }

    #[test]
    fn last_value_of_a_repeated_option_applies() {
        assert_eq!(group(&["user=a", "user=b"]).texts(), [("user", "b")]);
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
        for (options, setting, wanted) in [
            (&["socket=/s", "host=db"][..], Setting::Host, "f:2"),
            (&["socket=/s", "host=localhost"], Setting::Socket, "f:1"),
            (&["user=a", "user=b"], Setting::User, "f:2"),
            (&["ssl-mode=VERIFY_CA", "skip-ssl"], Setting::SslMode, "f:1"),
            (
                &["skip-ssl", "ssl-verify-server-cert"],
                Setting::SslMode,
                "f:1",
            ),
            (
                &["ssl", "ssl-verify-server-cert=0"],
                Setting::SslMode,
                "f:2",
            ),
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
            let settings = group.into_settings();
            assert_eq!(settings.origin(setting), Some(wanted), "{options:?}");
        }
    }
}
